//! Claims a job: the one step that keeps it from running twice.
//!
//! A claim is a conditional put of the whole entry. Where the condition fails,
//! the entry that is there decides. Any other failure is no answer, and
//! nothing is run without one.

use std::time::Duration;

use shared::entry::{Failure, Lease};
use shared::job::Interrupted;
use shared::message::Message;
use shared::table::{Again, PutIf, Settlement, TableError, Written};
use shared::{JobEntry, JobTable, State, Timestamp, reason};
use tokio::time::timeout_at;

use crate::Consumer;
use crate::deadline::{Deadline, NO_TIME_LEFT};
use crate::outcome::Outcome;

/// Tries to claim a job whose entry comes and goes between two calls. TTL or a
/// person may delete it once; more is somebody at work on it.
const MAX_TRIES: u32 = 3;

/// A message that was sent within this time after its job failed may be a copy
/// that nobody asked for. One that was sent later was sent by a person.
///
/// A producer that gets no answer from SQS sends its message again, for as long
/// as its request may take (10 s, its timeout in `infra/template.yaml`); the rest
/// is for clocks that disagree. A person needs longer to look into a failure.
const COPIES_WITHIN: Duration = Duration::from_mins(1);

/// What came of a try to claim a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The job is ours to run, until the lease ends.
    Acquired,
    /// It was completed before.
    Duplicate,
    /// It was cancelled.
    Cancelled,
    /// Its id belongs to a job with another payload.
    Conflict,
    /// It was interrupted, and must not be repeated without a person.
    Interrupted,
    /// It failed after its message was sent, and must not be repeated without
    /// a person.
    FailedBefore,
    /// Another copy failed, and the job must wait until then.
    TooEarly(Timestamp),
    /// Another invocation runs it; its lease lasts until then.
    InProgress(Timestamp),
    /// Its entry changed under every try.
    Unsteady,
}

/// Who claims a job: what an invocation knows of it and of itself.
#[derive(Clone, Debug)]
pub struct Claimant<'a> {
    /// The job.
    pub message: &'a Message,
    /// The right to run the job, if it is acquired.
    pub lease: Lease,
    /// Which receive of its message this is, from 1.
    pub attempt: u32,
    /// Whether it is the last one.
    pub last_attempt: bool,
    /// When its message was sent; now, if that is not known.
    pub sent_at: Option<Timestamp>,
    /// How long the entry lives from now on.
    pub entry_ttl: Duration,
}

impl Claim {
    /// Whether the job is to be run; if not, the outcome of its record.
    fn into_result(self) -> Result<(), Outcome> {
        Err(match self {
            Self::Acquired => return Ok(()),
            Self::Duplicate => Outcome::Duplicate,
            Self::Cancelled => Outcome::Cancelled,
            Self::Conflict => Outcome::Conflict,
            Self::Interrupted => {
                Outcome::Interrupted { error: "the job was interrupted before".to_owned() }
            }
            Self::FailedBefore => Outcome::FailedBefore,
            Self::TooEarly(until) => Outcome::TooEarly { until },
            Self::InProgress(until) => Outcome::InProgress { until },
            Self::Unsteady => Outcome::Unsteady,
        })
    }
}

impl<T: JobTable, Q> Consumer<T, Q> {
    /// Claims a job.
    ///
    /// # Errors
    ///
    /// It is not to be run, and this is the outcome of its record.
    pub(crate) async fn claim(
        &self,
        claimant: &Claimant<'_>,
        now: Timestamp,
        deadline: &Deadline,
    ) -> Result<(), Outcome> {
        match timeout_at(deadline.stop_at(), claimant.claim(&self.table, now)).await {
            Ok(Ok(claim)) => claim.into_result(),
            Ok(Err(error @ TableError::Unreadable { .. })) => {
                Err(Outcome::EntryUnreadable { error: error.to_string() })
            }
            Ok(Err(error)) => Err(Outcome::TableUnreachable { error: error.describe() }),
            Err(_) => Err(Outcome::TableUnreachable { error: NO_TIME_LEFT.to_owned() }),
        }
    }
}

