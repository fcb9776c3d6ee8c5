//! A message that names a job which this consumer cannot run: a kind or a
//! version that it does not know, or a payload that does not fit.
//!
//! During a deploy an old consumer meets a newer producer, so such a message
//! comes back, and is a dead letter only at its last receive.

use shared::job::InvalidJob;
use shared::message::{NotYetKnown, Problem};
use shared::table::{PutIf, TableError};
use shared::telemetry::causes;
use shared::{JobEntry, JobTable, State};
use tokio::time::timeout_at;

use crate::Consumer;
use crate::deadline::Deadline;
use crate::dispose::NO_TIME_LEFT;
use crate::event::Record;
use crate::outcome::{Outcome, reason};
use crate::text::clean;

impl<T: JobTable, Q> Consumer<T, Q> {
    /// The outcome of such a message. At its last receive the entry says so,
    /// unless the job was claimed: then its entry knows better.
    pub(crate) async fn not_understood(
        &self,
        message: &NotYetKnown,
        record: &Record,
        deadline: &Deadline,
    ) -> Outcome {
        let reason = match &message.problem {
            Problem::Version(_) => reason::UNKNOWN_VERSION,
            Problem::Job(InvalidJob::UnknownKind(_)) => reason::UNKNOWN_KIND,
            Problem::Job(InvalidJob::Payload(_)) | Problem::Incomplete => reason::INVALID_PAYLOAD,
        };
        let error = clean(&causes(&message.problem));
        let last = self.is_last_receive(record);
        if last {
            let write = self.fail_unclaimed(message, reason, &error);
            match timeout_at(deadline.answer_at(), write).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Outcome::TableUnreachable { error: error.describe() },
                Err(_) => return Outcome::TableUnreachable { error: NO_TIME_LEFT.to_owned() },
            }
        }
        Outcome::NotUnderstood { reason, error, last }
    }

    async fn fail_unclaimed(
        &self,
        message: &NotYetKnown,
        reason: &str,
        error: &str,
    ) -> Result<(), TableError> {
        let now = self.clock.now();
        let Some(fingerprint) = message.fingerprint.clone() else { return Ok(()) };
        let condition = PutIf::Unclaimed { fingerprint: fingerprint.clone() };
        let ttl = self.settings.entry_ttl.as_duration();
        let kind = message.kind.as_deref().unwrap_or("unknown");
        let entry = JobEntry {
            state: State::Failed,
            created_at: message.created_at.unwrap_or(now),
            reason: Some(reason.to_owned()),
            error: Some(error.to_owned()),
            ..JobEntry::queued(
                message.id,
                &clean(kind),
                message.principal.clone(),
                fingerprint,
                now,
                ttl,
            )
        };
        self.table.put(&entry, &condition, now).await.map(|_| ())
    }
}
