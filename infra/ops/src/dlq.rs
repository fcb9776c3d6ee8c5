//! `cargo ops dlq`: what to do about dead letters.
//!
//! Whatever a command does, a crash leaves each letter in the dead-letter queue,
//! or in the queue, or in both: a copy, which the claim makes harmless.

mod age;
mod ask;
mod batch;
mod edit;
mod export;
pub mod filter;
pub mod found;
mod group;
mod import;
mod indent;
pub mod letter;
pub mod line;
mod list;
mod pace;
mod purge;
pub mod queues;
pub mod reconcile;
pub mod redrive;
pub mod scan;
mod show;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Subcommand;
use futures::FutureExt;
use shared::table::DynamoJobTable;
use shared::{Clock, Timestamp};

use self::found::{Entries, Found, find_out};
use self::letter::Letter;
use self::queues::Queues;
use self::scan::{Bounds, End, Scan, Stop};
use crate::ending::Ending;
use crate::output::say;
use crate::progress::Progress;
use crate::stack::Stack;
use crate::target::Target;
use crate::workspace::Workspace;

/// What can be done about dead letters.
#[derive(Debug, Subcommand)]
pub enum Dlq {
    /// Shows why dead letters are there, without taking them off their queue.
    #[command(after_help = list::EXAMPLES)]
    List(list::Args),
    /// Shows one dead letter: its whole body, its attributes, its job's entry.
    #[command(after_help = show::EXAMPLES)]
    Show(show::Args),
    /// Sends dead letters back to the queue, unchanged, then deletes them here.
    #[command(after_help = redrive::EXAMPLES)]
    Redrive(redrive::Args),
    /// Opens a dead letter's payload in `$VISUAL` or `$EDITOR`, sends it as a new
    /// job, and deletes the letter.
    #[command(after_help = edit::EXAMPLES)]
    Edit(edit::Args),
    /// Deletes dead letters for good.
    #[command(after_help = purge::EXAMPLES)]
    Purge(purge::Args),
    /// Writes dead letters as lines of JSON, and leaves them where they are.
    #[command(after_help = export::EXAMPLES)]
    Export(export::Args),
    /// Puts exported letters into the dead-letter queue.
    #[command(after_help = import::EXAMPLES)]
    Import(import::Args),
    /// Mends the entries of jobs whose dead letters they know nothing of.
    #[command(after_help = reconcile::EXAMPLES)]
    Reconcile(reconcile::Args),
}

/// Runs a command; it ends early, but in good order, when `stop` resolves.
///
/// # Errors
///
/// There is no such stack, it did not answer, or not everything could be done
/// that was asked for.
pub async fn run(
    workspace: &Workspace,
    command: Dlq,
    progress: Progress,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<Ending> {
    let desk = Desk { workspace, progress, stop: stop.boxed().shared() };
    match command {
        Dlq::List(args) => list::run(&desk, args).await,
        Dlq::Show(args) => show::run(&desk, args).await,
        Dlq::Redrive(args) => redrive::run(&desk, args).await,
        Dlq::Edit(args) => edit::run(&desk, args).await,
        Dlq::Purge(args) => purge::run(&desk, args).await,
        Dlq::Export(args) => export::run(&desk, args).await,
        Dlq::Import(args) => import::run(&desk, args).await,
        Dlq::Reconcile(args) => reconcile::run(&desk, args).await,
    }
}

/// Where a command is given.
struct Desk<'a> {
    workspace: &'a Workspace,
    progress: Progress,
    stop: Stop,
}

impl Desk<'_> {
    /// The stack that the command is about, and the office for its dead letters.
    async fn open(&self, target: &Target) -> Result<(Stack, Office)> {
        let stack = target.find(self.workspace, self.progress).await?;
        let office = Office::of(&stack, self.progress, self.stop.clone());
        Ok((stack, office))
    }
}

/// Where the dead letters of one stack are dealt with.
#[derive(Debug)]
pub struct Office {
    /// Where they are, and where they came from.
    pub queues: Queues,
    /// The entries of their jobs.
    pub table: DynamoJobTable,
    /// Tells the time.
    pub clock: Clock,
    /// Where steps are shown.
    pub progress: Progress,
    /// Ends what is under way.
    pub stop: Stop,
    /// What its scans are bound by.
    pub bounds: Bounds,
}

impl Office {
    /// That of a stack.
    #[must_use]
    pub fn of(stack: &Stack, progress: Progress, stop: Stop) -> Self {
        Self {
            queues: Queues::of(stack),
            table: stack.connection.job_table(&stack.outputs.table_name),
            clock: Clock::system(),
            progress,
            stop,
            bounds: Bounds::DEFAULT,
        }
    }

    /// Opens a scan for `work`.
    ///
    /// # Errors
    ///
    /// As of [`scan::scan`].
    pub async fn scan<T>(&self, work: impl AsyncFnOnce(&Scan<'_>) -> Result<T>) -> Result<T> {
        scan::scan(&self.queues, self.bounds, self.stop.clone(), work).await
    }

    /// Finds out about letters.
    async fn find_out(&self, letters: Vec<Letter>, which: Entries) -> Result<Vec<Found>> {
        find_out(&self.table, letters, which, self.now()).await
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// How long the functions let an entry live after its last claim.
async fn entry_ttl(stack: &Stack) -> Result<Duration> {
    const NAME: &str = "ENTRY_TTL_DAYS";
    let variables = stack.variables(&stack.outputs.consumer).await?;
    let days: Option<u32> = variables.get(NAME).and_then(|days| days.parse().ok());
    let days = days.with_context(|| format!("the consumer's variable {NAME} is no number"))?;
    Ok(Duration::from_hours(24) * days)
}

/// Says what an end that is not complete means for what was shown or done.
fn say_if_incomplete(end: End, seen: usize) {
    match end {
        End::Complete | End::Found | End::Failed => {}
        End::Full => say(&format!(
            "stopped after {}: SQS lets {} be in flight at once, and there are more; deal with \
             some of these first, then look again",
            dead_letters(seen),
            Bounds::DEFAULT.in_flight
        )),
        End::Stopped => say(&format!("stopped after {}: there may be more", dead_letters(seen))),
    }
}

/// How a command ended that nothing else is to be said of.
fn ending(end: End) -> Ending {
    if end == End::Stopped { Ending::Interrupted } else { Ending::Done }
}

/// So many dead letters.
fn dead_letters(count: usize) -> String {
    if count == 1 { "1 dead letter".to_owned() } else { format!("{count} dead letters") }
}
