//! A job table in memory, whose calls go wrong as they are told.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shared::aws::CallError;
use shared::table::{
    Cancellation, GroupError, GroupTable, GroupWrite, InMemoryJobTable, PutIf, Settlement,
    TableError, Written,
};
use shared::{JobEntry, JobId, JobTable, Principal, Timestamp};
use uuid::Uuid;

/// What goes wrong with a call to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It fails, and has no effect.
    Fails,
    /// It never answers.
    Hangs,
    /// It takes its time.
    Slow(Duration),
    /// It takes effect, but the caller gets an error.
    AnswerLost,
    /// It takes effect, its answer is lost on the way, and it is sent again.
    SentTwice,
    /// A refusal does not tell the old item.
    NoOldItem,
    /// The entry is deleted after it was refused, and the refusal does not
    /// tell it.
    Vanishes,
}

/// A table in memory that answers as told.
#[derive(Default)]
pub(crate) struct FaultyTable {
    pub(crate) entries: InMemoryJobTable,
    pub(super) faults: Mutex<VecDeque<Fault>>,
    pub(crate) is_down: AtomicBool,
    /// Writes of each group.
    pub(crate) groups: Mutex<Vec<usize>>,
}

impl FaultyTable {
    fn next_fault(&self) -> Fault {
        if self.is_down.load(Ordering::Relaxed) {
            return Fault::Fails;
        }
        self.faults.lock().unwrap().pop_front().unwrap_or(Fault::None)
    }

    async fn with_fault<F>(&self, id: JobId, call: impl Fn() -> F) -> Result<Written, TableError>
    where
        F: Future<Output = Result<Written, TableError>>,
    {
        // A call is a point at which others can go on.
        tokio::task::yield_now().await;
        let fault = self.next_fault();
        match fault {
            Fault::Fails => return Err(unavailable()),
            Fault::Hangs => pending().await,
            Fault::Slow(time) => tokio::time::sleep(time).await,
            _ => {}
        }
        let answer = call().await?;
        match (fault, answer) {
            (Fault::AnswerLost, _) => Err(no_answer()),
            (Fault::SentTwice, _) => call().await,
            (Fault::NoOldItem, Written::No(_)) => Ok(Written::No(None)),
            (Fault::Vanishes, Written::No(_)) => {
                self.entries.remove(id);
                Ok(Written::No(None))
            }
            (_, answer) => Ok(answer),
        }
    }
}

fn unavailable() -> TableError {
    CallError::for_tests("PutItem", Some("ThrottlingException")).into()
}

fn no_answer() -> TableError {
    CallError::for_tests("PutItem", None).into()
}

/// A group is one call, which goes wrong as a whole.
impl GroupTable for FaultyTable {
    async fn write_group(&self, writes: &[GroupWrite]) -> Result<Vec<bool>, GroupError> {
        tokio::task::yield_now().await;
        self.groups.lock().unwrap().push(writes.len());
        let call = |code| CallError::for_tests("BatchExecuteStatement", code).into();
        match self.next_fault() {
            Fault::Fails => Err(call(Some("ThrottlingException"))),
            Fault::Hangs => pending().await,
            Fault::Slow(time) => {
                tokio::time::sleep(time).await;
                self.entries.write_group(writes).await
            }
            Fault::AnswerLost => {
                self.entries.write_group(writes).await?;
                Err(call(None))
            }
            Fault::SentTwice => {
                self.entries.write_group(writes).await?;
                self.entries.write_group(writes).await
            }
            Fault::None | Fault::NoOldItem | Fault::Vanishes => {
                self.entries.write_group(writes).await
            }
        }
    }
}

impl JobTable for FaultyTable {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        match self.next_fault() {
            Fault::Fails => Err(unavailable()),
            _ => self.entries.get(id).await,
        }
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        self.with_fault(entry.id, || self.entries.put(entry, condition, now)).await
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        self.with_fault(id, || self.entries.settle(id, token, settlement, now)).await
    }

    /// Cancelling is the producer's.
    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        self.entries.cancel(id, principal, now).await
    }
}
