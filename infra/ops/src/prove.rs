//! `cargo ops prove`: shows that the promises hold, for as long as one likes.

mod dev;
pub mod fuzz;
pub mod infra;
pub mod soak;
mod worlds;

use std::ffi::OsString;

use anyhow::Result;
use clap::Subcommand;

use self::soak::Plan;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// Ways to show it.
#[derive(Debug, Subcommand)]
pub enum Proof {
    /// Runs the real functions through simulated worlds full of faults.
    #[command(disable_help_flag = true)]
    Simulation {
        /// See `cargo ops prove simulation --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs the consumer through every order of events, within bounds.
    #[command(disable_help_flag = true)]
    Model {
        /// See `cargo ops prove model --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Breaks the code in many places and shows that the simulation finds out.
    #[command(disable_help_flag = true)]
    Mutations {
        /// See `cargo ops prove mutations --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
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
    /// Changes a handler while `cargo ops dev` runs, and posts jobs until the
    /// change shows.
    Dev,
    /// Deploys and updates every set of parameters, and takes each action out
    /// of the policies.
    Infra,
}

/// Gives one proof.
///
/// # Errors
///
/// It could not be given, or a promise does not hold.
pub async fn run(workspace: &Workspace, proof: Proof, progress: Progress) -> Result<()> {
    match proof {
        Proof::Simulation { arguments } => worlds::run(workspace, "simulate", &arguments).await,
        Proof::Model { arguments } => worlds::run(workspace, "model", &arguments).await,
        Proof::Mutations { arguments } => worlds::run(workspace, "mutations", &arguments).await,
        Proof::Fuzz { minutes, target } => {
            fuzz::run(workspace, minutes, target.as_deref(), progress).await
        }
        Proof::Soak { jobs, seed } => {
            soak::run(workspace, Plan { jobs, seed, with_crashes: true }, progress).await
        }
        Proof::Dev => dev::run(workspace, progress).await,
        Proof::Infra => infra::run(workspace, progress).await,
    }
}
