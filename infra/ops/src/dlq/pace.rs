//! A limit to how much happens in a second.

use std::time::{Duration, Instant};

/// Gives out turns, so many a second.
#[derive(Debug)]
pub(super) struct Pace {
    each: Duration,
    next: Instant,
}

impl Pace {
    /// This many a second, from `now` on.
    #[must_use]
    pub(super) fn per_second(rate: u32, now: Instant) -> Self {
        Self { each: Duration::from_secs(1) / rate.max(1), next: now }
    }

    /// When the next `count` of them may happen; they count as done then. What
    /// was not used is not saved up.
    pub(super) fn turn(&mut self, now: Instant, count: usize) -> Instant {
        let turn = self.next.max(now);
        self.next = turn + self.each * u32::try_from(count).unwrap_or(u32::MAX);
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_rate_goes_through() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::per_second(100, start);
        assert_eq!(pace.turn(start, 10), start);
        assert_eq!(pace.turn(after(1), 5), after(100));
        assert_eq!(pace.turn(after(120), 10), after(150));
        assert_eq!(pace.turn(after(9_000), 10), after(9_000));
        assert_eq!(pace.turn(after(9_000), 10), after(9_100));
    }
}
