//! `cargo ops dlq reconcile`: entries that do not know of their dead letter.
//!
//! Where the table could not be reached at a message's last receive, or every
//! invocation that got it was killed, SQS moves the message while its job's
//! entry still says something else. Nothing is done to a job that somebody may
//! still run, or that went on after its letter was sent.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::future::join_all;
use serde::Serialize;
use shared::table::{Cause, PutIf, Verdict, Written};
use shared::{JobEntry, JobTable, State, Timestamp, reason};

use super::found::{Entries, Found, Meaning};
use super::redrive::is_interrupted;
use super::{Desk, Office, ending, entry_ttl, say_if_incomplete};
use crate::ending::Ending;
use crate::output::{Format, Style, print, print_json, table, with_ids};
use crate::target::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  cargo ops dlq reconcile      after an outage of the table, before you redrive

It reads every dead letter and writes to entries only. An attempt counts as
interrupted five minutes after its lease, since clocks differ.";

/// Where.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// An entry that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The job.
    pub job_id: String,
    /// Its dead letter.
    pub message_id: String,
    /// The entry's state before; none if there was no entry.
    pub was: Option<String>,
    /// The entry's state now.
    pub is: String,
    /// Why.
    pub reason: String,
}

/// What an entry lacks.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// Nothing.
    AsItShouldBe,
    /// It says what is no longer so.
    Mark(Verdict),
    /// It is not there.
    Make(Box<JobEntry>),
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let (stack, office) = desk.open(&args.target).await?;
    let entry_ttl = entry_ttl(&stack).await?;
    let step = office.progress.step("Dead letters, held against their jobs' entries");
    let (seen, changes) = (RefCell::new(0), RefCell::new(Vec::new()));
    let end = office.scan(async |scan| {
        scan.walk(async |letters| {
            *seen.borrow_mut() += letters.len();
            let found = office.find_out(letters, Entries::All).await?;
            let mended = join_all(found.iter().map(|found| mend(&office, found, entry_ttl))).await;
            for change in mended {
                changes.borrow_mut().extend(change?);
            }
            step.at(format!("{} mended of {}", changes.borrow().len(), seen.borrow()));
            Ok(())
        })
        .await
    });
    let end = end.await;
    let (seen, changes) = (seen.into_inner(), changes.into_inner());
    // Also of one that failed half way, as far as it came.
    if end.is_ok() || !changes.is_empty() {
        show(&changes, args.format.style())?;
    }
    let end = end?;
    step.done(&format!("{} mended of {seen}", changes.len()));
    say_if_incomplete(end, seen);
    Ok(ending(end))
}

/// Reconciles all dead letters' entries; what was changed.
///
/// # Errors
///
/// Something did not answer.
pub async fn reconcile(office: &Office, entry_ttl: Duration) -> Result<Vec<Change>> {
    let changes = RefCell::new(Vec::new());
    office
        .scan(async |scan| {
            scan.walk(async |letters| {
                for found in office.find_out(letters, Entries::All).await? {
                    let change = mend(office, &found, entry_ttl).await?;
                    changes.borrow_mut().extend(change);
                }
                Ok(())
            })
            .await
        })
        .await?;
    Ok(changes.into_inner())
}

/// Writes what the entry lacks, if nobody has written it since it was read.
async fn mend(office: &Office, found: &Found, entry_ttl: Duration) -> Result<Option<Change>> {
    let now = office.now();
    let (was, is, written) = match finding(found, entry_ttl, now) {
        Finding::AsItShouldBe => return Ok(None),
        Finding::Mark(verdict) => {
            let Some(entry) = found.own_entry() else { return Ok(None) };
            let written = office.table.rule(entry, &verdict, now).await;
            let is = match verdict {
                Verdict::Held(_) => State::Held,
                Verdict::Failed(_) | Verdict::Again => State::Failed,
            };
            (Some(entry.state), is, written)
        }
        Finding::Make(entry) => {
            (None, entry.state, office.table.put(&entry, &PutIf::Absent, now).await)
        }
    };
    match written.map_err(|error| anyhow!(error.describe()).context("entry not written"))? {
        Written::Yes => Ok(found.job_id().map(|id| Change {
            job_id: id.to_string(),
            message_id: found.letter.message_id.clone(),
            was: was.map(|state| state.to_string()),
            is: is.to_string(),
            reason: found.why().0,
        })),
        Written::No(_) => Ok(None),
    }
}

/// Holds a letter against its job's entry as it was just read.
fn finding(found: &Found, entry_ttl: Duration, now: Timestamp) -> Finding {
    let (reason, error) = found.why();
    let cause = |reason: &str| Cause {
        reason: reason.to_owned(),
        error: error.clone().unwrap_or_else(|| "its message is a dead letter".to_owned()),
    };
    if found.entry.is_none() {
        return make(found, &cause(&reason), entry_ttl, now);
    }
    // That of another payload knows nothing of this one.
    let Some(entry) = found.own_entry() else { return Finding::AsItShouldBe };
    match entry.state {
        State::Queued if went_on(entry, found) => Finding::AsItShouldBe,
        State::Queued => Finding::Mark(Verdict::Failed(cause(&reason))),
        State::Running if is_interrupted(entry, now) => {
            let cause = cause(reason::INTERRUPTED);
            let held = found.may_be_held();
            Finding::Mark(if held { Verdict::Held(cause) } else { Verdict::Failed(cause) })
        }
        State::Running | State::Succeeded | State::Failed | State::Held | State::Cancelled => {
            Finding::AsItShouldBe
        }
    }
}

