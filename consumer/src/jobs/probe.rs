//! `probe`: does as its payload says, so that tests see what follows.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use shared::jobs::{Probe, Step};
use shared::{JobId, Timestamp};

use crate::handler::{JobContext, JobError};

/// The runs of each job in this process.
static RUNS: LazyLock<Mutex<HashMap<JobId, Runs>>> = LazyLock::new(Mutex::default);

/// How often a job was run in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Times that its handler was started.
    pub started: usize,
    /// Handlers of it that run now.
    pub running: usize,
    /// The most that ever ran at the same time.
    pub most_at_once: usize,
}

/// The runs of job `id`.
#[must_use]
pub fn runs(id: JobId) -> Runs {
    update(id, |runs| *runs)
}

fn update<R>(id: JobId, change: impl FnOnce(&mut Runs) -> R) -> R {
    change(RUNS.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default())
}

/// Counts a handler as running until it ends, is dropped or panics, and tells
/// the log when that was.
struct Running(JobId);

impl Running {
    fn start(id: JobId) -> Self {
        update(id, |runs| {
            runs.started += 1;
            runs.running += 1;
            runs.most_at_once = runs.most_at_once.max(runs.running);
        });
        Self(id)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        update(self.0, |runs| runs.running -= 1);
        tracing::info!(job.id = %self.0, "handler ended");
    }
}

/// What a probe answers.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    attempt: u32,
    filler: String,
}

#[expect(clippy::panic, clippy::exit, reason = "that is what the probe is asked for")]
pub(super) async fn run(probe: &Probe, context: &JobContext) -> Result<Answer, JobError> {
    let _running = Running::start(context.job_id);
    let position = usize::try_from(context.attempt).unwrap_or(usize::MAX).saturating_sub(1);
    let step = probe.attempts.get(position).or(probe.attempts.last());
    let mut filler = String::new();
    match step.cloned().unwrap_or(Step::Succeed) {
        Step::Succeed => {}
        Step::FailPermanentlyWithout(file) if Path::new(&file).exists() => {}
        Step::SucceedAfterMs(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        Step::FailAfterMs(millis) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            return Err(JobError::retryable("failed as asked"));
        }
        Step::FailPermanentlyAfterMs(millis) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            return Err(JobError::permanent("failed for good as asked"));
        }
        Step::SucceedWithBytes(bytes) => filler = "x".repeat(bytes),
        Step::Fail => return Err(JobError::retryable("failed as asked")),
        Step::FailUntil(millis) => {
            let not_before = Timestamp::from_millis(millis);
            return Err(JobError::retryable_at(not_before, "busy until then"));
        }
        Step::FailPermanently | Step::FailPermanentlyWithout(_) => {
            return Err(JobError::permanent("failed for good as asked"));
        }
        Step::Err => return Err(std::io::Error::other("erred as asked").into()),
        Step::Panic => panic!("panicked as asked"),
        Step::PanicInTask => context.spawn(async { panic!("panicked as asked") }).await?,
        Step::SpawnAndHang => context.spawn(std::future::pending()).await?,
        Step::BlockForMs(millis) => {
            let block = move || std::thread::sleep(Duration::from_millis(millis));
            context.spawn_blocking(block).await?;
        }
        Step::Hang => std::future::pending().await,
        Step::Exit => std::process::exit(9),
    }
    Ok(Answer { attempt: context.attempt, filler })
}
