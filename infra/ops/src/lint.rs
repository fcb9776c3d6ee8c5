//! `cargo ops lint`: three linters over the template.

use anyhow::{Result, bail};
use tokio::process::Command;

use crate::emulator::REGION;
use crate::process;
use crate::progress::Progress;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// Checks the template.
///
/// # Errors
///
/// A linter found something, which is printed.
pub async fn run(workspace: &Workspace, progress: Progress) -> Result<()> {
    let template = workspace.template();
    let tools = Tools::prepare(workspace, progress).await?;
    let mut command = tools.command("cfn-lint");
    command.arg(&template).arg(workspace.path("infra/kept.yaml"));
    check("cfn-lint", command, progress).await?;

    // What `sam deploy` would refuse.
    let tools = Tools::prepare_linter(workspace, progress, "sam").await?;
    let mut command = tools.command("sam");
    command.args(["validate", "--lint", "--template-file"]).arg(&template);
    command.env("SAM_CLI_TELEMETRY", "0").env("AWS_DEFAULT_REGION", REGION);
    check("sam validate --lint", command, progress).await?;

    let tools = Tools::prepare_linter(workspace, progress, "checkov").await?;
    let mut command = tools.command("checkov");
    // What it would download are descriptions of its rules.
    command.args(["--framework", "cloudformation", "--skip-download", "--compact", "--quiet"]);
    command.arg("--file").arg(&template);
    check("checkov", command, progress).await
}

async fn check(linter: &str, command: Command, progress: Progress) -> Result<()> {
    let step = progress.step(linter);
    let finished = process::run(command, |_| ()).await?;
    if !finished.status.success() {
        bail!("infra/template.yaml does not pass {linter}\n{}", finished.output().trim());
    }
    step.done("infra/template.yaml is clean");
    Ok(())
}
