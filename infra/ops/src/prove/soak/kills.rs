//! Kills processes of the functions at moments of its own choosing.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use crate::living::processes_of;

/// Between two kills, in milliseconds. A killed batch is seen again after a
/// minute and has one receive less, so with more of them receives run out.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 1_000..=5_000;

/// Kills one process of one of the functions after the other.
pub(super) async fn go_on_killing(
    functions: &[&str],
    endpoint: &str,
    seed: u64,
    killed: &AtomicU64,
) -> Infallible {
    let mut dice = fastrand::Rng::with_seed(seed);
    loop {
        tokio::time::sleep(Duration::from_millis(dice.u64(PAUSE_MS))).await;
        let Some(function) = dice.choice(functions) else { continue };
        let processes = processes_of(function, endpoint);
        if let Some(process) = dice.choice(processes)
            && kill_process(process, Signal::KILL).is_ok()
        {
            killed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
