//! `cargo ops` as it is called from a shell, for a stack that it takes for one
//! on AWS: the variables of the AWS CLI lead it to the emulator.

use std::process::{Output, Stdio};

use ops::emulator::{ACCESS_KEY, REGION, SECRET_KEY};
use ops::local::Local;
use ops::stack::Stack;
use tokio::process::Command;

/// A command for a stack; `arguments` begin with the command's name.
pub(crate) fn ops(local: &Local, stack: &Stack, arguments: &[&str]) -> Command {
    let mut command = bare(arguments);
    command
        .args(["--stack", &stack.name])
        .env("AWS_ENDPOINT_URL", local.emulator.endpoint())
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_REGION", REGION);
    command
}

/// A command that knows nothing of AWS, nor of this machine's set-up for it.
pub(crate) fn bare(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ops"));
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .args(arguments);
    command
}

/// What it wrote to stdout, having ended well.
pub(crate) async fn stdout(mut command: Command) -> String {
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Its exit code and what it wrote to stderr.
pub(crate) async fn refusal(mut command: Command) -> (i32, String) {
    let output = command.output().await.unwrap();
    (output.status.code().unwrap(), stderr(&output))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
