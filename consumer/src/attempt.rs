//! One attempt at a job: claim it, run its handler, settle the claim.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use shared::entry::{Failure, Lease};
use shared::job::Interrupted;
use shared::message::Message;
use shared::sources::whole_millis;
use shared::table::{Settlement, TableError};
use shared::telemetry::causes;
use shared::telemetry::traces::trace_header;
use shared::{Job, JobTable, Timestamp, reason};
use tokio::time::{Instant, timeout_at};

use crate::Consumer;
use crate::backoff::LONGEST_DELAY;
use crate::claim::{Claim, Claimant};
use crate::deadline::Deadline;
use crate::dispose::{LONGEST_WAIT, NO_TIME_LEFT};
use crate::event::Record;
use crate::handler::{ErrorKind, JobContext, JobError};
use crate::jobs::Handlers;
use crate::outcome::Outcome;
use crate::settle::{Settled, completion, failure, settle};
use crate::tasks::Tasks;
use crate::text::clean;

/// What came of a record, and of its handler if that ran.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) outcome: Outcome,
    pub(crate) run: Option<Run>,
}

/// The run of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// How long it took.
    pub(crate) took: Duration,
    /// Whether it was stopped for lack of time.
    pub(crate) was_stopped: bool,
    /// How long the message had waited, if this is its first receive: later
    /// ones wait on purpose.
    pub(crate) queue_wait: Option<Duration>,
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
        Self { outcome, run: None }
    }
}

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
        if let Some(outcome) = self.claim(&claimant, now, deadline).await {
            return outcome.into();
        }
        let lease = claimant.lease;
        if !deadline.may_start() {
            // The claim took long. To start the job now would be to stop it.
            let error = "no time was left to run it".to_owned();
            let end = End::Retryable { error, not_before: Some(self.clock.now()) };
            return self.settle(message, record, lease, end, deadline).await.into();
        }
        let context = context(&claimant, record, deadline);
        let queue_wait = record.sent_at.filter(|_| record.receive_count == 1);
        let queue_wait = queue_wait.map(|sent_at| self.clock.now().since(sent_at));
        tracing::info!(queue_wait_ms = queue_wait.map(whole_millis), "job started");
        let (end, run) = run(&self.handlers, &message.job, &context, queue_wait).await;
        let outcome = self.end(message, record, lease, end, &context, deadline).await;
        Attempt { outcome, run: Some(run) }
    }

    /// Stores how the run ended, and ends what it left behind.
    async fn end(
        &self,
        message: &Message,
        record: &Record,
        lease: Lease,
        end: End,
        context: &JobContext,
        deadline: &Deadline,
    ) -> Outcome {
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

    /// How long a job can wait, and its message still be there: every wait is a
    /// receive, of which one is left for the run and one for a mishap; and the
    /// queue forgets what it has kept for too long.
    fn latest(&self, record: &Record, now: Timestamp) -> Timestamp {
        let receives_left = self.settings.max_receive_count - record.receive_count;
        let by_receives = now + LONGEST_WAIT * receives_left.saturating_sub(1).max(1);
        let sent_at = record.sent_at.unwrap_or(now);
        by_receives.min(sent_at + self.settings.retention.saturating_sub(LONGEST_DELAY))
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
                let not_before = not_before.unwrap_or(now + delay).min(self.latest(record, now));
                let settlement = Settlement::Release { error: error.clone(), not_before };
                (settlement, Outcome::Released { not_before, error })
            }
        }
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

/// Runs the handler until it ends, panics, or must be stopped.
async fn run(
    handlers: &Handlers,
    job: &Job,
    context: &JobContext,
    queue_wait: Option<Duration>,
) -> (End, Run) {
    let started = Instant::now();
    let mut was_stopped = false;
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
            Err(_) => {
                was_stopped = true;
                unexpected("stopped for lack of time".to_owned())
            }
        }
    };
    // A panic, also of what is dropped, leaves nothing behind that another
    // record could see: handlers share clients, which are made for that.
    let ended = AssertUnwindSafe(run).catch_unwind().await;
    let end = ended
        .unwrap_or_else(|panic| unexpected(clean(&format!("panicked: {}", panic_text(&*panic)))));
    (end, Run { took: started.elapsed(), was_stopped, queue_wait })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