/// Whether the job went on after the consumer had sent the letter: by another
/// copy, or because somebody has redriven it.
fn went_on(entry: &JobEntry, found: &Found) -> bool {
    // Times that are written so sort as they are.
    let failed_at = found.letter.attribute("failed_at").filter(|_| found.letter.is_from_consumer());
    failed_at.is_some_and(|failed_at| entry.updated_at.to_rfc3339().as_str() > failed_at)
}

fn make(found: &Found, cause: &Cause, entry_ttl: Duration, now: Timestamp) -> Finding {
    // The entry of an older job may have lived its life, and told of a success.
    if now.since(found.created_at()) > entry_ttl {
        return Finding::AsItShouldBe;
    }
    let queued = match &found.meaning {
        Meaning::Job(message) => Some(message.queued_entry(now, entry_ttl)),
        Meaning::Unknown(message) => message.queued_entry(now, entry_ttl),
        Meaning::Nothing => None,
    };
    queued.map_or(Finding::AsItShouldBe, |queued| {
        let Cause { reason, error } = cause.clone();
        let (reason, error) = (Some(reason), Some(error));
        Finding::Make(Box::new(JobEntry { state: State::Failed, reason, error, ..queued }))
    })
}

fn show(changes: &[Change], style: Style) -> Result<()> {
    match style {
        Style::Json => changes.iter().try_for_each(print_json),
        Style::Colored | Style::Plain if changes.is_empty() => {
            print("every entry knows of its dead letter")
        }
        Style::Colored | Style::Plain => {
            let mut rows = with_ids(0, table(["Job", "Its entry said", "It says now", "Reason"]));
            for change in changes {
                let was = change.was.as_deref().unwrap_or("nothing, it was missing");
                rows.add_row([change.job_id.as_str(), was, &change.is, &change.reason]);
            }
            print(&rows.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::found::tests::{DAY, ID, NOW, email, entry, letter, report, written};
    use super::*;

    fn of(body: &str, attributes: &[(&str, &str)], entry: Option<JobEntry>) -> Finding {
        let found = Found { entry, ..Found::new(letter(body, attributes)) };
        finding(&found, 30 * DAY, NOW)
    }

    fn state(finding: Finding) -> Option<State> {
        match finding {
            Finding::AsItShouldBe => None,
            Finding::Mark(Verdict::Failed(_)) => Some(State::Failed),
            Finding::Mark(Verdict::Held(_)) => Some(State::Held),
            Finding::Mark(Verdict::Again) => Some(State::Queued),
            Finding::Make(entry) => Some(entry.state),
        }
    }

    #[test]
    fn what_sqs_moved_behind_the_entrys_back_has_failed() {
        let over = Some(NOW - Duration::from_mins(6));
        let interrupted = JobEntry { lease_until: over, ..entry(State::Running) };
        let recent =
            JobEntry { lease_until: Some(NOW - Duration::from_mins(4)), ..entry(State::Running) };
        for (body, entry, expected) in [
            (report(), Some(entry(State::Queued)), Some(State::Failed)),
            (report(), Some(interrupted.clone()), Some(State::Failed)),
            (email(), Some(interrupted), Some(State::Held)),
            (report(), Some(recent), None),
            (report(), Some(entry(State::Succeeded)), None),
            (report(), Some(entry(State::Cancelled)), None),
            (report(), Some(entry(State::Failed)), None),
            (report(), Some(entry(State::Held)), None),
            (report(), None, Some(State::Failed)),
            ("poison".to_owned(), None, None),
        ] {
            assert_eq!(state(of(&body, &[], entry.clone())), expected, "{body} {entry:?}");
        }
    }

    #[test]
    fn a_job_that_went_on_after_its_letter_was_sent_is_left_alone() {
        let sent = |failed_at: Timestamp| {
            let failed_at = failed_at.to_rfc3339();
            let mut written = written("permanent");
            written[3] = ("failed_at", &failed_at);
            state(of(&report(), &written, Some(entry(State::Queued))))
        };
        let updated_at = entry(State::Queued).updated_at;
        assert_eq!(sent(updated_at + Duration::from_secs(1)), Some(State::Failed));
        assert_eq!(sent(updated_at - Duration::from_secs(1)), None);
    }

    #[test]
    fn an_entry_is_made_as_the_consumer_would_have_made_it() {
        let Finding::Make(made) = of(&report(), &written("permanent"), None) else { panic!() };
        assert_eq!((made.id.to_string().as_str(), made.kind.as_str()), (ID, "report"));
        assert_eq!(made.fingerprint.as_str(), "f");
        assert_eq!(
            (made.reason.as_deref(), made.error.as_deref()),
            (Some("permanent"), Some("no"))
        );
        assert_eq!(made.expires_at, NOW + 30 * DAY);
        let old = report().replacen("\"id\"", "\"created_at\":7,\"id\"", 1);
        assert_eq!(of(&old, &[], None), Finding::AsItShouldBe);
    }
}
