//! `cargo ops` as it is called from a shell, for a stack that it takes for one
//! on AWS: the variables of the AWS CLI lead it to the emulator.

use std::process::{Output, Stdio};

use ops::emulator::{ACCESS_KEY, REGION, SECRET_KEY};
use ops::local::Local;
use ops::stack::Stack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

/// The command at a terminal so wide, where somebody who reads `question` types
/// `answer`: its exit code, and what is on the screen.
pub(crate) async fn at_a_terminal(
    command: &Command,
    columns: u16,
    (question, answer): (&str, &str),
) -> (i32, String) {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let line = format!("stty cols {columns}; exec {}", words.join(" "));
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .envs(set)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut keyboard = terminal.stdin.take().unwrap();
    let mut reader = terminal.stdout.take().unwrap();
    let (mut screen, mut is_answered) = (Vec::new(), false);
    while reader.read_buf(&mut screen).await.unwrap() > 0 {
        if !is_answered && String::from_utf8_lossy(&screen).contains(question) {
            keyboard.write_all(answer.as_bytes()).await.unwrap();
            is_answered = true;
        }
    }
    let status = terminal.wait().await.unwrap();
    (status.code().unwrap(), String::from_utf8(screen).unwrap())
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
