//! `cargo ops dlq redrive`: sends dead letters back to the queue.
//!
//! For each: its job's entry is set back to `queued` where the claim needs that,
//! then the message is sent, then the letter is deleted. Whatever ends the
//! command between two of these, nothing is lost, and saying it again is safe.

mod step;
mod tally;

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use futures::future::join_all;
use shared::table::{Verdict, Written};
use shared::{JobEntry, JobId, State};
use tokio::time::sleep_until;

pub(super) use self::step::is_interrupted;
use self::step::{Step, step};
use self::tally::Tally;
use super::batch::cut;
use super::filter::Filter;
use super::found::{Entries, Found, Summary};
use super::letter::Letter;
use super::line::Content;
use super::pace::Pace;
use super::scan::{End, Scan};
use super::{Desk, Office, ending, entry_ttl, list, say_if_incomplete};
use crate::ending::Ending;
use crate::output::Format;
use crate::target::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  cargo ops dlq redrive --kind webhook --dry-run      which ones it would be
  cargo ops dlq redrive --kind webhook --reason retries-exhausted
  cargo ops dlq redrive --id 01a22d88-5297-7c42-8d92-706a06211937
  cargo ops dlq redrive --all --rate 50

What has succeeded meanwhile is not done again. A job that is held, since nobody
knows whether its effect happened, may run again after this: find that out first.";

/// Which letters to send back, and how.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only shows which letters would be sent.
    #[arg(long)]
    dry_run: bool,
    /// Also sends messages of jobs so old that their entry may be gone, and with
    /// it what tells whether they succeeded.
    #[arg(long)]
    force: bool,
    /// How many letters are sent in a second at most.
    #[arg(long, value_name = "LETTERS", default_value_t = RATE,
          value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    target: Target,
}

/// Ten calls a second to send and ten to delete, which no account and no
/// emulator minds; the consumer takes them as they come.
pub const RATE: u32 = 500;

/// What is to be sent back.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which letters.
    pub filter: Filter,
    /// How many a second.
    pub rate: u32,
    /// How long entries live after their last claim.
    pub entry_ttl: Duration,
    /// Whether jobs may be older than that.
    pub force: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let (stack, office) = desk.open(&args.target).await?;
    let Args { filter, force, rate, dry_run, .. } = args;
    let style = args.format.style();
    let plan = Plan { filter, rate, entry_ttl: entry_ttl(&stack).await?, force };
    let redrive = Redrive::new(&office, &plan);
    let result = redrive.go(dry_run).await;
    let tally = redrive.tally.into_inner();
    let is_complete = matches!(result, Ok(End::Complete));
    let not_found = if is_complete { plan.filter.check_found(&tally.matched) } else { Ok(()) };
    if dry_run {
        let end = result?;
        list::show(&tally.would_be_sent, style)?;
        tally.show_refused(style)?;
        say_if_incomplete(end, tally.seen);
        not_found?;
        return Ok(ending(end));
    }
    if not_found.is_ok() || !tally.matched.is_empty() {
        // Also of a redrive that failed half way.
        tally.show(style)?;
    }
    let end = result?;
    say_if_incomplete(end, tally.seen);
    not_found?;
    tally.check()?;
    Ok(ending(end))
}

/// Sends back what `plan` says; how many letters were sent and deleted.
///
/// # Errors
///
/// Something did not answer, or a letter had to stay.
pub async fn redrive(office: &Office, plan: &Plan) -> Result<usize> {
    let redrive = Redrive::new(office, plan);
    redrive.go(false).await?;
    let tally = redrive.tally.into_inner();
    tally.check()?;
    Ok(tally.deleted)
}

struct Redrive<'a> {
    office: &'a Office,
    plan: &'a Plan,
    pace: RefCell<Pace>,
    /// Jobs whose entries were set back: their further letters are copies.
    set_back: RefCell<HashSet<JobId>>,
    /// What SQS calls the messages that were sent. One that comes back dead is
    /// left alone, or this would go on for ever.
    sent: RefCell<HashSet<String>>,
    tally: RefCell<Tally>,
}

/// A letter that is ready to be sent.
struct Ready {
    letter: Letter,
    content: Content,
}

impl<'a> Redrive<'a> {
    fn new(office: &'a Office, plan: &'a Plan) -> Self {
        Self {
            office,
            plan,
            pace: RefCell::new(Pace::per_second(plan.rate, Instant::now())),
            set_back: RefCell::default(),
            sent: RefCell::default(),
            tally: RefCell::default(),
        }
    }

    async fn go(&self, dry_run: bool) -> Result<End> {
        let what = if dry_run { "Dead letters" } else { "Dead letters, sent back" };
        let shown = self.office.progress.step(what);
        let end = self.office.scan(async |scan| {
            scan.walk(async |letters| {
                let ready = self.choose(letters, dry_run).await?;
                if !dry_run {
                    self.send_back(scan, ready).await?;
                }
                let tally = self.tally.borrow();
                shown.at(format!("{} of {} looked at", tally.deleted, tally.seen));
                Ok(())
            })
            .await
        });
        let end = end.await?;
        let tally = self.tally.borrow();
        let count = if dry_run { tally.would_be_sent.len() } else { tally.deleted };
        let told = format!("{count} of {} looked at", tally.seen);
        shown.ended(tally.refused.is_empty(), &told);
        Ok(end)
    }

