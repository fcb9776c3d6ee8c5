//! `cargo ops lint`: cfn-lint over the template.

use anyhow::{Result, bail};

use crate::process;
use crate::progress::Progress;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// Checks the template.
///
/// # Errors
///
/// The linter found something, which is printed.
pub async fn run(workspace: &Workspace, progress: Progress) -> Result<()> {
    let tools = Tools::prepare(workspace, progress).await?;
    let step = progress.step("cfn-lint");
    let mut command = tools.command("cfn-lint");
    command.arg(workspace.template());
    let finished = process::run(command, |_| ()).await?;
    if !finished.status.success() {
        bail!("infra/template.yaml does not pass cfn-lint\n{}", finished.output().trim());
    }
    step.done("infra/template.yaml is clean");
    Ok(())
}
