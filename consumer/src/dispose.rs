//! Carries out what an outcome means for a record, and logs it once.

use std::time::Duration;

use shared::message::{Message, NotYetKnown};
use shared::sources::whole_millis;
use shared::telemetry::trace_id;
use shared::telemetry::traces::continue_trace;
use shared::{JobId, JobTable, Timestamp};
use tokio::time::timeout_at;
use tracing::Span;

use crate::Consumer;
use crate::attempt::Attempt;
use crate::backoff::long_delay;
use crate::deadline::{CLOCK_SKEW, Deadline};
use crate::event::Record;
use crate::outcome::{Disposition, Visible};
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
#[derive(Clone, Debug)]
pub(crate) struct Disposed {
    pub(crate) message_id: Option<String>,
    pub(crate) attempt: Attempt,
    /// The kind of its job, if that is known here.
    pub(crate) kind: Option<&'static str>,
    /// How old its job is, if that is known.
    pub(crate) age: Option<Duration>,
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
    /// The kind, if it is known here.
    known_kind: Option<&'static str>,
    created_at: Option<Timestamp>,
}

impl Told {
    pub(crate) fn job(message: &Message) -> Self {
        let kind = message.job.kind();
        Self {
            id: Some(message.id),
            kind: Some(kind.to_owned()),
            known_kind: Some(kind),
            created_at: message.created_at,
        }
    }

    pub(crate) fn not_yet_known(message: &NotYetKnown) -> Self {
        let kind = message.kind.as_deref().map(clean);
        Self { id: Some(message.id), kind, known_kind: None, created_at: message.created_at }
    }

    /// The span of everything that is done about `record`. It is an error, so
    /// that every event has it, whatever the level.
    pub(crate) fn span(&self, record: &Record) -> Span {
        let span = tracing::error_span!(
            "record",
            job.id = self.id.map(tracing::field::display),
            job.kind = self.kind,
            job.attempt = record.receive_count,
            sqs.message_id = record.message_id,
            trace.id = record.trace_header.as_deref().and_then(trace_id),
        );
        continue_trace(&span, record.trace_header.as_deref());
        span
    }
}

impl<T: JobTable, Q: RetryQueue> Consumer<T, Q> {
    /// Tells SQS what came of `record`.
    pub(crate) async fn dispose(
        &self,
        record: &Record,
        attempt: Attempt,
        about: &Told,
        deadline: &Deadline,
    ) -> Disposed {
        let outcome = &attempt.outcome;
        let now = self.clock.now();
        let age = about.created_at.map(|created_at| now.since(created_at));
        log(&attempt, age);
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
        let (message_id, kind) = (record.message_id.clone(), about.known_kind);
        Disposed { message_id, attempt, kind, age, is_returned, is_outage }
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
        tracing::warn!(error, "visibility not changed; the queue's visibility timeout holds");
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
        tracing::error!(error, "dead letter not sent; the record comes back");
        false
    }
}

/// One event per record: what came of it. Never a payload.
fn log(attempt: &Attempt, age: Option<Duration>) {
    let Attempt { outcome, run } = attempt;
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(
                outcome = outcome.as_str(),
                error = outcome.error(),
                duration_ms = run.map(|run| whole_millis(run.took)),
                stopped = run.filter(|run| run.was_stopped).map(|_| true),
                job.age_ms = age.map(whole_millis),
                "record settled"
            )
        };
    }
    match outcome.disposition() {
        Disposition::Acknowledge => event!(info),
        // The job has failed for good.
        Disposition::Return(Visible::Now) | Disposition::DeadLetter { .. } => event!(error),
        Disposition::Return(_) => event!(warn),
    }
}
