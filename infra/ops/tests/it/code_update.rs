//! New code for a deployed function, without the template.

use ops::emulator::{ACCESS_KEY, REGION, SECRET_KEY};
use ops::process;
use ops::workspace::Workspace;
use serde_json::Value;

use crate::support::{PARAMETERS, accepted, end_to_end, ended, report};

/// What the template sets, and nothing else may.
const SETTINGS: [&str; 9] = [
    "Architectures",
    "Environment",
    "Handler",
    "LoggingConfig",
    "MemorySize",
    "Role",
    "Runtime",
    "Timeout",
    "TracingConfig",
];

#[test]
fn new_code_leaves_every_setting_as_the_template_made_it() {
    end_to_end(async |local| {
        let stack = local.another_stack("code-update", &PARAMETERS).await.unwrap();
        let workspace = Workspace::here();
        let consumer = &stack.outputs.consumer;
        let query = ["lambda", "get-function-configuration", "--function-name", consumer];
        let before = stack.aws.json(&query).await.unwrap();

        // Rebuilt: another file, and still the same program.
        let folder = tempfile::tempdir().unwrap();
        let built = workspace.scratch().join("e2e/target/lambda/consumer/bootstrap");
        let rebuilt = folder.path().join("consumer/bootstrap");
        std::fs::create_dir(folder.path().join("consumer")).unwrap();
        std::fs::copy(built, &rebuilt).unwrap();
        let mut program = std::fs::read(&rebuilt).unwrap();
        program.push(0);
        std::fs::write(&rebuilt, program).unwrap();

        let mut command = local.tools.command("cargo-lambda");
        command
            .current_dir(workspace.path("."))
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .args(["lambda", "deploy", "--region", REGION, "--binary-name", "consumer"])
            .args(["--endpoint-url", &local.emulator.endpoint()])
            .arg("--lambda-dir")
            .arg(folder.path())
            .arg(consumer);
        let finished = process::run(command, |_| ()).await.unwrap();
        assert!(finished.status.success(), "{}", finished.output());

        let after = stack.aws.json(&query).await.unwrap();
        assert_ne!(after["CodeSha256"], before["CodeSha256"], "the code is still the old one");
        for setting in SETTINGS {
            assert_ne!(before[setting], Value::Null, "{setting}");
            assert_eq!(after[setting], before[setting], "{setting}");
        }
        let id = accepted(&stack, &report("After an update"), None).await;
        assert_eq!(ended(&stack, &id).await["state"], "succeeded");
    });
}
