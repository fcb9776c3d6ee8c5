//! What a stack keeps when it is deleted is taken up again by the next of its name.
//!
//! The first one is deployed by `sam deploy` with the committed configuration, the
//! second one after an import, as `infra/README.md` tells it.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::identity::{Identity, delete};
use super::stories::a_job_is_done;
use crate::functions;
use crate::local::Local;
use crate::process;
use crate::progress::Progress;
use crate::stack::Stack;
use crate::tools::Tools;
use crate::workspace::Workspace;

const NAME: &str = "kept";

/// Deploys with sam, with CloudFormation over it, deletes, imports, deploys again.
///
/// # Errors
///
/// One of these did not work, the two deployments differ, or something was lost.
pub(super) async fn is_taken_up_again(
    workspace: &Workspace,
    local: &Local,
    defaults: &[(String, String)],
    progress: Progress,
) -> Result<()> {
    sam_deploy(workspace, local, progress).await?;
    let by_sam = Stack::open(&local.tools, local.stack.connection.clone(), NAME).await?;

    let step = progress.step("CloudFormation, over what sam has deployed");
    let stack = super::deploy(local, NAME, defaults, ("defaults", &[])).await?;
    ensure!(
        stack.outputs == by_sam.outputs,
        "sam's {:?} are not {:?}",
        by_sam.outputs,
        stack.outputs
    );
    let identity = Identity::of(&stack).await?;
    let job = a_job_is_done(&stack, None).await?;
    step.done("the same outputs");

    let step = progress.step("Deletion with KeepData");
    delete(&stack).await?;
    ensure!(Identity::of(&stack).await? == identity, "the table or a queue has gone");
    step.done("table and queues are left");

    let step = progress.step("A new stack of the same name");
    import(workspace, &stack).await.context("what is left could not be imported")?;
    let stack = super::deploy(local, NAME, defaults, ("defaults", &[])).await?;
    ensure!(Identity::of(&stack).await? == identity, "the table or a queue is another one");
    ensure!(stack.entry(&job).await?.is_some(), "a job's entry is lost");
    a_job_is_done(&stack, None).await?;
    step.done("has the table and the queues, and knows the job that was done");
    Ok(())
}

/// `sam deploy` of the defaults, but for what this machine needs.
async fn sam_deploy(workspace: &Workspace, local: &Local, progress: Progress) -> Result<()> {
    let sam = Tools::prepare_linter(workspace, progress, "sam").await?;
    let step = progress.step("sam deploy, with infra/samconfig.toml");
    let mut command = sam.command("sam");
    local.stack.aws.set_environment(&mut command).await?;
    command.env("SAM_CLI_TELEMETRY", "0").env("HOME", local.emulator.state());
    command.args(["deploy", "--no-confirm-changeset", "--stack-name", NAME]);
    command.arg("--template-file").arg(local.template());
    command.arg("--config-file").arg(workspace.path("infra/samconfig.toml"));
    let architecture = format!("Architecture={}", functions::architecture()?);
    command.args(["--parameter-overrides", &architecture, "AuthMode=NONE"]);
    let finished = process::run(command, |_| ()).await?;
    ensure!(finished.status.success(), "sam deploy failed: {}", finished.output().trim());
    step.done("deployed");
    Ok(())
}

/// The import of `infra/README.md`.
async fn import(workspace: &Workspace, stack: &Stack) -> Result<()> {
    let kept = |kind: &str, id: &str, key: &str, value: &str| {
        json!({
            "ResourceType": kind, "LogicalResourceId": id, "ResourceIdentifier": { key: value },
        })
    };
    let outputs = &stack.outputs;
    let resources = json!([
        kept("AWS::DynamoDB::Table", "Table", "TableName", &outputs.table_name),
        kept("AWS::SQS::Queue", "Queue", "QueueUrl", &outputs.queue_url),
        kept("AWS::SQS::Queue", "DeadLetterQueue", "QueueUrl", &outputs.dead_letter_queue_url),
    ]);
    let template = format!("file://{}", workspace.path("infra/kept.yaml").display());
    let named = ["--stack-name", NAME, "--change-set-name", "kept"];
    let call = async |command: &[&str]| {
        let arguments = [&["cloudformation"], command, &named].concat();
        stack.aws.call(&arguments).await
    };
    let resources = resources.to_string();
    let mut create = vec!["create-change-set", "--change-set-type", "IMPORT"];
    create.extend(["--template-body", &template, "--resources-to-import", &resources]);
    call(&create).await?;
    call(&["wait", "change-set-create-complete"]).await?;
    call(&["execute-change-set"]).await?;
    let wait = ["cloudformation", "wait", "stack-import-complete", "--stack-name", NAME];
    stack.aws.call(&wait).await
}