    /// Those that may be sent now; their entries are set back.
    async fn choose(&self, letters: Vec<Letter>, dry_run: bool) -> Result<Vec<Ready>> {
        self.tally.borrow_mut().seen += letters.len();
        let letters = letters.into_iter().filter(|letter| !self.came_back(letter)).collect();
        let found = self.office.find_out(letters, Entries::All).await?;
        let now = self.office.now();
        let mut steps = Vec::new();
        for found in found {
            let summary = found.summary(now);
            if !self.plan.filter.matches(&summary) {
                continue;
            }
            self.tally.borrow_mut().matched.push(summary.clone());
            match step(&found, self.plan, now) {
                Step::Refuse(why) => self.refuse(summary, why),
                _ if dry_run => self.tally.borrow_mut().would_be_sent.push(summary),
                Step::Send => steps.push((found, summary, false)),
                Step::SetBackAndSend => steps.push((found, summary, true)),
            }
        }
        let made_ready =
            steps.into_iter().map(|(found, summary, back)| self.make_ready(found, summary, back));
        let ready: Result<Vec<_>> = join_all(made_ready).await.into_iter().collect();
        Ok(ready?.into_iter().flatten().collect())
    }

    fn came_back(&self, letter: &Letter) -> bool {
        let sent = self.sent.borrow();
        // SQS keeps a message's id when it moves it, and the consumer tells it.
        let names = [Some(letter.message_id.as_str()), letter.attribute("source_message_id")];
        let came_back = names.into_iter().flatten().any(|name| sent.contains(name));
        self.tally.borrow_mut().came_back += usize::from(came_back);
        came_back
    }

    fn refuse(&self, letter: Summary, why: String) {
        self.tally.borrow_mut().refused.push((letter, why));
    }

    /// Sets the entry back, if one is to be; `None` if it has changed.
    async fn make_ready(
        &self,
        found: Found,
        summary: Summary,
        set_back: bool,
    ) -> Result<Option<Ready>> {
        // One word of a person is for one run of the job: what its first letter
        // leads to is not undone for the next one.
        let is_first = |entry: &&JobEntry| self.set_back.borrow_mut().insert(entry.id);
        if let Some(entry) = found.own_entry().filter(|_| set_back).filter(is_first) {
            let now = self.office.now();
            let written = self.office.table.rule(entry, &Verdict::Again, now).await;
            match written
                .map_err(|error| anyhow!(error.describe()).context("entry not set back"))?
            {
                Written::Yes => self.tally.borrow_mut().set_back += 1,
                // The SDK's own repeat met what its first call wrote.
                Written::No(Some(there))
                    if there.state == State::Queued && there.updated_at == now =>
                {
                    self.tally.borrow_mut().set_back += 1;
                }
                Written::No(_) => {
                    let why = "somebody else has changed its entry meanwhile";
                    self.refuse(summary, why.to_owned());
                    return Ok(None);
                }
            }
        }
        let content = found.letter.message();
        Ok(Some(Ready { letter: found.letter, content }))
    }

    async fn send_back(&self, scan: &Scan<'_>, ready: Vec<Ready>) -> Result<()> {
        for batch in cut(ready, |ready| &ready.content) {
            let turn = self.pace.borrow_mut().turn(Instant::now(), batch.len());
            sleep_until(turn.into()).await;
            let contents: Vec<_> = batch.iter().map(|ready| &ready.content).collect();
            let queues = &self.office.queues;
            let answers = queues.send(&queues.source, &contents).await?;
            let mut sent = Vec::new();
            for (Ready { letter, .. }, answer) in batch.into_iter().zip(answers) {
                match answer {
                    Ok(message_id) => {
                        self.sent.borrow_mut().insert(message_id);
                        sent.push(letter);
                    }
                    Err(why) => {
                        let summary = Found::new(letter).summary(self.office.now());
                        self.refuse(summary, format!("the queue did not take it: {}", why.0));
                    }
                }
            }
            self.tally.borrow_mut().sent += sent.len();
            self.delete(scan, sent).await?;
        }
        Ok(())
    }

    async fn delete(&self, scan: &Scan<'_>, sent: Vec<Letter>) -> Result<()> {
        let ids: Vec<_> = sent.iter().map(|letter| letter.message_id.clone()).collect();
        let answers = scan.delete(&ids).await?;
        for (letter, answer) in sent.into_iter().zip(answers) {
            match answer {
                Ok(()) => self.tally.borrow_mut().deleted += 1,
                Err(why) => {
                    let summary = Found::new(letter).summary(self.office.now());
                    let why = format!("it was sent, but may still be here, a copy: {}", why.0);
                    self.refuse(summary, why);
                }
            }
        }
        Ok(())
    }
}
