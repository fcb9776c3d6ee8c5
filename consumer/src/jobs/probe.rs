//! `probe`: does as its payload says, so that tests see what follows.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use shared::jobs::{Probe, Step};
use shared::{Job, JobId, Timestamp};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::handler::{JobContext, JobError};

type Book = Arc<Mutex<HashMap<JobId, Runs>>>;

thread_local! {
    /// The runs of each job that this thread's runtime ran.
    static BOOK: Book = Book::default();
    /// Until when threads work that probes of this thread's runtime started.
    static THREADS: Arc<Mutex<Vec<Instant>>> = Arc::default();
}

/// How often a job was run by this thread's runtime.
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
    BOOK.with(|book| update(book, id, |runs| *runs))
}

/// Forgets the runs of all jobs, since a simulation may make the same again.
pub fn forget_runs() {
    BOOK.with(|book| lock(book).clear());
}

fn update<R>(book: &Book, id: JobId, change: impl FnOnce(&mut Runs) -> R) -> R {
    change(lock(book).entry(id).or_default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Threads of probes that are at work, of those that were started from here.
#[must_use]
pub fn threads_at_work() -> usize {
    THREADS.with(|threads| lock(threads).len())
}

/// Whether a thread is still at work that should have ended by now: a tokio
/// clock that is paused does not wait for threads.
#[must_use]
pub fn a_thread_is_late() -> bool {
    let now = Instant::now();
    THREADS.with(|threads| lock(threads).iter().any(|until| *until <= now))
}

/// Works until then in a thread, by the time of tokio's clock.
async fn outlive_stop(running: Running, until: Instant, context: &JobContext) {
    let (runtime, threads) = (Handle::current(), THREADS.with(Arc::clone));
    lock(&threads).push(until);
    let thread = context.spawn_blocking(move || {
        runtime.block_on(sleep_until(until));
        drop(running);
        let mut threads = lock(&threads);
        let own = threads.iter().position(|other| *other == until);
        own.map(|own| threads.swap_remove(own));
    });
    thread.await.unwrap_or_default();
}

/// Counts a handler as running until it ends, is dropped or panics, and tells
/// the log when that was.
struct Running {
    book: Book,
    id: JobId,
}

impl Running {
    fn start(id: JobId) -> Self {
        let book = BOOK.with(Arc::clone);
        update(&book, id, |runs| {
            runs.started += 1;
            runs.running += 1;
            runs.most_at_once = runs.most_at_once.max(runs.running);
        });
        Self { book, id }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A thread may outlive the simulation that forgot its job.
        update(&self.book, self.id, |runs| runs.running = runs.running.saturating_sub(1));
        tracing::info!(job.id = %self.id, "handler ended");
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
    let running = Running::start(context.job_id);
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
        Step::OutliveStopByMs(millis) => {
            let until = context.stop_at + Duration::from_millis(millis);
            outlive_stop(running, until, context).await;
        }
        Step::Hang => std::future::pending().await,
        Step::Exit => std::process::exit(9),
    }
    Ok(Answer { attempt: context.attempt, filler })
}

/// Panics if an e-mail has been sent to somebody who is called `panics-…`: a
/// handler that goes wrong when its work is done.
#[expect(clippy::panic, reason = "that is what the recipient asks for")]
pub(super) fn after(job: &Job) {
    if let Job::WelcomeEmail(email) = job
        && email.to.starts_with("panics-")
    {
        panic!("panicked as asked, after the e-mail");
    }
}
