//! Where time, new ids and chance come from.
//!
//! All are passed in by `main`, so that tests and simulations can rule them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_millis;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The last moment that RFC 3339 can write, in milliseconds since the epoch.
const END_OF_9999: u64 = 253_402_300_799_999;

/// A moment in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `millis` milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, the unit of DynamoDB's TTL.
    #[must_use]
    pub const fn as_seconds(self) -> u64 {
        self.0 / 1000
    }

    /// The time from `earlier` until this moment; zero if it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 text in UTC, for people and HTTP clients: always with three
    /// digits of a second, so that texts sort as their moments do.
    ///
    /// Moments beyond the year 9999, which RFC 3339 cannot write, show as its
    /// end.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let since_epoch = Duration::from_millis(self.0.min(END_OF_9999));
        format_rfc3339_millis(UNIX_EPOCH + since_epoch).to_string()
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_millis(duration)))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(duration)))
    }
}

/// The whole milliseconds of a duration, as logs, metrics and timestamps count.
#[must_use]
pub fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The clock of the machine.
    #[must_use]
    pub fn system() -> Self {
        Self::new(|| {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp::default() + since_epoch
        })
    }

    /// A clock that says what `now` says.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Makes new unique ids: of jobs that nothing else names, and of leases.
#[derive(Clone)]
pub struct Ids(Arc<dyn Fn(Timestamp) -> Uuid + Send + Sync>);

impl Ids {
    /// `UUIDv7`: the moment, then 74 random bits (RFC 9562, 5.7).
    #[must_use]
    pub fn random() -> Self {
        Self::new(|now| {
            let nanos = u32::try_from(now.as_millis() % 1000 * 1_000_000).unwrap_or_default();
            Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, now.as_seconds(), nanos))
        })
    }

    /// A source that answers what `next` answers.
    pub fn new(next: impl Fn(Timestamp) -> Uuid + Send + Sync + 'static) -> Self {
        Self(Arc::new(next))
    }

    /// A new id, made at `now`.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Uuid {
        (self.0)(now)
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ids")
    }
}

/// Draws numbers that spread out what would otherwise happen together.
#[derive(Clone)]
pub struct Random(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Random {
    /// Unpredictable enough for jitter; not for secrets.
    #[must_use]
    pub fn system() -> Self {
        Self::new(fastrand::f64)
    }

    /// A source that draws what `fraction` answers.
    pub fn new(fraction: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(fraction))
    }

    /// A number of 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        (self.0)()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_never_wrap() {
        let late = Timestamp::from_millis(u64::MAX);
        assert_eq!(late + Duration::MAX, late);
        assert_eq!(Timestamp::default().since(late), Duration::ZERO);
        assert_eq!(late.to_rfc3339(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn timestamps_read_as_rfc_3339() {
        assert_eq!(
            Timestamp::from_millis(1_700_000_000_123).to_rfc3339(),
            "2023-11-14T22:13:20.123Z"
        );
        assert_eq!(Timestamp::default().to_rfc3339(), "1970-01-01T00:00:00.000Z");
    }
}
