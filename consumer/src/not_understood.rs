//! A message that names a job which this consumer cannot run: a kind or a
//! version that it does not know, or a payload that does not fit.
//!
//! During a deploy an old consumer meets a newer producer, so such a message
//! comes back, and is a dead letter only at its last receive.

use shared::job::InvalidJob;
use shared::message::{NotUnderstood, NotYetKnown};
use shared::telemetry::causes;
use shared::{JobTable, reason};

use crate::Consumer;
use crate::deadline::Deadline;
use crate::event::Record;
use crate::outcome::Outcome;
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
}
