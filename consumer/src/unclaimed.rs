//! Jobs that are not even claimed: there is no time to start them, or they are
//! none that this consumer knows.
//!
//! Their records come back. At the last receive there is no coming back, and
//! the job has failed. Its entry says so then, unless it was claimed by way of
//! another copy: in that case the entry knows better.

use shared::job::InvalidJob;
use shared::message::{Message, NotUnderstood, NotYetKnown};
use shared::table::PutIf;
use shared::telemetry::causes;
use shared::{JobEntry, JobTable, State, reason};
use tokio::time::timeout_at;

use crate::Consumer;
use crate::deadline::{Deadline, NO_TIME_LEFT};
use crate::event::Record;
use crate::outcome::Outcome;
use crate::text::clean;

impl<T: JobTable, Q> Consumer<T, Q> {
    /// The outcome of a job that there was no time to start.
    pub(crate) async fn not_started(
        &self,
        message: &Message,
        record: &Record,
        deadline: &Deadline,
    ) -> Outcome {
        if !self.is_last_receive(record) {
            return Outcome::NotStarted;
        }
        let error = "no time was left to start it at its last receive".to_owned();
        let now = self.clock.now();
        let entry = message.queued_entry(now, self.settings.entry_ttl.as_duration());
        match self.fail_unclaimed(entry, reason::RETRIES_EXHAUSTED, &error, deadline).await {
            Ok(()) => Outcome::Exhausted { error },
            Err(error) => Outcome::TableUnreachable { error },
        }
    }

    /// The outcome of a message that names a job which this consumer cannot run:
    /// a kind or a version that it does not know, or a payload that does not fit.
    ///
    /// During a deploy an old consumer meets a newer producer, so such a message
    /// comes back, and is a dead letter only at its last receive.
    pub(crate) async fn not_understood(
        &self,
        message: &NotYetKnown,
        record: &Record,
        deadline: &Deadline,
    ) -> Outcome {
        let reason = match &message.problem {
            NotUnderstood::Version(_) => reason::UNKNOWN_VERSION,
            NotUnderstood::Job(InvalidJob::UnknownKind(_)) => reason::UNKNOWN_KIND,
            NotUnderstood::Job(InvalidJob::Payload(_))
            | NotUnderstood::Incomplete
            | NotUnderstood::TooLong => reason::INVALID_PAYLOAD,
        };
        let error = clean(&causes(&message.problem));
        let last = self.is_last_receive(record);
        if last {
            let now = self.clock.now();
            let entry = message.queued_entry(now, self.settings.entry_ttl.as_duration());
            let failed = match entry {
                Some(entry) => self.fail_unclaimed(entry, reason, &error, deadline).await,
                None => Ok(()),
            };
            if let Err(error) = failed {
                return Outcome::TableUnreachable { error };
            }
        }
        Outcome::NotUnderstood { reason, error, last }
    }

    /// Writes `failed` for a job that nobody has claimed: it is absent, or
    /// queued. Where it was claimed, its entry stays as it is.
    ///
    /// # Errors
    ///
    /// The table gave no answer; the entry may still say `queued`.
    async fn fail_unclaimed(
        &self,
        queued: JobEntry,
        reason: &str,
        error: &str,
        deadline: &Deadline,
    ) -> Result<(), String> {
        let condition = PutIf::Unclaimed { fingerprint: queued.fingerprint.clone() };
        let failed = JobEntry {
            state: State::Failed,
            reason: Some(reason.to_owned()),
            error: Some(error.to_owned()),
            ..queued
        };
        let put = self.table.put(&failed, &condition, failed.updated_at);
        match timeout_at(deadline.settle_until(), put).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.describe()),
            Err(_) => Err(NO_TIME_LEFT.to_owned()),
        }
    }
}
