//! `cargo ops`: sets up, shows, checks and operates a Relevo.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use futures::FutureExt;
use ops::complaint::complaint;
use ops::completions::Shell;
use ops::cost::Load;
use ops::dev::Dev;
use ops::dlq::{self, Dlq};
use ops::doctor::Doctor;
use ops::ending::Ending;
use ops::jobs::cancel::Cancel;
use ops::jobs::status::Status;
use ops::jobs::submit::Submit;
use ops::jobs::watch::Watch;
use ops::journal::Journal;
use ops::output::{Format, NobodyReads};
use ops::poll::Poll;
use ops::progress::Progress;
use ops::prove::Proof;
use ops::queue::Queue;
use ops::up::Up;
use ops::workspace::Workspace;
use ops::{
    bench, completions, cost, demo, dev, doctor, down, jobs, journal, lint, output, poll, prove,
    queue, up,
};
use tokio::signal::unix::{SignalKind, signal};

/// Relevo's developers' and operators' command line.
#[derive(Debug, Parser)]
#[command(name = "cargo ops", bin_name = "cargo ops", after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const COST_EXAMPLES: &str = "\
Examples:
  cargo ops cost --jobs-per-day 1000000 --payload-kib 2 --job-ms 100
  cargo ops cost --jobs-per-day 5000 --payload-kib 20 --job-ms 800 --batch-size 1 --json";

const BENCH_EXAMPLES: &str = "\
Examples:
  cargo ops bench
  cargo ops bench --request my-job.json --batch-size 1 --invocations 2000";

const PROVE_EXAMPLES: &str = "\
Examples:
  cargo ops prove simulation --help
  cargo ops prove simulation
  cargo ops prove fuzz --minutes 60 http_event
  cargo ops prove soak --jobs 1000 --seed 7
  cargo ops prove dev";

const AFTER_HELP: &str = "\
Examples:
  cargo ops demo                      shows everything, on this machine
  cargo ops up                        keeps it running; and in another terminal:
  cargo ops submit --wait events/requests/report.json
  cargo ops dlq list --group          what went wrong, and how often

