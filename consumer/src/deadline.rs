//! The time that an invocation has, and what each part of it is kept for.
//!
//! ```text
//! invoked ................. stop_at ...... settle_until ...... answer_at .. end
//!         claim and run             settle               tell SQS        answer
//! ```
//!
//! A function that is killed at its end loses what it knows: which records
//! succeeded. So it stops its jobs before that, and answers.

use std::time::Duration;

use shared::{Clock, Timestamp};
use tokio::time::Instant;

use crate::config::CALL_LIMITS;

/// For answering Lambda once everything is said to AWS.
const ANSWER: Duration = Duration::from_millis(400);

/// For one call that tells SQS: a dead letter, or a visibility.
const TELL: Duration = CALL_LIMITS.operation;

/// For one call that settles a job which was stopped.
const SETTLE: Duration = CALL_LIMITS.operation;

/// A job that would have less time than this is not started.
const SHORTEST_RUN: Duration = Duration::from_secs(1);

/// The clocks of two hosts disagree by less than this. What waits for another
/// host's moment waits this much longer, or it would come too early and use up
/// a receive.
pub const CLOCK_SKEW: Duration = Duration::from_secs(2);

/// A lease lasts this much longer than the invocation: for clocks that
/// disagree, and for a kill that comes late. SQS shows the message again after
/// 6 times the function's timeout of at least 10 s, so the lease ends before.
const LEASE_MARGIN: Duration = CLOCK_SKEW.saturating_add(Duration::from_secs(3));

/// The error of a call that would have outlasted the invocation.
pub(crate) const NO_TIME_LEFT: &str = "no time left";

/// The longest invocation that Lambda allows. A deadline further ahead is a
/// mistake of whoever made the event.
const LONGEST_INVOCATION: Duration = Duration::from_mins(15);

/// When this invocation must have done what.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    invoked: Instant,
    at: Timestamp,
    left: Duration,
}

impl Deadline {
    /// The deadline that the runtime names, or the configured `timeout` from
    /// now where it names none: `cargo lambda watch` sends one of 1970.
    #[must_use]
    pub fn new(clock: &Clock, named: Timestamp, timeout: Duration) -> Self {
        let now = clock.now();
        let latest = now + LONGEST_INVOCATION;
        let at = if named <= now { now + timeout } else { named.min(latest) };
        Self { invoked: Instant::now(), at, left: at.since(now) }
    }

    /// When Lambda ends the invocation, by the clock of entries.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Until when a lease of this invocation lasts.
    #[must_use]
    pub fn lease_until(&self) -> Timestamp {
        self.at + LEASE_MARGIN
    }

    /// Whether there is time to start a job.
    #[must_use]
    pub fn may_start(&self) -> bool {
        Instant::now() + SHORTEST_RUN < self.stop_at()
    }

    /// When running jobs are stopped.
    #[must_use]
    pub fn stop_at(&self) -> Instant {
        self.before_end(ANSWER + TELL + SETTLE)
    }

    /// Until when entries are written.
    #[must_use]
    pub fn settle_until(&self) -> Instant {
        self.before_end(ANSWER + TELL)
    }

    /// When everything must be said to AWS.
    #[must_use]
    pub fn answer_at(&self) -> Instant {
        self.before_end(ANSWER)
    }

    fn before_end(&self, reserve: Duration) -> Instant {
        self.invoked + self.left.saturating_sub(reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const TIMEOUT: Duration = Duration::from_secs(30);

    fn at(named: Timestamp) -> Timestamp {
        Deadline::new(&Clock::new(|| NOW), named, TIMEOUT).at()
    }

    #[test]
    fn a_deadline_that_is_absent_or_past_is_not_believed() {
        assert_eq!(at(Timestamp::default()), NOW + TIMEOUT);
        assert_eq!(at(NOW), NOW + TIMEOUT);
    }

    #[test]
    fn a_deadline_ahead_is_believed_within_reason() {
        let soon = NOW + Duration::from_secs(7);
        assert_eq!(at(soon), soon);
        assert_eq!(at(NOW + Duration::from_hours(5)), NOW + LONGEST_INVOCATION);
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_start_only_while_there_is_time() {
        let deadline = Deadline::new(&Clock::new(|| NOW), NOW + Duration::from_secs(10), TIMEOUT);
        assert!(deadline.may_start());
        tokio::time::advance(Duration::from_millis(4_999)).await;
        assert!(deadline.may_start());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!deadline.may_start());
        assert!(deadline.stop_at() < deadline.settle_until());
        assert!(deadline.settle_until() < deadline.answer_at());
    }
}
