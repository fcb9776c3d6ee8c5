//! How long a record waits before SQS shows it again.

use std::time::Duration;

/// Exponential backoff with full jitter: a random part of a bound that
/// doubles with every receive, so that jobs which failed together do not come
/// back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The bound after the first receive.
    pub base: Duration,
    /// The bound never grows beyond this.
    pub cap: Duration,
}

/// The wait for what has nothing to do with the job: an outage of the table, or
/// a message for a consumer that is yet to be deployed. It begins with a minute,
/// in case it was only a moment's throttling, and grows so fast that even five
/// receives last for more than an hour.
const LONG: Backoff = Backoff { base: Duration::from_mins(1), cap: Duration::from_hours(1) };

/// By how much the long wait's bound grows with every receive.
const LONG_GROWTH: u32 = 8;

/// The longest wait of [`long_delay`].
pub const LONG_DELAY_CAP: Duration = LONG.cap;

/// The longest wait that SQS is asked for. It hides a message for 12 h at most
/// after it was received, which may be a batching window (5 min at most) and an
/// invocation (15 min at most) ago. A job that is to wait longer is hidden anew
/// at each receive.
///
/// Source: `ChangeMessageVisibility`, Amazon SQS API reference.
pub(crate) const MAX_VISIBILITY_TIMEOUT: Duration = Duration::from_mins(12 * 60 - 5 - 15);

/// The long wait after receive number `receive` (from 1), given a random
/// `fraction` of 0 to 1.
///
/// It is at least half of its bound. Otherwise chance could use up all receives
/// within the hour that an outage may last.
#[must_use]
pub fn long_delay(receive: u32, fraction: f64) -> Duration {
    let growth = LONG_GROWTH.saturating_pow(receive.saturating_sub(1));
    let half = LONG.base.saturating_mul(growth).min(LONG.cap) / 2;
    half + half.mul_f64(fraction.clamp(0.0, 1.0))
}

impl Backoff {
    /// The wait after receive number `receive` (from 1), given a random
    /// `fraction` of 0 to 1.
    #[must_use]
    pub fn delay(self, receive: u32, fraction: f64) -> Duration {
        let doublings = receive.saturating_sub(1).min(31);
        let bound = self.base.saturating_mul(1 << doublings).min(self.cap);
        bound.mul_f64(fraction.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_up_to_the_cap() {
        let backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_mins(1) };
        let bounds: Vec<_> = (0..8).map(|receive| backoff.delay(receive, 1.0).as_secs()).collect();
        assert_eq!(bounds, [2, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.delay(u32::MAX, 1.0), backoff.cap);
        assert_eq!(backoff.delay(3, 0.25), Duration::from_secs(2));
        assert_eq!(backoff.delay(3, 0.0), Duration::ZERO);
    }

    #[test]
    fn an_outage_of_an_hour_does_not_use_up_the_receives() {
        let waits = |fraction| (1..5).map(move |receive| long_delay(receive, fraction));
        assert!(waits(0.0).sum::<Duration>() > Duration::from_hours(1));
        let longest: Vec<_> = waits(1.0).map(|wait| wait.as_secs() / 60).collect();
        assert_eq!(longest, [1, 8, 60, 60]);
        assert_eq!(long_delay(u32::MAX, 1.0), LONG_DELAY_CAP);
    }
}
