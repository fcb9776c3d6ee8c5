//! `cargo ops prove`: proofs that take too long for every change.

pub mod infra;

use anyhow::Result;
use clap::Subcommand;

use crate::progress::Progress;
use crate::workspace::Workspace;

/// What can be proved.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Proof {
    /// Deploys and updates every set of parameters, and takes each action out of the policies.
    Infra,
}

/// Proves it, and prints what was seen.
///
/// # Errors
///
/// It could not be proved, or it is not so.
pub async fn run(workspace: &Workspace, proof: Proof, progress: Progress) -> Result<()> {
    match proof {
        Proof::Infra => infra::run(workspace, progress).await,
    }
}
