//! Runs a job's handler until it ends, panics, or must be stopped.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use shared::job::Interrupted;
use shared::telemetry::causes;
use shared::{Job, Timestamp};
use tokio::time::{Instant, timeout_at};

use crate::handler::{ErrorKind, JobContext, JobError};
use crate::jobs::Handlers;
use crate::text::clean;

/// How a run ended.
pub(crate) enum End {
    /// The work is done.
    Done { result: Option<String> },
    /// It may be tried again, but not before this.
    Retryable { error: String, not_before: Option<Timestamp> },
    /// It would fail again.
    Permanent { error: String },
    /// Nobody knows whether its effect happened, and its kind is held then.
    Interrupted { error: String },
}

/// What is measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// How long it took.
    pub(crate) took: Duration,
    /// Whether it was stopped for lack of time.
    pub(crate) was_stopped: bool,
}

/// Runs the handler of `job`.
pub(crate) async fn run_handler(
    handlers: &Handlers,
    job: &Job,
    context: &JobContext,
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
    (end, Run { took: started.elapsed(), was_stopped })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
