//! Work that handlers start beside themselves, and that must not outlive them.
//!
//! Between two invocations Lambda freezes the process. What is still alive
//! then goes on at some later invocation, when its job's lease is over and
//! somebody else may run it. So the consumer must know of all such work: the
//! crate's `clippy.toml` bans other ways to spawn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span};

/// Between two looks at whether the last work has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The tasks and threads of one handler. Tasks are aborted when this is
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    alive: Arc<AtomicUsize>,
    handles: Mutex<Vec<AbortHandle>>,
}

/// Counts as alive until it is dropped.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Tasks {
    #[expect(clippy::disallowed_methods, reason = "this is how handlers spawn")]
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let alive = Alive::begin(&self.alive);
        let task = async move {
            let _alive = alive;
            future.await
        };
        let handle = tokio::spawn(task.in_current_span());
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle.abort_handle());
        handle
    }

    #[expect(clippy::disallowed_methods, reason = "this is how handlers block")]
    pub(crate) fn spawn_blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let alive = Alive::begin(&self.alive);
        let span = Span::current();
        tokio::task::spawn_blocking(move || {
            let _alive = alive;
            span.in_scope(work)
        })
    }

    /// Aborts the tasks, and waits until nothing is alive; whether that was so
    /// by `give_up_at`. A thread cannot be aborted.
    pub(crate) async fn end(&self, give_up_at: Instant) -> bool {
        self.abort();
        while self.alive.load(Ordering::Acquire) > 0 {
            if Instant::now() >= give_up_at {
                return false;
            }
            sleep(LOOK_AGAIN).await;
        }
        true
    }

    fn abort(&self) {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.abort();
    }
}
