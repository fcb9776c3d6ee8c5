//! When a message becomes visible, as far as that can be known from outside.

use std::time::Duration;

use shared::Timestamp;

/// Two clocks are compared that both count milliseconds, or less.
const PRECISION: Duration = Duration::from_millis(10);

/// How long a call usually lasts, on a machine that is busy.
const CALL: Duration = Duration::from_millis(400);

/// Spans of time, in each of which a message becomes visible.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(Vec<(Timestamp, Timestamp)>);

impl Deadlines {
    /// A message becomes visible at some time from `first` to `last`.
    pub(crate) fn add(&mut self, first: Timestamp, last: Timestamp) {
        self.0.push((first, last + PRECISION));
    }

    /// Whether a message may become visible between two moments; until when.
    pub(crate) fn between(&self, from: Timestamp, to: Timestamp) -> Option<Timestamp> {
        let touching =
            self.0.iter().filter(|(first, last)| *first <= to + PRECISION && *last >= from);
        touching.map(|(_, last)| *last).max()
    }

    /// Waits while a call would be interrupted.
    pub(crate) async fn wait(&self, now: impl Fn() -> Timestamp) {
        while let Some(over) = self.between(now(), now() + CALL) {
            tokio::time::sleep(over.since(now()) + Duration::from_millis(1)).await;
        }
    }
}
