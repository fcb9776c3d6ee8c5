//! Carries out what an outcome means for a record, and logs it once.

use std::time::Duration;

use shared::job::InvalidJob;
use shared::message::{Message, NotYetKnown, Problem};
use shared::table::{PutIf, TableError};
use shared::telemetry::causes;
use shared::{JobEntry, JobId, JobTable, State, Timestamp};

use crate::Consumer;
use crate::backoff::Backoff;
use crate::deadline::Deadline;
use crate::event::Record;
use crate::outcome::{Disposition, Outcome, Visible, reason};
use crate::queue::{DeadLetter, RetryQueue};
use crate::text::clean;

/// SQS hides a message for at most this long after it was received.
///
/// Source: `ChangeMessageVisibility`, Amazon SQS API reference.
const MAX_VISIBILITY: Duration = Duration::from_hours(12);

/// The longest that a record can have been received before its invocation:
/// Lambda's longest batching window.
const MAX_BATCHING_WINDOW: Duration = Duration::from_mins(5);

/// What happened to a record in SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disposed {
    pub(crate) message_id: Option<String>,
    /// Whether it must be reported as failed.
    pub(crate) is_returned: bool,
    /// Whether table or queue could not be reached.
    pub(crate) is_outage: bool,
}

/// What the log and a dead letter say of the job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    id: Option<JobId>,
    kind: Option<String>,
    created_at: Option<Timestamp>,
}

impl Told {
    pub(crate) fn job(message: &Message) -> Self {
        let kind = Some(message.job.kind().to_owned());
        Self { id: Some(message.id), kind, created_at: message.created_at }
    }

    pub(crate) fn not_yet_known(message: &NotYetKnown) -> Self {
        let kind = message.kind.as_deref().map(clean);
        Self { id: Some(message.id), kind, created_at: message.created_at }
    }
}

impl<T: JobTable, Q: RetryQueue> Consumer<T, Q> {
    /// Tells SQS what came of `record`.
    pub(crate) async fn dispose(
        &self,
        record: &Record,
        outcome: &Outcome,
        about: &Told,
        deadline: &Deadline,
    ) -> Disposed {
        log(record, outcome, about, self.clock.now());
        let (is_returned, is_outage) = match outcome.disposition() {
            Disposition::Acknowledge => (false, false),
            Disposition::Return(visible) => {
                self.show_again(record, visible, deadline).await;
                (true, outcome.is_outage())
            }
            Disposition::DeadLetter { reason, error } => {
                let sent = self.dead_letter(record, reason, error, about).await;
                if !sent {
                    self.show_again(record, Visible::AfterLongBackoff, deadline).await;
                }
                (!sent, !sent)
            }
        };
        Disposed { message_id: record.message_id.clone(), is_returned, is_outage }
    }

    /// Asks SQS to show a record again. If that fails, SQS does so after the
    /// queue's visibility timeout: later or sooner, but never not.
    async fn show_again(&self, record: &Record, visible: Visible, deadline: &Deadline) {
        let Some(receipt_handle) = &record.receipt_handle else { return };
        let visible_in = self.visible_in(record, visible, deadline);
        let change = self.queue.change_visibility(receipt_handle, visible_in);
        let error = match tokio::time::timeout_at(deadline.answer_at(), change).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.describe(),
            Err(_) => "no time left".to_owned(),
        };
        tracing::warn!(
            sqs.message_id = record.message_id,
            error,
            "visibility not changed; the queue's visibility timeout holds"
        );
    }

    /// How long a record stays hidden: whole seconds, rounded up, so that it
    /// does not come back just before its moment.
    fn visible_in(&self, record: &Record, visible: Visible, deadline: &Deadline) -> Duration {
        let receive = record.receive_count;
        let wanted = match visible {
            Visible::Now => Duration::ZERO,
            Visible::At(moment) => moment.since(self.clock.now()),
            Visible::AfterBackoff => self.settings.backoff.delay(receive, self.random.fraction()),
            Visible::AfterLongBackoff => Backoff::long().delay(receive, self.random.fraction()),
        };
        let seconds = wanted.as_secs() + u64::from(wanted.subsec_nanos() > 0);
        let left = MAX_VISIBILITY.saturating_sub(MAX_BATCHING_WINDOW + deadline.elapsed());
        Duration::from_secs(seconds.min(left.as_secs()))
    }

    /// Sends the record's message to the dead-letter queue; whether it is there.
    async fn dead_letter(
        &self,
        record: &Record,
        reason: &'static str,
        error: String,
        about: &Told,
    ) -> bool {
        let mut attributes = vec![
            ("reason", reason.to_owned()),
            ("error", error),
            ("receive_count", record.receive_count.to_string()),
            ("failed_at", self.clock.now().to_rfc3339()),
        ];
        attributes.extend(about.id.map(|id| ("job_id", id.to_string())));
        attributes.extend(about.kind.clone().map(|kind| ("kind", kind)));
        attributes.extend(record.message_id.clone().map(|id| ("source_message_id", id)));
        let letter = DeadLetter {
            body: record.body.as_deref().unwrap_or_default(),
            attributes,
            group_id: record.group_id.as_deref(),
            trace_header: record.trace_header.as_deref(),
        };
        match self.queue.dead_letter(&letter).await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(
                    sqs.message_id = record.message_id,
                    error = error.describe(),
                    "dead letter not sent; the record comes back"
                );
                false
            }
        }
    }

    /// The outcome of a message that names a job which cannot be run here.
    /// At its last receive the entry says so, unless the job was claimed.
    pub(crate) async fn not_understood(&self, message: &NotYetKnown, record: &Record) -> Outcome {
        let reason = match &message.problem {
            Problem::Version(_) => reason::UNKNOWN_VERSION,
            Problem::Job(InvalidJob::UnknownKind(_)) => reason::UNKNOWN_KIND,
            Problem::Job(InvalidJob::Payload(_)) | Problem::Incomplete => reason::INVALID_PAYLOAD,
        };
        let error = clean(&causes(&message.problem));
        let last = self.is_last_receive(record);
        if last && let Err(unreachable) = self.fail_unclaimed(message, reason, &error).await {
            return Outcome::TableUnreachable { error: unreachable.describe() };
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
        // Where the job was claimed, its entry knows better.
        self.table.put(&entry, &condition, now).await.map(|_| ())
    }
}

/// One event per record and outcome; never a payload.
fn log(record: &Record, outcome: &Outcome, about: &Told, now: Timestamp) {
    let id = about.id.map(tracing::field::display);
    let age_ms = about
        .created_at
        .map(|created_at| u64::try_from(now.since(created_at).as_millis()).unwrap_or(u64::MAX));
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(
                job.id = id,
                job.kind = about.kind,
                job.attempt = record.receive_count,
                job.age_ms = age_ms,
                sqs.message_id = record.message_id,
                outcome = outcome.as_str(),
                error = outcome.error(),
                "record settled"
            )
        };
    }
    match outcome.disposition() {
        Disposition::Acknowledge => event!(info),
        Disposition::Return(_) => event!(warn),
        Disposition::DeadLetter { .. } => event!(error),
    }
}
