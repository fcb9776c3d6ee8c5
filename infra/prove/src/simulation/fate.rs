//! What becomes of an invocation: it ends, is killed, or stands still.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use consumer::jobs::probe::{a_thread_is_late, threads_at_work};
use tokio::time::{sleep, timeout};

use super::faults::Fault;
use super::world::{TIMEOUT, World};

/// How late Lambda may kill a function that is out of time: what a lease
/// leaves for it, beyond what clocks may disagree by.
const LATEST_KILL: u64 = 2_900;

/// Drives an invocation to its end; `None` if it was killed before.
///
/// It can be killed or stand still wherever it awaits something.
pub(crate) async fn drive<R>(
    world: &Arc<World>,
    who: &str,
    invocation: impl Future<Output = R>,
) -> Option<R> {
    let climate = &world.climate;
    let killed_at = world.is_due(climate.crash).then(|| world.random().u32(1..30));
    let frozen_at =
        world.is_due(climate.freeze).then(|| (world.random().u32(1..20), world.millis(10..40_000)));
    let is_late = world.is_due(climate.late_kill);
    let late = if is_late { world.millis(0..LATEST_KILL) } else { Duration::ZERO };

    let driven = async {
        let mut invocation = pin!(invocation);
        let mut polls = 0;
        loop {
            let step = std::future::poll_fn(|context| {
                polls += 1;
                if killed_at.is_some_and(|poll| polls >= poll) {
                    return Poll::Ready(Step::Killed);
                }
                if let Some((poll, duration)) = frozen_at
                    && poll == polls
                {
                    return Poll::Ready(Step::Frozen(duration));
                }
                let poll = invocation.as_mut().poll(context).map(Step::Ended);
                if threads_at_work() > 0 {
                    world.threads.notify_one();
                }
                poll
            });
            match step.await {
                Step::Ended(answer) => return Some(answer),
                Step::Killed => {
                    world.count(Fault::Crash);
                    return None;
                }
                Step::Frozen(duration) => {
                    world.count(Fault::Freeze);
                    world.log(|| format!("{who}: stands still for {duration:?}"));
                    sleep(duration).await;
                }
            }
        }
    };
    let answer = timeout(TIMEOUT + late, driven).await;
    let (ended, in_time) = (matches!(answer, Ok(Some(_))), answer.is_ok());
    if !ended {
        world.log(|| format!("{who}: killed"));
    }
    if !in_time && is_late {
        world.count(Fault::LateKill);
    }
    world.ledger().check(in_time || frozen_at.is_some(), || {
        format!("{who}: did not answer in time, though nothing held it up")
    });
    answer.ok().flatten()
}

enum Step<R> {
    Ended(R),
    Killed,
    Frozen(Duration),
}

/// Stands in the history of a world that has threads. They run in real time, so
/// that such a world is never quite the same again.
pub(crate) const A_THREAD: &str = "a thread is at work";

/// Lets time pass while threads are at work, for which tokio's paused clock
/// stands still.
pub(crate) async fn pass_time_for_threads(world: Arc<World>) {
    /// Turns that everything gets that can go on before time passes.
    const TURNS: u32 = 64;
    const TICK: Duration = Duration::from_millis(100);
    loop {
        world.threads.notified().await;
        world.log(|| A_THREAD.to_owned());
        while threads_at_work() > 0 {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            tokio::time::advance(TICK).await;
            // Threads run in real time: one that this tick woke ends before the
            // next, however busy the machine is.
            while a_thread_is_late() {
                tokio::task::yield_now().await;
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}
