//! One attempt at a job: claim it, run its handler, settle the claim.

use std::time::Duration;

use shared::JobTable;
use shared::entry::Lease;
use shared::message::Message;
use shared::sources::whole_millis;
use shared::telemetry::traces::trace_header;

use crate::Consumer;
use crate::claim::Claimant;
use crate::deadline::Deadline;
use crate::event::Record;
use crate::handler::JobContext;
use crate::outcome::Outcome;
use crate::run_handler::{End, Run, run_handler};
use crate::tasks::Tasks;

/// What came of a record, and of its handler if that ran.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) outcome: Outcome,
    /// How long the message had waited, if its job was started and this was its
    /// first receive: later on, messages wait on purpose.
    pub(crate) queue_wait: Option<Duration>,
    pub(crate) run: Option<Run>,
}

impl Attempt {
    /// What came of another copy of the message in the same batch.
    pub(crate) fn of_copy(&self) -> Self {
        self.outcome.of_copy().into()
    }
}

/// Nothing ran.
impl From<Outcome> for Attempt {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, queue_wait: None, run: None }
    }
}

impl<T: JobTable, Q> Consumer<T, Q> {
    /// Makes one attempt at the job of `message`, which came as `record`.
    pub(crate) async fn attempt(
        &self,
        message: &Message,
        record: &Record,
        deadline: &Deadline,
    ) -> Attempt {
        if !deadline.may_start() {
            return self.not_started(message, record, deadline).await.into();
        }
        let now = self.clock.now();
        let claimant = Claimant {
            message,
            lease: Lease { token: self.ids.next(now), until: deadline.lease_until() },
            attempt: record.receive_count,
            last_attempt: self.is_last_receive(record),
            sent_at: record.sent_at,
            entry_ttl: self.settings.entry_ttl.as_duration(),
        };
        if let Err(outcome) = self.claim(&claimant, now, deadline).await {
            return outcome.into();
        }
        if !deadline.may_start() {
            // The claim took long. To start the job now would be to stop it.
            let error = "no time was left to run it".to_owned();
            let end = End::Retryable { error, not_before: Some(self.clock.now()) };
            return self.settle(&claimant, record, end, deadline).await.into();
        }
        let context = context(&claimant, record, deadline);
        let queue_wait = self.queue_wait(record);
        tracing::info!(queue_wait_ms = queue_wait.map(whole_millis), "job started");
        let (end, run) = run_handler(&self.handlers, &message.job, &context).await;
        let outcome = self.wind_up(&claimant, record, end, &context, deadline).await;
        Attempt { outcome, queue_wait, run: Some(run) }
    }

    /// Settles the claim, and ends the tasks that the handler left behind.
    async fn wind_up(
        &self,
        claimant: &Claimant<'_>,
        record: &Record,
        end: End,
        context: &JobContext,
        deadline: &Deadline,
    ) -> Outcome {
        let is_done = matches!(end, End::Done { .. });
        // What was not done may run again as soon as its entry says so. While a
        // thread is still at it, the lease must hold.
        if !is_done && !context.tasks.end(deadline.settle_until()).await {
            return Outcome::StillAlive { until: claimant.lease.until };
        }
        let outcome = self.settle(claimant, record, end, deadline).await;
        if is_done && !context.tasks.end(deadline.answer_at()).await {
            return Outcome::StillAlive { until: claimant.lease.until };
        }
        outcome
    }

    /// Whether SQS will not deliver this copy again.
    pub(crate) fn is_last_receive(&self, record: &Record) -> bool {
        record.receive_count >= self.settings.max_receive_count
    }

    /// How long a message has waited that is received for the first time.
    fn queue_wait(&self, record: &Record) -> Option<Duration> {
        let sent_at = record.sent_at.filter(|_| record.receive_count == 1)?;
        Some(self.clock.now().since(sent_at))
    }
}

fn context(claimant: &Claimant<'_>, record: &Record, deadline: &Deadline) -> JobContext {
    let message = claimant.message;
    JobContext {
        job_id: message.id,
        kind: message.job.kind(),
        attempt: claimant.attempt,
        is_last_attempt: claimant.last_attempt,
        principal: message.principal.clone(),
        trace_header: trace_header().or_else(|| record.trace_header.clone()),
        stop_at: deadline.stop_at(),
        tasks: Tasks::default(),
    }
}
