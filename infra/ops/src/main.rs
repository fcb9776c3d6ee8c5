//! `cargo ops`: sets up, shows, checks and operates a Relevo.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use ops::cost::Load;
use ops::dev::Dev;
use ops::doctor::Doctor;
use ops::ending::Ending;
use ops::journal::Journal;
use ops::output::Format;
use ops::poll::Poll;
use ops::progress::Progress;
use ops::prove::Proof;
use ops::workspace::Workspace;
use ops::{cost, demo, dev, doctor, down, journal, lint, poll, prove, up};
use tokio::signal::unix::{SignalKind, signal};

/// What a shell reports for a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Relevo's developers' and operators' command line.
#[derive(Debug, Parser)]
#[command(name = "cargo ops", bin_name = "cargo ops", after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 it failed, and stderr says why; 2 it was called wrongly;
130 it was interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Deploys everything into an emulator, sends sample jobs, and checks each promise.
    Demo,
    /// Deploys everything into an emulator and follows the logs until Ctrl-C.
    Up {
        /// The emulator's port; a free one if it is left out.
        #[arg(long)]
        port: Option<u16>,
        #[command(flatten)]
        format: Format,
    },
    /// Ends the `up` or `dev` that runs on this machine.
    Down,
    /// Checks this machine, and the settings of the stack if there is one.
    Doctor(Doctor),
    /// Shows what both functions have logged, of one job or of all.
    Logs(Journal),
    /// Compiles and runs the functions on every change, with all they need, until Ctrl-C.
    Dev(Dev),
    /// Takes messages from the queue to a consumer that `cargo lambda watch` runs.
    Poll(Poll),
    /// Checks infra/template.yaml with cfn-lint, sam and checkov.
    Lint,
    /// Computes what a job costs in us-east-1, and how many there can be.
    Cost {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        format: Format,
    },
    /// Shows that the promises hold, for as long as one likes.
    #[command(subcommand)]
    Prove(Proof),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // Whichever comes second is dropped, and with it everything it started.
    let result = tokio::select! {
        result = run(cli.command) => result.map(ExitCode::from),
        result = stopped() => result.map(|()| ExitCode::from(INTERRUPTED)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run(command: Command) -> Result<Ending> {
    let (workspace, progress) = (Workspace::here(), Progress::detect());
    match command {
        Command::Demo => demo::run(&workspace, progress).await?,
        Command::Up { port, format } => up::run(&workspace, port, format.style(), progress).await?,
        Command::Down => return down::run(&workspace, progress).await,
        Command::Doctor(doctor) => return doctor::run(&workspace, &doctor, progress).await,
        Command::Logs(journal) => return journal::run(&workspace, &journal, progress).await,
        Command::Dev(dev) => return dev::run(&workspace, dev, progress).await,
        Command::Poll(poll) => return poll::run(&workspace, &poll, progress).await,
        Command::Lint => lint::run(&workspace, progress).await?,
        Command::Cost { load, format } => cost::print(load, format.style())?,
        Command::Prove(proof) => prove::run(&workspace, proof, progress).await?,
    }
    Ok(Ending::Done)
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
