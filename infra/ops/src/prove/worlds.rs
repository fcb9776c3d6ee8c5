//! The proofs of `infra/prove`, which call the functions' own code.
//!
//! This crate knows the functions only by what they send and answer, so it runs
//! that one as a program.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::workspace::Workspace;

/// Runs one of its commands, with our terminal.
///
/// # Errors
///
/// It does not compile, or a promise does not hold; it has said so.
pub(super) async fn run(
    workspace: &Workspace,
    command: &str,
    arguments: &[OsString],
) -> Result<()> {
    let status = Command::new("cargo")
        .current_dir(workspace.path("."))
        .args(["run", "--quiet", "--profile", "e2e"])
        .args(["--package", "prove", "--example", "prove", "--", command])
        .args(arguments)
        .kill_on_drop(true)
        .status()
        .await
        .context("could not start cargo")?;
    if !status.success() {
        bail!("not proved");
    }
    Ok(())
}
