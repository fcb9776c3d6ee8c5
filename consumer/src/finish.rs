//! Finishes with a record: logs what came of it, sends its dead letter or says
//! when it is seen again, and notes whether the answer to Lambda must report it.

use std::time::Duration;

use shared::JobTable;
use shared::sources::whole_millis;
use tokio::time::timeout_at;

use crate::Consumer;
use crate::attempt::Attempt;
use crate::backoff::{MAX_VISIBILITY_TIMEOUT, long_delay};
use crate::deadline::{CLOCK_SKEW, Deadline, NO_TIME_LEFT};
use crate::event::Record;
use crate::job_facts::JobFacts;
use crate::outcome::{Disposition, Visible};
use crate::queue::{DeadLetter, RetryQueue};

/// A record with which only the answer to Lambda has yet to deal.
#[derive(Clone, Debug)]
pub(crate) struct FinishedRecord {
    pub(crate) message_id: Option<String>,
    pub(crate) attempt: Attempt,
    /// The kind of its job, if that is known here.
    pub(crate) kind: Option<&'static str>,
    /// How old its job is, if that is known.
    pub(crate) age: Option<Duration>,
    /// Whether it must be reported as failed.
    pub(crate) is_returned: bool,
    /// Whether table or queue did not do what was asked for.
    pub(crate) is_outage: bool,
}

impl<T: JobTable, Q: RetryQueue> Consumer<T, Q> {
    /// Does with `record` in SQS what the outcome of its attempt asks for.
    pub(crate) async fn finish(
        &self,
        record: &Record,
        attempt: Attempt,
        job: &JobFacts,
        deadline: &Deadline,
    ) -> FinishedRecord {
        let outcome = &attempt.outcome;
        let now = self.clock.now();
        let age = job.created_at.map(|created_at| now.since(created_at));
        log(&attempt, age);
        let (is_returned, is_outage) = match outcome.disposition() {
            Disposition::Acknowledge => (false, false),
            Disposition::Return(visible) => {
                self.show_again(record, visible, deadline).await;
                (true, outcome.is_outage())
            }
            Disposition::DeadLetter { reason, error } => {
                let sent = self.dead_letter(record, reason, error, job, deadline).await;
                if !sent {
                    self.show_again(record, Visible::AfterLongBackoff, deadline).await;
                }
                (!sent, !sent)
            }
        };
        let (message_id, kind) = (record.message_id.clone(), job.known_kind);
        FinishedRecord { message_id, attempt, kind, age, is_returned, is_outage }
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
        Duration::from_secs(seconds).min(MAX_VISIBILITY_TIMEOUT)
    }

    /// Sends the record's message to the dead-letter queue; whether it is there.
    async fn dead_letter(
        &self,
        record: &Record,
        reason: &'static str,
        error: String,
        job: &JobFacts,
        deadline: &Deadline,
    ) -> bool {
        let mut attributes = vec![
            ("reason", reason.to_owned()),
            ("error", error),
            ("receive_count", record.receive_count.to_string()),
            ("failed_at", self.clock.now().to_rfc3339()),
        ];
        attributes.extend(job.id.map(|id| ("job_id", id.to_string())));
        attributes.extend(job.kind.clone().map(|kind| ("kind", kind)));
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

/// One event per record, whatever came of it; operators know it by its text.
/// Never a payload.
fn log(attempt: &Attempt, age: Option<Duration>) {
    let Attempt { outcome, run, queue_wait: _ } = attempt;
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
