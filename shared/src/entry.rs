//! The job entry: all that is known of one job. The job table has an item for
//! each.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use uuid::Uuid;

use crate::fingerprint::Fingerprint;
use crate::job_id::JobId;
use crate::principal::Principal;
use crate::sources::Timestamp;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Accepted, or given back after a failure that will be retried.
    Queued,
    /// Claimed by an invocation, until its lease is over.
    Running,
    /// Done.
    Succeeded,
    /// Will not be retried by itself; it is in the dead-letter queue.
    Failed,
    /// Interrupted; whether its effect happened is for a person to find out.
    Held,
    /// Cancelled while it was queued.
    Cancelled,
}

impl State {
    const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Held, Self::Cancelled];

    /// The state's name in the table, in answers and in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(UnknownState)
    }
}

/// The text names no state that is known here. A newer deployment may have
/// written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown state")]
pub struct UnknownState;

/// The right to run a job, until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Fences its owner's writes: nobody else has this token.
    pub token: Uuid,
    /// When its owner can no longer be running.
    pub until: Timestamp,
}

/// Why a job failed, in one word for machines and one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of [`crate::reason`].
    pub reason: &'static str,
    /// The error's text, cut and cleaned.
    pub error: String,
}

/// One job as the table knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEntry {
    /// Names the work; the table's key.
    pub id: JobId,
    /// The kind's name. A text: an entry may be newer than its reader.
    pub kind: String,
    /// Where the job stands.
    pub state: State,
    /// Who asked for it.
    pub principal: Principal,
    /// Of its kind and payload: tells it from another job under the same id.
    pub fingerprint: Fingerprint,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When the entry was last written.
    pub updated_at: Timestamp,
    /// After this the entry counts as absent. Whole seconds in the table.
    pub expires_at: Timestamp,
    /// Which receive of its message the latest claim belongs to; 0 before
    /// the first.
    pub attempt: u32,
    /// Whether the job will not run again by itself if that attempt is
    /// interrupted: SQS will not deliver its message again, or its kind is held.
    pub last_attempt: bool,
    /// Token of the latest claim. It stays when the claim is settled, so that
    /// a settlement whose answer was lost can recognise its own write.
    pub lease_token: Option<Uuid>,
    /// When the claim's owner can no longer be running; only while `running`.
    pub lease_until: Option<Timestamp>,
    /// Not to be run again before this.
    pub not_before: Option<Timestamp>,
    /// Why it failed: one of [`crate::reason`], or a newer one.
    pub reason: Option<String>,
    /// The latest error.
    pub error: Option<String>,
    /// The result, as JSON text.
    pub result: Option<String>,
    /// There was a result, but it was too large to keep.
    pub result_omitted: bool,
}

impl JobEntry {
    /// The entry of a job that was just accepted.
    #[must_use]
    pub fn queued(
        id: JobId,
        kind: &str,
        principal: Principal,
        fingerprint: Fingerprint,
        now: Timestamp,
        ttl: Duration,
    ) -> Self {
        Self {
            id,
            kind: kind.to_owned(),
            state: State::Queued,
            principal,
            fingerprint,
            created_at: now,
            updated_at: now,
            expires_at: now + ttl,
            attempt: 0,
            last_attempt: false,
            lease_token: None,
            lease_until: None,
            not_before: None,
            reason: None,
            error: None,
            result: None,
            result_omitted: false,
        }
    }

    /// Whether the entry counts as absent at `now`, deleted by DynamoDB or not.
    #[must_use]
    pub const fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.as_seconds() <= now.as_seconds()
    }

    /// Whether the job is claimed and its owner may still be running at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Timestamp) -> bool {
        self.state == State::Running && self.lease_until.is_some_and(|until| until >= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_name() {
        for state in State::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        assert_eq!("paused".parse::<State>(), Err(UnknownState));
    }
}
