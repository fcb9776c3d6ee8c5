//! Shows that the promises hold.

mod model;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows that the promises hold.
#[derive(Debug, Parser)]
#[command(name = "prove", bin_name = "prove")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the consumer through every order of events, within bounds.
    Model(model::Bounds),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Model(bounds) => model::run(bounds),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
