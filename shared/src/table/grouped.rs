//! A job table that makes writes of several jobs in one call.
//!
//! Jobs of one request are accepted, and records of one batch claimed and
//! settled, at the same time, so most of their writes are asked for in the same
//! turn of the runtime. [`GroupedJobTable`] collects these and hands them on
//! together; nobody waits for anything but that turn. Who asks does not see it:
//! each write has its own answer.
//!
//! Only one answer of a group counts: that a write was made. Whatever else
//! comes back (no such entry, another state, throttled, no answer at all) is
//! asked again, by a call of its own as if there were no groups, and that
//! answer decides. So everything difficult is decided in one place, and a lost
//! answer of a whole group is no new case, but that of a call which is repeated:
//! the single call meets what the group may have written. A claim or settlement
//! knows it by its lease token; a new entry is answered like any that is there.
//! A late write does no harm either: a new entry replaces none, a claim replaces
//! only an entry that was never claimed, a settlement ends only its own claim.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use uuid::Uuid;

use super::{Cancellation, JobTable, PutIf, Settlement, TableError, Written};
use crate::aws::CallError;
use crate::entry::JobEntry;
use crate::fingerprint::Fingerprint;
use crate::job_id::JobId;
use crate::principal::Principal;
use crate::sources::Timestamp;

/// The most writes of a group: the most statements that DynamoDB takes in one
/// call.
const MOST: usize = 25;

/// A completion with a larger result is written alone, since everybody in a
/// group waits for all of its bytes.
const LARGEST_RESULT: usize = 8 * 1024;

/// A table that can make writes of different jobs in one call.
pub trait GroupTable: JobTable {
    /// Makes those of `writes` whose conditions hold; whether each was made, in
    /// their order. `false` is no answer: the write may have been made.
    ///
    /// # Errors
    ///
    /// Nobody knows what was made, unless the error says that nothing was.
    fn write_group(
        &self,
        writes: &[GroupWrite],
    ) -> impl Future<Output = Result<Vec<bool>, GroupError>> + Send;
}

/// A write that can be made together with those of other jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupWrite {
    /// Writes a whole entry where there is none; an expired one counts as there.
    Create {
        /// The entry.
        entry: Box<JobEntry>,
    },
    /// Writes a whole entry over one that its producer wrote and nobody has
    /// touched since: it is queued, was never claimed, and is not to wait.
    Claim {
        /// The entry.
        entry: Box<JobEntry>,
        /// What the other one must have, too; see [`PutIf::Claimable`].
        fingerprint: Option<Fingerprint>,
    },
    /// See [`JobTable::settle`].
    Settle {
        /// The job.
        id: JobId,
        /// The lease's token.
        token: Uuid,
        /// What becomes of the entry.
        settlement: Settlement,
        /// When.
        now: Timestamp,
    },
}

impl GroupWrite {
    /// The job whose entry is written.
    #[must_use]
    pub fn id(&self) -> JobId {
        match self {
            Self::Create { entry } | Self::Claim { entry, .. } => entry.id,
            Self::Settle { id, .. } => *id,
        }
    }
}

/// A group got no answer of its own.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// Nobody knows what was made.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Nothing was made, and nothing will be: the table takes no groups, or not
    /// from this caller.
    #[error("groups of writes are not supported: {0}")]
    NotSupported(String),
}

/// Makes writes in groups where several are asked for at the same time.
#[derive(Debug)]
pub struct GroupedJobTable<T> {
    table: Arc<T>,
    /// Whether there are groups; not any more once the table has refused one.
    is_grouping: Arc<AtomicBool>,
    open: Mutex<Option<Group>>,
}

/// A group that others can join.
#[derive(Debug)]
struct Group {
    /// Taken away when they are sent. A group that was not sent has some.
    writes: Arc<Mutex<Vec<GroupWrite>>>,
    /// Weak: a group whose members have all gone away is never sent.
    answers: WeakShared<Answers>,
}

/// Whether each write was made. Driven by whoever of the group's members is
/// there, so that one who goes away costs the others nothing.
type Answers = BoxFuture<'static, Arc<[bool]>>;

