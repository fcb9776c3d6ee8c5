//! Carries out what an outcome means for a record, and logs it once.

use std::time::Duration;

use shared::message::{Message, NotYetKnown};
use shared::{JobId, JobTable, Timestamp};

use tokio::time::timeout_at;

use crate::Consumer;
use crate::backoff::long_delay;
use crate::deadline::{CLOCK_SKEW, Deadline};
use crate::event::Record;
use crate::outcome::{Disposition, Outcome, Visible};
use crate::queue::{DeadLetter, RetryQueue};
use crate::text::clean;

/// The longest that a record is hidden. SQS hides a message for 12 h at most
/// after it was received, which may be a batching window (5 min at most) and an
/// invocation (15 min at most) ago.
///
/// Source: `ChangeMessageVisibility`, Amazon SQS API reference.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_mins(12 * 60 - 5 - 15);

/// The error of a call that would have outlasted the invocation.
pub(crate) const NO_TIME_LEFT: &str = "no time left";

/// What happened to a record in SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disposed {
    pub(crate) message_id: Option<String>,
    /// Whether it must be reported as failed.
    pub(crate) is_returned: bool,
    /// Whether table or queue could not be reached.
    pub(crate) is_outage: bool,
    /// Whether a thread of its handler is still at work.
    pub(crate) is_alive: bool,
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
                let sent = self.dead_letter(record, reason, error, about, deadline).await;
                if !sent {
                    self.show_again(record, Visible::AfterLongBackoff, deadline).await;
                }
                (!sent, !sent)
            }
        };
        let is_alive = matches!(outcome, Outcome::StillAlive { .. });
        Disposed { message_id: record.message_id.clone(), is_returned, is_outage, is_alive }
    }

    /// Asks SQS to show a record again. If that fails, SQS does so after the
    /// queue's visibility timeout: later or sooner, but never not.
    async fn show_again(&self, record: &Record, visible: Visible, deadline: &Deadline) {
        let Some(receipt_handle) = &record.receipt_handle else { return };
        let visible_in = self.visible_in(record, visible);
        let change = self.queue.change_visibility(receipt_handle, visible_in);
        let error = match timeout_at(deadline.answer_at(), change).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.describe(),
            Err(_) => NO_TIME_LEFT.to_owned(),
        };
        tracing::warn!(
            sqs.message_id = record.message_id,
            error,
            "visibility not changed; the queue's visibility timeout holds"
        );
    }

    /// How long a record stays hidden: whole seconds, rounded up, so that it
    /// does not come back just before its moment.
    fn visible_in(&self, record: &Record, visible: Visible) -> Duration {
        let receive = record.receive_count;
        let wanted = match visible {
            Visible::Now => Duration::ZERO,
            Visible::At(moment) => moment.since(self.clock.now()) + CLOCK_SKEW,
            Visible::AfterBackoff => self.settings.backoff.delay(receive, self.random.fraction()),
            Visible::AfterLongBackoff => long_delay(receive, self.random.fraction()),
        };
        let seconds = wanted.as_secs() + u64::from(wanted.subsec_nanos() > 0);
        Duration::from_secs(seconds).min(LONGEST_WAIT)
    }

    /// Sends the record's message to the dead-letter queue; whether it is there.
    async fn dead_letter(
        &self,
        record: &Record,
        reason: &'static str,
        error: String,
        about: &Told,
        deadline: &Deadline,
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
        let error = match timeout_at(deadline.answer_at(), self.queue.dead_letter(&letter)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.describe(),
            Err(_) => NO_TIME_LEFT.to_owned(),
        };
        tracing::error!(
            sqs.message_id = record.message_id,
            error,
            "dead letter not sent; the record comes back"
        );
        false
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
