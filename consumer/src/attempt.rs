//! One attempt at a job: claim it, run its handler, settle the claim.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use shared::entry::{Failure, Lease};
use shared::job::Interrupted;
use shared::message::Message;
use shared::table::Settlement;
use shared::telemetry::causes;
use shared::{Job, JobTable, Timestamp};
use tokio::time::timeout_at;

use crate::Consumer;
use crate::claim::{Claim, Claimant};
use crate::deadline::Deadline;
use crate::event::Record;
use crate::handler::{ErrorKind, JobContext, JobError};
use crate::jobs;
use crate::outcome::{Outcome, reason};
use crate::settle::{Settled, completion, failure, settle};
use crate::tasks::Tasks;
use crate::text::clean;

/// What SQS waits after a lease has ended, so that a record does not come back
/// in its last moment.
const AFTER_LEASE: Duration = Duration::from_secs(1);

/// How a handler's run ended.
enum End {
    Done { result: String },
    Retryable { error: String, not_before: Option<Timestamp> },
    Permanent { error: String },
    Interrupted { error: String },
}

impl<T: JobTable, Q> Consumer<T, Q> {
    /// Makes one attempt at the job of `message`, which came as `record`.
    pub(crate) async fn attempt(
        &self,
        message: &Message,
        record: &Record,
        tasks: &Tasks,
        deadline: &Deadline,
    ) -> Outcome {
        if !deadline.may_start() {
            return Outcome::NotStarted;
        }
        let now = self.clock.now();
        let claimant = Claimant {
            message,
            lease: Lease { token: self.ids.next(now), until: deadline.lease_until() },
            attempt: record.receive_count,
            last_attempt: self.is_last_receive(record),
            expires_at: now + self.settings.entry_ttl.as_duration(),
        };
        let claim = timeout_at(deadline.stop_at(), claimant.claim(&self.table, now)).await;
        let Ok(claim) = claim else {
            return Outcome::TableUnreachable { error: "no answer in time".to_owned() };
        };
        let lease = match claim {
            Ok(Claim::Acquired(lease)) => lease,
            Ok(Claim::Duplicate) => return Outcome::Duplicate,
            Ok(Claim::Cancelled) => return Outcome::Cancelled,
            Ok(Claim::Conflict) => return Outcome::Conflict,
            Ok(Claim::Interrupted) => {
                let error = "the job was interrupted before".to_owned();
                return Outcome::Interrupted { error };
            }
            Ok(Claim::TooEarly(until)) => return Outcome::TooEarly { until },
            Ok(Claim::InProgress(until)) => {
                return Outcome::InProgress { until: until + AFTER_LEASE };
            }
            Ok(Claim::Unsteady) => return Outcome::LeaseLost,
            Err(error) => return Outcome::TableUnreachable { error: error.describe() },
        };
        tracing::info!(
            job.id = %message.id,
            job.kind = message.job.kind(),
            job.attempt = claimant.attempt,
            sqs.message_id = record.message_id,
            "job started"
        );
        let context = JobContext {
            job_id: message.id,
            kind: message.job.kind(),
            attempt: claimant.attempt,
            is_last_attempt: claimant.last_attempt,
            principal: message.principal.clone(),
            trace_header: record.trace_header.clone(),
            stop_at: deadline.stop_at(),
            tasks: tasks.of_handler(),
        };
        let end = run(&message.job, context).await;
        self.settle(message, record, lease, end, deadline).await
    }

    /// Whether SQS will not deliver this copy again.
    pub(crate) fn is_last_receive(&self, record: &Record) -> bool {
        record.receive_count >= self.settings.max_receive_count
    }

    async fn settle(
        &self,
        message: &Message,
        record: &Record,
        lease: Lease,
        end: End,
        deadline: &Deadline,
    ) -> Outcome {
        let (settlement, outcome) = self.consequence(record, end);
        let give_up_at = deadline.answer_at();
        match settle(&self.table, &self.clock, message.id, lease, &settlement, give_up_at).await {
            Settled::Stored => outcome,
            Settled::LeaseLost => Outcome::LeaseLost,
            Settled::NotStored { error } => {
                Outcome::NotStored { until: lease.until + AFTER_LEASE, error }
            }
        }
    }

    /// What the end of a run means for the entry and for the record.
    fn consequence(&self, record: &Record, end: End) -> (Settlement, Outcome) {
        match end {
            End::Done { result } => {
                (completion(result, self.settings.max_result_bytes), Outcome::Completed)
            }
            End::Permanent { error } => {
                (failure(reason::PERMANENT, &error), Outcome::Permanent { error })
            }
            End::Interrupted { error } => {
                let failure = Failure { reason: reason::INTERRUPTED, error: error.clone() };
                (Settlement::Hold(failure), Outcome::Interrupted { error })
            }
            End::Retryable { error, .. } if self.is_last_receive(record) => {
                (failure(reason::RETRIES_EXHAUSTED, &error), Outcome::Exhausted { error })
            }
            End::Retryable { error, not_before } => {
                let backoff = self.settings.backoff;
                let delay = backoff.delay(record.receive_count, self.random.fraction());
                let not_before = not_before.unwrap_or_else(|| self.clock.now() + delay);
                let settlement = Settlement::Release { error: error.clone(), not_before };
                (settlement, Outcome::Released { not_before, error })
            }
        }
    }
}

/// Runs the handler until it ends, panics, or must be stopped.
async fn run(job: &Job, context: JobContext) -> End {
    let stop_at = context.stop_at;
    // A panic leaves nothing behind that another record could see: handlers
    // share no state.
    let handler = AssertUnwindSafe(jobs::run(job, &context)).catch_unwind();
    let unexpected = |error: String| match job.interrupted() {
        Interrupted::Retry => End::Retryable { error, not_before: None },
        Interrupted::Hold => End::Interrupted { error },
    };
    match timeout_at(stop_at, handler).await {
        Ok(Ok(Ok(result))) => End::Done { result },
        Ok(Ok(Err(JobError { kind, source }))) => {
            let error = clean(&causes(&*source));
            match kind {
                ErrorKind::Permanent => End::Permanent { error },
                ErrorKind::Retryable { not_before } => End::Retryable { error, not_before },
                ErrorKind::Unexpected => unexpected(error),
            }
        }
        Ok(Err(panic)) => unexpected(clean(&format!("panicked: {}", panic_text(&*panic)))),
        Err(_) => unexpected("stopped for lack of time".to_owned()),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
