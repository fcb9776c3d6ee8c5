//! The job table: job entries, and the conditions under which they change.
//!
//! What a condition means is said here once; [`DynamoJobTable`] writes it as
//! an expression, and tests hold `InMemoryJobTable` to the same answers.

mod dynamodb;
mod grouped;
#[cfg(feature = "test-support")]
mod memory;

use uuid::Uuid;

pub use self::dynamodb::{Cause, DynamoJobTable, Verdict};
pub use self::grouped::{GroupError, GroupTable, GroupWrite, GroupedJobTable};
#[cfg(feature = "test-support")]
pub use self::memory::InMemoryJobTable;
use crate::aws::CallError;
use crate::entry::{Failure, JobEntry, State};
use crate::fingerprint::Fingerprint;
use crate::job_id::JobId;
use crate::principal::Principal;
use crate::sources::Timestamp;

/// Where job entries are kept.
///
/// # Errors
///
/// Every method errs with a [`TableError`] if there is no answer to rely on.
/// A write may have taken effect all the same.
pub trait JobTable: Send + Sync {
    /// Reads an entry, seeing every write that was answered before. The entry
    /// may be expired.
    fn get(&self, id: JobId) -> impl Future<Output = Result<Option<JobEntry>, TableError>> + Send;

    /// Writes a whole entry, if `condition` holds at `now`.
    fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> impl Future<Output = Result<Written, TableError>> + Send;

    /// Ends a claim, if the entry is still `running` under its `token`.
    fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> impl Future<Output = Result<Written, TableError>> + Send;

    /// Cancels a job of `principal`, if the entry is alive at `now` and nobody
    /// has the job in hand: it is queued, or the lease of an attempt that was
    /// not the last is over. After the last one, the message is a dead letter
    /// already and the job has failed.
    fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> impl Future<Output = Result<Cancellation, TableError>> + Send;
}

/// The condition of a put, which writes a whole entry. An expired entry counts
/// as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutIf {
    /// The job has no entry.
    Absent,
    /// The job has no entry, or may run: it is queued and need not wait, or
    /// `again` lets it run once more.
    ///
    /// Never where the entry has the new one's lease token already. Such a put
    /// is a late copy: its caller gave it up, made it once more, and has settled
    /// that claim since.
    Claimable {
        /// The entry must have this fingerprint; `None` for kinds with an
        /// intent, where any payload means the same job.
        fingerprint: Option<Fingerprint>,
        /// Which jobs may run once more.
        again: Again,
    },
    /// The job has no entry, or one that is queued with this fingerprint.
    Unclaimed {
        /// Tells the job from others under its id.
        fingerprint: Fingerprint,
    },
}

/// Which jobs may run once more, of those that are not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Those that failed, and those whose lease ended before they did.
    Any,
    /// Those that failed before this moment. Kinds that are held when interrupted
    /// are repeated only where a person asks for it, by sending the message again.
    ///
    /// The moment is about when the message in hand was sent. Whoever sent it after
    /// the job failed is that person. If it was sent before, it is one more
    /// copy, or it comes back because its dead letter could not be sent.
    FailedBefore(Timestamp),
}

/// How a claim ends, and what the entry says then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The handler did its work.
    Complete {
        /// The result as JSON text, if it is kept.
        result: Option<String>,
        /// There was a result, but it was too large to keep.
        result_omitted: bool,
    },
    /// The job is given back, to run again.
    Release {
        /// What happened.
        error: String,
        /// Not to be run again before this.
        not_before: Timestamp,
    },
    /// The job will not run again by itself.
    Fail(Failure),
    /// The job was interrupted, and must not run again by itself.
    Hold(Failure),
}

impl Settlement {
    /// The state that the entry gets.
    #[must_use]
    pub const fn state(&self) -> State {
        match self {
            Self::Complete { .. } => State::Succeeded,
            Self::Release { .. } => State::Queued,
            Self::Fail(_) => State::Failed,
            Self::Hold(_) => State::Held,
        }
    }
}

/// Whether a conditional write took place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The condition held.
    Yes,
    /// It did not. The entry that was there, if the table told.
    No(Option<Box<JobEntry>>),
}

/// What came of cancelling a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// The condition held. The entry as it is now.
    Done(Box<JobEntry>),
    /// It did not. The entry that was there, if the table told. It may be
    /// another principal's, expired, or cancelled before: also by this very
    /// call, when its first answer was lost and the SDK repeated it.
    Refused(Option<Box<JobEntry>>),
}

/// The table gave no answer to rely on.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The call failed: throttled, denied, timed out, reset.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The item is there, but is not an entry that this code can read.
    #[error("entry of job {id} has no readable \"{attribute}\"")]
    Unreadable {
        /// Whose entry it is.
        id: JobId,
        /// The attribute that is missing or of the wrong type.
        attribute: &'static str,
    },
}

impl TableError {
    /// Everything that the log needs, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Call(error) => error.describe(),
            Self::Unreadable { .. } => self.to_string(),
        }
    }
}
