//! Proves the promises: `cargo ops prove`.

#![expect(clippy::print_stdout, reason = "a command line")]

mod model;
mod mutations;
mod simulate;
mod simulation;

use clap::{Parser, Subcommand};

/// Relevo's promises, held against everything that may go wrong.
#[derive(Debug, Parser)]
#[command(name = "prove")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Simulate(simulate::Simulate),
    /// Runs the consumer through every order of events, within bounds
    Model(model::Bounds),
    Mutations(mutations::Mutations),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Simulate(simulate) => simulate.run(),
        Command::Model(bounds) => model::run(bounds),
        Command::Mutations(mutations) => mutations.run(),
    }
}
