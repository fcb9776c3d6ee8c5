//! `cargo ops prove`: shows that the promises hold, for as long as one likes.

pub mod fuzz;
pub mod soak;

use anyhow::Result;
use clap::Subcommand;

use self::soak::Plan;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// Ways to show it.
#[derive(Debug, Subcommand)]
pub enum Proof {
    /// Feeds the functions what a fuzzer makes up.
    Fuzz {
        /// How long each target is fuzzed.
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        /// One of the targets in infra/fuzz; all of them if it is left out.
        target: Option<String>,
    },
    /// Deploys everything into an emulator, and runs jobs while calls to AWS
    /// fail and processes are killed.
    Soak {
        /// How many jobs are asked for.
        #[arg(long, default_value_t = 10_000)]
        jobs: usize,
        /// Chooses jobs, faults and kills.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// Gives one proof.
///
/// # Errors
///
/// It could not be given, or a promise does not hold.
pub async fn run(proof: Proof, workspace: &Workspace, progress: Progress) -> Result<()> {
    match proof {
        Proof::Fuzz { minutes, target } => {
            fuzz::run(workspace, minutes, target.as_deref(), progress).await
        }
        Proof::Soak { jobs, seed } => {
            soak::run(workspace, Plan { jobs, seed, with_crashes: true }, progress).await
        }
    }
}
