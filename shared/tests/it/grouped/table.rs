//! Tables that see what is written in groups, and what alone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use shared::aws::CallError;
use shared::table::{
    Cancellation, GroupError, GroupTable, GroupWrite, GroupedJobTable, PutIf, Settlement,
    TableError, Written,
};
use shared::{JobEntry, JobId, JobTable, Principal, Timestamp};
use uuid::Uuid;

use super::NOW;

/// What goes wrong with the call of a group.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// It has no effect, and no answer.
    Lost,
    /// It has its effect, and no answer.
    AnswerLost,
    /// The table takes no groups.
    NotSupported,
}

/// A table that counts its calls, and answers for groups as told.
pub(crate) struct Watched<T> {
    pub(super) table: T,
    /// Writes of each group.
    pub(super) groups: Mutex<Vec<usize>>,
    /// New entries, claims and settlements that were made in groups.
    made: [AtomicUsize; 3],
    /// Writes that were made by themselves.
    alone: AtomicUsize,
    pub(super) faults: Mutex<VecDeque<Fault>>,
}

impl<T> Watched<T> {
    pub(crate) fn new(table: T) -> Arc<Self> {
        let (groups, faults) = (Mutex::default(), Mutex::default());
        let (made, alone) = (Default::default(), AtomicUsize::default());
        Arc::new(Self { table, groups, made, alone, faults })
    }

    pub(crate) fn made(&self) -> [usize; 3] {
        [0, 1, 2].map(|kind| self.made[kind].load(Ordering::Relaxed))
    }

    /// The sizes of the groups, and the number of writes that were no group's.
    pub(super) fn calls(&self) -> (Vec<usize>, usize) {
        (self.groups.lock().unwrap().clone(), self.alone.load(Ordering::Relaxed))
    }
}

impl<T: GroupTable> GroupTable for Watched<T> {
    async fn write_group(&self, writes: &[GroupWrite]) -> Result<Vec<bool>, GroupError> {
        self.groups.lock().unwrap().push(writes.len());
        let fault = self.faults.lock().unwrap().pop_front();
        let no_answer = || CallError::for_tests("BatchExecuteStatement", None).into();
        match fault {
            Some(Fault::Lost) => return Err(no_answer()),
            Some(Fault::NotSupported) => return Err(GroupError::NotSupported("no".to_owned())),
            Some(Fault::AnswerLost) | None => {}
        }
        let made = self.table.write_group(writes).await?;
        for (write, _) in writes.iter().zip(&made).filter(|(_, made)| **made) {
            let kind = match write {
                GroupWrite::Create { .. } => 0,
                GroupWrite::Claim { .. } => 1,
                GroupWrite::Settle { .. } => 2,
            };
            self.made[kind].fetch_add(1, Ordering::Relaxed);
        }
        fault.map_or(Ok(made), |_| Err(no_answer()))
    }
}

impl<T: JobTable> JobTable for Watched<T> {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        self.table.get(id).await
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        self.alone.fetch_add(1, Ordering::Relaxed);
        self.table.put(entry, condition, now).await
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        self.alone.fetch_add(1, Ordering::Relaxed);
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

/// A table each of whose writes is in a group if it can be, because another
/// job's is made at the same time.
pub(crate) struct InCompany<T>(GroupedJobTable<T>);

impl<T: GroupTable + 'static> InCompany<T> {
    pub(crate) fn new(table: Arc<T>) -> Self {
        Self(GroupedJobTable::new(table, true))
    }

    async fn company(&self) {
        let release = Settlement::Release { error: String::new(), not_before: NOW };
        let answer = self.0.settle(JobId::new(Uuid::new_v4()), Uuid::nil(), &release, NOW).await;
        assert_eq!(answer.unwrap(), Written::No(None));
    }
}

impl<T: GroupTable + 'static> JobTable for InCompany<T> {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        self.0.get(id).await
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        tokio::join!(self.0.put(entry, condition, now), self.company()).0
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        tokio::join!(self.0.settle(id, token, settlement, now), self.company()).0
    }

    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        self.0.cancel(id, principal, now).await
    }
}
