//! `cargo ops`: sets up, shows and checks a Relevo on this machine.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use ops::cost::Load;
use ops::log_line::Style;
use ops::progress::Progress;
use ops::prove::Proof;
use ops::workspace::{Workspace, style_of_stdout};
use ops::{bench, cost, demo, lint, prove, up};
use tokio::signal::unix::{SignalKind, signal};

/// What a shell reports for a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Relevo on this machine: set up, show, check.
#[derive(Debug, Parser)]
#[command(name = "cargo ops", bin_name = "cargo ops")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Deploys everything into an emulator, sends sample jobs, and checks each promise.
    Demo,
    /// Deploys everything into an emulator and follows the logs until Ctrl-C.
    Up {
        /// The emulator's port; a free one if it is left out.
        #[arg(long)]
        port: Option<u16>,
        /// Shows the logs as they are written, for tools such as jq.
        #[arg(long)]
        json: bool,
    },
    /// Checks infra/template.yaml with cfn-lint, sam and checkov.
    Lint,
    /// Computes what a job costs in us-east-1, and how many there can be.
    Cost {
        #[command(flatten)]
        load: Load,
        /// Shows the figures as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measures the functions on this machine: time, CPU, memory, calls.
    Bench(bench::Options),
    /// Shows that the promises hold, for as long as one likes.
    #[command(subcommand)]
    Prove(Proof),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // Whichever comes second is dropped, and with it everything it started.
    let result = tokio::select! {
        result = run(cli.command) => result.map(|()| ExitCode::SUCCESS),
        result = stopped() => result.map(|()| ExitCode::from(INTERRUPTED)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run(command: Command) -> Result<()> {
    let (workspace, progress) = (Workspace::here(), Progress::detect());
    match command {
        Command::Demo => demo::run(&workspace, progress).await,
        Command::Up { port, json } => {
            let style = if json { Style::Json } else { style_of_stdout() };
            up::run(&workspace, port, style, progress).await
        }
        Command::Lint => lint::run(&workspace, progress).await,
        Command::Cost { load, json } => cost::print(load, json),
        Command::Bench(options) => bench::run(&workspace, &options, progress).await,
        Command::Prove(proof) => prove::run(&workspace, proof, progress).await,
    }
}

/// Returns when somebody wants us to end.
async fn stopped() -> Result<()> {
    let listen = |kind| signal(kind).context("could not listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}