impl Claimant<'_> {
    /// Claims the job in `table`, at `now`.
    ///
    /// # Errors
    ///
    /// The table gave no answer, so the job must not run and its record must
    /// come back. The put may have taken effect: then the lease must end
    /// first.
    pub async fn claim(&self, table: &impl JobTable, now: Timestamp) -> Result<Claim, TableError> {
        let entry = self.entry(now);
        let condition = self.condition(now);
        for _ in 0..MAX_TRIES {
            let old = match put(table, &entry, &condition, now).await? {
                Written::Yes => return Ok(Claim::Acquired),
                Written::No(Some(old)) => *old,
                Written::No(None) => match table.get(entry.id).await? {
                    Some(old) => old,
                    None => continue,
                },
            };
            if let Some(claim) = self.judge(&old, now) {
                return self.hold_if_interrupted(claim, &old, table, now).await;
            }
        }
        Ok(Claim::Unsteady)
    }

    /// What `old` means for this claim; the first that fits. `None`: the entry
    /// could be claimed by now.
    fn judge(&self, old: &JobEntry, now: Timestamp) -> Option<Claim> {
        let ours = old.lease_token == Some(self.lease.token);
        let intent = self.message.job.intent().is_some();
        let until = old.lease_until.unwrap_or(now);
        match old.state {
            State::Running if ours => Some(Claim::Acquired),
            _ if old.is_expired(now) => None,
            _ if !intent && old.fingerprint != self.message.fingerprint => Some(Claim::Conflict),
            State::Succeeded => Some(Claim::Duplicate),
            State::Cancelled => Some(Claim::Cancelled),
            State::Held => Some(Claim::Interrupted),
            State::Queued => old.not_before.filter(|until| *until > now).map(Claim::TooEarly),
            State::Running if until >= now => Some(Claim::InProgress(until)),
            State::Running if self.holds() => Some(Claim::Interrupted),
            State::Failed if self.holds() => Some(Claim::FailedBefore),
            State::Running | State::Failed => None,
        }
    }

    /// Writes `held` where this claim is the first to find that the job was
    /// interrupted, if nothing has changed since.
    async fn hold_if_interrupted(
        &self,
        claim: Claim,
        old: &JobEntry,
        table: &impl JobTable,
        now: Timestamp,
    ) -> Result<Claim, TableError> {
        let (Claim::Interrupted, State::Running, Some(token)) =
            (&claim, old.state, old.lease_token)
        else {
            return Ok(claim);
        };
        let hold = Settlement::Hold(Failure {
            reason: reason::INTERRUPTED,
            error: "the invocation that ran the job ended without a word".to_owned(),
        });
        match table.settle(old.id, token, &hold, now).await? {
            Written::Yes => Ok(claim),
            // The SDK's retry met its own write, or somebody else's same one.
            Written::No(Some(entry)) if entry.state == State::Held => Ok(claim),
            Written::No(_) => Ok(Claim::Unsteady),
        }
    }

    fn condition(&self, now: Timestamp) -> PutIf {
        let intent = self.message.job.intent().is_some();
        let again = if self.holds() {
            Again::FailedBefore(self.sent_at.unwrap_or(now) - COPIES_WITHIN)
        } else {
            Again::Any
        };
        let fingerprint = (!intent).then(|| self.message.fingerprint.clone());
        PutIf::Claimable { fingerprint, again }
    }

    fn holds(&self) -> bool {
        self.message.job.interrupted() == Interrupted::Hold
    }

    fn entry(&self, now: Timestamp) -> JobEntry {
        JobEntry {
            state: State::Running,
            attempt: self.attempt,
            last_attempt: self.last_attempt || self.holds(),
            lease_token: Some(self.lease.token),
            lease_until: Some(self.lease.until),
            ..self.message.queued_entry(now, self.entry_ttl)
        }
    }
}

/// Puts once more where nobody answered: had the first put taken effect, the
/// second meets its own token. Left alone, the lease would have no owner, and
/// a job that is held when interrupted would count as interrupted.
async fn put(
    table: &impl JobTable,
    entry: &JobEntry,
    condition: &PutIf,
    now: Timestamp,
) -> Result<Written, TableError> {
    match table.put(entry, condition, now).await {
        Err(TableError::Call(error)) if error.code().is_none() => {
            table.put(entry, condition, now).await
        }
        answer => answer,
    }
}
