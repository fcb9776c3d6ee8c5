//! One attempt at a job: claim it, run its handler, settle the claim.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use shared::entry::{Failure, Lease};
use shared::job::Interrupted;
use shared::message::Message;
use shared::table::{Settlement, TableError};
use shared::telemetry::causes;
use shared::{Job, JobTable, Timestamp};
use tokio::time::timeout_at;

use crate::Consumer;
use crate::claim::{Claim, Claimant};
use crate::deadline::Deadline;
use crate::dispose::{LONGEST_WAIT, NO_TIME_LEFT};
use crate::event::Record;
use crate::handler::{ErrorKind, JobContext, JobError};
use crate::jobs::Handlers;
use crate::outcome::{Outcome, reason};
use crate::settle::{Settled, completion, failure, settle};
use crate::tasks::Tasks;
use crate::text::clean;

/// How a handler's run ended.
enum End {
    Done { result: Option<String> },
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
        deadline: &Deadline,
    ) -> Outcome {
        if !deadline.may_start() {
            return self.not_started(message, record, deadline).await;
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
        if let Some(outcome) = self.claim(&claimant, now, deadline).await {
            return outcome;
        }
        let lease = claimant.lease;
        if !deadline.may_start() {
            // The claim took long. To start the job now would be to stop it.
            let error = "no time was left to run it".to_owned();
            let end = End::Retryable { error, not_before: Some(self.clock.now()) };
            return self.settle(message, record, lease, end, deadline).await;
        }
        let context = context(&claimant, record, deadline);
        let end = run(&self.handlers, &message.job, &context).await;
        let is_done = matches!(end, End::Done { .. });
        // What was not done may run again as soon as its entry says so. While a
        // thread is still at it, the lease must hold.
        if !is_done && !context.tasks.end(deadline.settle_until()).await {
            return Outcome::StillAlive { until: lease.until };
        }
        let outcome = self.settle(message, record, lease, end, deadline).await;
        if is_done && !context.tasks.end(deadline.answer_at()).await {
            return Outcome::StillAlive { until: lease.until };
        }
        outcome
    }

    /// Claims the job; the outcome, if it is not to be run.
    async fn claim(
        &self,
        claimant: &Claimant<'_>,
        now: Timestamp,
        deadline: &Deadline,
    ) -> Option<Outcome> {
        let claim = timeout_at(deadline.stop_at(), claimant.claim(&self.table, now)).await;
        let Ok(claim) = claim else {
            return Some(Outcome::TableUnreachable { error: NO_TIME_LEFT.to_owned() });
        };
        let outcome = match claim {
            Ok(Claim::Acquired) => return None,
            Ok(Claim::Duplicate) => Outcome::Duplicate,
            Ok(Claim::Cancelled) => Outcome::Cancelled,
            Ok(Claim::Conflict) => Outcome::Conflict,
            Ok(Claim::Interrupted) => {
                Outcome::Interrupted { error: "the job was interrupted before".to_owned() }
            }
            Ok(Claim::FailedBefore) => Outcome::FailedBefore,
            Ok(Claim::TooEarly(until)) => Outcome::TooEarly { until },
            Ok(Claim::InProgress(until)) => Outcome::InProgress { until },
            Ok(Claim::Unsteady) => Outcome::Unsteady,
            Err(error @ TableError::Unreadable { .. }) => {
                Outcome::EntryUnreadable { error: error.to_string() }
            }
            Err(error) => Outcome::TableUnreachable { error: error.describe() },
        };
        Some(outcome)
    }

    /// A job that there was no time to start; failed, if SQS will not deliver
    /// it again.
    async fn not_started(
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
        let give_up_at = deadline.settle_until();
        match settle(&self.table, &self.clock, message.id, lease, &settlement, give_up_at).await {
            Settled::Stored => outcome,
            Settled::LeaseLost => Outcome::LeaseLost,
            Settled::NotStored { error } => Outcome::NotStored { until: lease.until, error },
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
                let now = self.clock.now();
                // Every wait is a receive: one that outlasts them all would let
                // the message die unrun.
                let receives_left = self.settings.max_receive_count - record.receive_count;
                let latest = now + LONGEST_WAIT * receives_left;
                let not_before = not_before.unwrap_or(now + delay).min(latest);
                let settlement = Settlement::Release { error: error.clone(), not_before };
                (settlement, Outcome::Released { not_before, error })
            }
        }
    }
}

fn context(claimant: &Claimant<'_>, record: &Record, deadline: &Deadline) -> JobContext {
    let message = claimant.message;
    tracing::info!(
        job.id = %message.id,
        job.kind = message.job.kind(),
        job.attempt = claimant.attempt,
        sqs.message_id = record.message_id,
        "job started"
    );
    JobContext {
        job_id: message.id,
        kind: message.job.kind(),
        attempt: claimant.attempt,
        is_last_attempt: claimant.last_attempt,
        principal: message.principal.clone(),
        trace_header: record.trace_header.clone(),
        stop_at: deadline.stop_at(),
        tasks: Tasks::default(),
    }
}

/// Runs the handler until it ends, panics, or must be stopped.
async fn run(handlers: &Handlers, job: &Job, context: &JobContext) -> End {
    let unexpected = |error: String| match job.interrupted() {
        Interrupted::Retry => End::Retryable { error, not_before: None },
        Interrupted::Hold => End::Interrupted { error },
    };
    let run = async {
        match timeout_at(context.stop_at, handlers.run(job, context)).await {
            Ok(Ok(result)) => End::Done { result },
            Ok(Err(JobError { kind, source })) => {
                let error = clean(&causes(&*source));
                match kind {
                    ErrorKind::Permanent => End::Permanent { error },
                    ErrorKind::Retryable { not_before } => End::Retryable { error, not_before },
                    ErrorKind::Unexpected => unexpected(error),
                }
            }
            Err(_) => unexpected("stopped for lack of time".to_owned()),
        }
    };
    // A panic, also of what is dropped, leaves nothing behind that another
    // record could see: handlers share clients, which are made for that.
    let ended = AssertUnwindSafe(run).catch_unwind().await;
    ended.unwrap_or_else(|panic| unexpected(clean(&format!("panicked: {}", panic_text(&*panic)))))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
