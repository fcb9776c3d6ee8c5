//! What a job handler is given, and what it gives back.
//!
//! Handlers see nothing of duplicates, leases or retries. They say what came
//! of their work:
//!
//! - `Ok(result)`: done. The result is kept as JSON.
//! - [`JobError::permanent`]: no retry can help.
//! - [`JobError::retryable`]: nothing happened yet, try again.
//! - any other error, by `?`: try again; but a job of a kind that is held when
//!   interrupted waits for a person, since nobody knows what happened.
//!
//! The jobs of a batch share one thread. A handler that computes for long, or
//! calls what blocks, must do so in [`JobContext::spawn_blocking`]: it would
//! stop its neighbours, and nothing could stop it in time.

use std::error::Error;
use std::time::Duration;

use shared::{JobId, Principal, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::tasks::Tasks;

/// What a handler may know of the job that it runs.
#[derive(Debug)]
pub struct JobContext {
    /// Names the job. Pass it on as the idempotency key of whatever the
    /// handler calls: that closes the last gap, an effect whose completion
    /// could not be stored.
    pub job_id: JobId,
    /// The kind's name.
    pub kind: &'static str,
    /// Which receive of its message this is, from 1.
    pub attempt: u32,
    /// Whether a retryable failure will be final.
    pub is_last_attempt: bool,
    /// Who asked for the job.
    pub principal: Principal,
    /// The X-Ray trace that the job belongs to.
    pub trace_header: Option<String>,
    /// When the handler will be stopped.
    pub stop_at: Instant,
    pub(crate) tasks: Tasks,
}

impl JobContext {
    /// How long until the handler is stopped.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.stop_at.saturating_duration_since(Instant::now())
    }

    /// Runs `future` beside the handler. It is aborted when the handler ends
    /// or is stopped, so wait for the handle.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.tasks.spawn(future)
    }

    /// Runs blocking `work` on a thread of its own.
    ///
    /// A thread cannot be stopped. If the handler is stopped and the thread is
    /// still at work when the invocation must answer, the process ends itself.
    pub fn spawn_blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        self.tasks.spawn_blocking(work)
    }
}

/// Why a handler did not do its work, and what follows from it.
#[derive(Debug)]
pub struct JobError {
    pub(crate) kind: ErrorKind,
    pub(crate) source: Box<dyn Error + Send + Sync>,
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The job has failed.
    Permanent,
    /// Nothing happened; the job may run again, but not before this.
    Retryable { not_before: Option<Timestamp> },
    /// The handler says nothing about what happened.
    Unexpected,
}

impl JobError {
    /// No retry can help: the job fails, its message is a dead letter.
    pub fn permanent(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: ErrorKind::Permanent, source: source.into() }
    }

    /// The effect has not happened, and may be tried again.
    pub fn retryable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let kind = ErrorKind::Retryable { not_before: None };
        Self { kind, source: source.into() }
    }

    /// As [`JobError::retryable`], but not before a moment, such as the one
    /// that a `Retry-After` header names.
    pub fn retryable_at(
        not_before: Timestamp,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let kind = ErrorKind::Retryable { not_before: Some(not_before) };
        Self { kind, source: source.into() }
    }
}

/// So that `?` works on any error. `JobError` itself is no [`Error`], since
/// this would then be a conversion into itself.
impl<E: Error + Send + Sync + 'static> From<E> for JobError {
    fn from(source: E) -> Self {
        Self { kind: ErrorKind::Unexpected, source: source.into() }
    }
}