impl<T: GroupTable + 'static> GroupedJobTable<T> {
    /// Groups writes to `table`, or hands on each by itself.
    #[must_use]
    pub fn new(table: Arc<T>, is_grouping: bool) -> Self {
        let is_grouping = Arc::new(AtomicBool::new(is_grouping));
        Self { table, is_grouping, open: Mutex::default() }
    }

    fn is_grouping(&self) -> bool {
        self.is_grouping.load(Ordering::Relaxed)
    }

    /// Whether `write` was made in a group. If not, nobody knows.
    async fn is_made(&self, write: GroupWrite) -> bool {
        let Some((answers, place)) = self.join(write) else { return false };
        // Everybody who can go on now has a turn and joins, before anybody goes
        // on to the call.
        tokio::task::yield_now().await;
        answers.await.get(place).copied().unwrap_or(false)
    }

    /// Adds `write` to a group, and tells its place there. A second write of
    /// the same job is left to be made alone.
    fn join(&self, write: GroupWrite) -> Option<(Shared<Answers>, usize)> {
        let mut open = lock(&self.open);
        let group = open.as_ref().and_then(|group| Some((&group.writes, group.answers.upgrade()?)));
        if let Some((writes, answers)) = group {
            let mut writes = lock(writes);
            if writes.iter().any(|other| other.id() == write.id()) {
                return None;
            }
            if (1..MOST).contains(&writes.len()) {
                writes.push(write);
                return Some((answers, writes.len() - 1));
            }
        }
        let writes = Arc::new(Mutex::new(vec![write]));
        let answers = self.send(Arc::clone(&writes)).boxed().shared();
        *open = Some(Group { writes, answers: answers.downgrade()? });
        Some((answers, 0))
    }

    /// Sends what has come together.
    fn send(
        &self,
        writes: Arc<Mutex<Vec<GroupWrite>>>,
    ) -> impl Future<Output = Arc<[bool]>> + Send + 'static {
        let (table, is_grouping) = (Arc::clone(&self.table), Arc::clone(&self.is_grouping));
        async move {
            let writes = mem::take(&mut *lock(&writes));
            if writes.len() == 1 {
                // A call for one is cheaper.
                return Arc::default();
            }
            match table.write_group(&writes).await {
                Ok(made) => made.into(),
                Err(GroupError::Call(error)) => {
                    let error = error.describe();
                    tracing::warn!(
                        error,
                        "a group was not answered; its jobs are written one by one"
                    );
                    Arc::default()
                }
                Err(error @ GroupError::NotSupported(_)) => {
                    if is_grouping.swap(false, Ordering::Relaxed) {
                        let error = error.to_string();
                        tracing::warn!(error, "from now on jobs are written one by one");
                    }
                    Arc::default()
                }
            }
        }
    }
}

impl<T: GroupTable + 'static> JobTable for GroupedJobTable<T> {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        self.table.get(id).await
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        if self.is_grouping()
            && let Some(write) = group_write(entry, condition)
            && self.is_made(write).await
        {
            return Ok(Written::Yes);
        }
        self.table.put(entry, condition, now).await
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        if self.is_grouping() && is_small(settlement) {
            let settlement = settlement.clone();
            if self.is_made(GroupWrite::Settle { id, token, settlement, now }).await {
                return Ok(Written::Yes);
            }
        }
        self.table.settle(id, token, settlement, now).await
    }

    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        self.table.cancel(id, principal, now).await
    }
}

/// The write of a group that does what a put of `entry` does, if there is one.
fn group_write(entry: &JobEntry, condition: &PutIf) -> Option<GroupWrite> {
    let entry = || Box::new(entry.clone());
    match condition {
        PutIf::Absent => Some(GroupWrite::Create { entry: entry() }),
        PutIf::Claimable { fingerprint, again: _ } => {
            Some(GroupWrite::Claim { entry: entry(), fingerprint: fingerprint.clone() })
        }
        PutIf::Unclaimed { .. } => None,
    }
}

fn is_small(settlement: &Settlement) -> bool {
    match settlement {
        Settlement::Complete { result, result_omitted: _ } => {
            result.as_ref().is_none_or(|result| result.len() <= LARGEST_RESULT)
        }
        Settlement::Release { .. } | Settlement::Fail(_) | Settlement::Hold(_) => true,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No change leaves a group half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