Exit codes: 0 done; 1 it failed, and stderr says why; 2 it was called wrongly;
3 it waited for jobs, and not all of them succeeded; 130 it was interrupted;
141 nobody reads what it says.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Deploys everything into an emulator, sends sample jobs, and checks each promise.
    #[command(after_help = "Examples:\n  cargo ops demo")]
    Demo,
    /// Deploys everything into an emulator and follows the logs until Ctrl-C.
    Up(Up),
    /// Compiles and runs the functions on every change, with all they need, until Ctrl-C.
    Dev(Dev),
    /// Ends the `up` or `dev` that runs on this machine.
    #[command(after_help = "Examples:\n  cargo ops down")]
    Down,
    /// Takes messages from the queue to a consumer that `cargo lambda watch` runs.
    Poll(Poll),
    Submit(Submit),
    Status(Status),
    Watch(Watch),
    Cancel(Cancel),
    Queue(Queue),
    /// Looks at dead letters, and does something about them.
    #[command(subcommand)]
    Dlq(Dlq),
    /// Shows what both functions have logged, of one job or of all.
    Logs(Journal),
    /// Checks this machine, and the settings of the stack if there is one.
    Doctor(Doctor),
    /// Checks infra/template.yaml with cfn-lint, sam and checkov.
    #[command(after_help = "Examples:\n  cargo ops lint")]
    Lint,
    /// Computes what a job costs, and how many there can be.
    #[command(after_help = COST_EXAMPLES)]
    Cost {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        format: Format,
    },
    /// Measures the functions on this machine: time, CPU, memory, calls.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(bench::Options),
    /// Shows that the promises hold, for as long as one likes.
    #[command(subcommand, after_help = PROVE_EXAMPLES)]
    Prove(Proof),
    /// Writes what makes a shell complete `cargo ops`, to stdout.
    #[command(after_long_help = completions::HELP)]
    Completions {
        shell: Shell,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // These give back what they hold before they end.
    let ends_itself = matches!(cli.command, Command::Dlq(_));
    // Whichever comes second is dropped, and with it everything it started.
    let result = tokio::select! {
        result = run(cli.command) => result,
        result = stopped(), if !ends_itself => result.map(|()| Ending::Interrupted),
    };
    if !ends_itself && matches!(result, Ok(Ending::Interrupted)) {
        output::say("interrupted");
    }
    match result {
        Ok(ending) => ending.into(),
        Err(error) if error.is::<NobodyReads>() => Ending::NobodyReads.into(),
        Err(error) => {
            output::say(&format!("error: {}", complaint(&error)));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<Ending> {
    let (workspace, progress) = (Workspace::here(), Progress::detect());
    match command {
        Command::Demo => demo::run(&workspace, progress).await?,
        Command::Up(up) => up::run(&workspace, up, progress).await?,
        Command::Dev(dev) => return dev::run(&workspace, dev, progress).await,
        Command::Down => return down::run(&workspace, progress).await,
        Command::Poll(poll) => return poll::run(&workspace, &poll, progress).await,
        Command::Submit(submit) => return jobs::submit::run(&workspace, &submit, progress).await,
        Command::Status(status) => jobs::status::run(&workspace, &status, progress).await?,
        Command::Watch(watch) => return jobs::watch::run(&workspace, &watch, progress).await,
        Command::Cancel(cancel) => jobs::cancel::run(&workspace, &cancel, progress).await?,
        Command::Queue(queue) => queue::run(&workspace, &queue, progress).await?,
        Command::Dlq(command) => {
            return dlq::run(&workspace, command, progress, stopped().map(drop)).await;
        }
        Command::Logs(journal) => return journal::run(&workspace, &journal, progress).await,
        Command::Doctor(doctor) => return doctor::run(&workspace, &doctor, progress).await,
        Command::Lint => lint::run(&workspace, progress).await?,
        Command::Cost { load, format } => cost::print(load, format.style())?,
        Command::Bench(options) => bench::run(&workspace, &options, progress).await?,
        Command::Prove(proof) => prove::run(&workspace, proof, progress).await?,
        Command::Completions { shell } => completions::print(shell, Cli::command())?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_do_not_contradict_one_another() {
        Cli::command().debug_assert();
    }

    /// The examples of a command, or of each one below it.
    fn examples(command: &mut clap::Command) -> Vec<String> {
        let help = command.render_long_help().to_string();
        if let Some((_, examples)) = help.split_once("\nExamples:\n") {
            let examples = examples.lines().take_while(|line| !line.is_empty());
            return examples.map(str::to_owned).collect();
        }
        let below = command.get_subcommands_mut().filter(|below| below.get_name() != "help");
        let examples: Vec<_> = below.flat_map(examples).collect();
        assert!(!examples.is_empty(), "nobody sees how it is used: {help}");
        examples
    }

    #[test]
    fn the_examples_of_the_help_are_accepted() {
        for line in Cli::command().get_subcommands_mut().flat_map(examples) {
            let calls: Vec<_> = line.split("cargo ops ").collect();
            for (before, call) in std::iter::zip(&calls, calls.iter().skip(1)) {
                let end = call.find(['|', '>', '&', ')', ';']).unwrap_or(call.len());
                // What stands far behind a call is said of it.
                let call = call[..end].split("   ").next().unwrap_or_default();
                let mut words = vec!["cargo ops"];
                words.extend(call.split_whitespace());
                // It gets its arguments from stdin.
                let from_stdin = before.ends_with("xargs ");
                words.extend(from_stdin.then_some("01a22d88-5297-7c42-8d92-706a06211937"));
                let parsed = Cli::try_parse_from(words);
                parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }
}
