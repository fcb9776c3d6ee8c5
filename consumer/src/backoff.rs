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

/// The bound for outages of the table, and for messages that wait for a newer
/// consumer to be deployed. It grows past [`Backoff::cap`]'s default, so that
/// the few receives of a message last for hours.
const LONG: Backoff = Backoff { base: Duration::from_mins(1), cap: Duration::from_hours(1) };

impl Backoff {
    /// The backoff of what no retry of the job can mend.
    #[must_use]
    pub const fn long() -> Self {
        LONG
    }

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
}
