//! The job table as one function reaches it: over a network, and watched.

use std::sync::Arc;
use std::time::Duration;

use shared::table::{
    Again, Cancellation, GroupError, GroupTable, GroupWrite, PutIf, Settlement, TableError, Written,
};
use shared::{JobEntry, JobId, JobTable, Principal, Timestamp};
use uuid::Uuid;

use super::ledger::Action;
use super::world::{Service, World};

#[derive(Clone, Debug)]
pub(crate) struct SimulatedTable {
    pub(crate) world: Arc<World>,
    /// How long a call may take, all attempts included.
    pub(crate) patience: Duration,
    /// Who calls.
    pub(crate) who: Arc<str>,
}

impl SimulatedTable {
    /// Lets `change` have its effect on the entry of `id`, and books it.
    async fn book<R>(
        &self,
        id: JobId,
        action: Action,
        change: impl Future<Output = Result<R, TableError>>,
        is_done: impl Fn(&R) -> bool,
    ) -> Result<R, TableError> {
        let _turn = self.world.turn().await;
        let before = self.world.entry(id).await;
        let answer = change.await?;
        self.note(id, &action, before.as_ref(), is_done(&answer));
        Ok(answer)
    }

    /// Lets the writes of a group have their effects, and books each.
    async fn book_group(&self, writes: &[GroupWrite]) -> Result<Vec<bool>, GroupError> {
        let _turn = self.world.turn().await;
        let mut before = Vec::new();
        for write in writes {
            before.push(self.world.entry(write.id()).await);
        }
        let done = self.world.entries.write_group(writes).await?;
        for ((write, before), done) in writes.iter().zip(before).zip(&done) {
            let action = match write {
                GroupWrite::Create { .. } => Action::Put(PutIf::Absent),
                GroupWrite::Claim { fingerprint, .. } => {
                    let fingerprint = fingerprint.clone();
                    Action::Put(PutIf::Claimable { fingerprint, again: Again::Any })
                }
                GroupWrite::Settle { token, settlement, .. } => {
                    Action::Settle(*token, settlement.clone())
                }
            };
            self.note(write.id(), &action, before.as_ref(), *done);
        }
        // One may have been carried out, and be told as an error all the same.
        Ok(done.into_iter().map(|done| done && !self.world.refuses_one_of_several()).collect())
    }

    /// Books what `action` did to an entry.
    fn note(&self, id: JobId, action: &Action, before: Option<&JobEntry>, done: bool) {
        self.world.log(|| {
            let state = |entry: Option<&JobEntry>| {
                entry.map_or("absent".to_owned(), |entry| {
                    format!("{} (attempt {})", entry.state, entry.attempt)
                })
            };
            let refused = if done { "" } else { ", refused" };
            format!("{}: {id}: {}{refused}; it was {}", self.who, name(action), state(before))
        });
        if done {
            let now = self.world.now();
            self.world.ledger().changed(id, action, before, now);
        }
    }

    fn forget(&self, written: Written) -> Written {
        match written {
            Written::No(Some(_)) if self.world.forgets_old_item() => Written::No(None),
            written => written,
        }
    }
}

fn name(action: &Action) -> String {
    match action {
        Action::Put(PutIf::Absent) => "put if absent".to_owned(),
        Action::Put(PutIf::Claimable { .. }) => "claim".to_owned(),
        Action::Put(PutIf::Unclaimed { .. }) => "fail without a claim".to_owned(),
        Action::Settle(_, settlement) => format!("settle as {}", settlement.state()),
        Action::Cancel => "cancel".to_owned(),
    }
}

impl JobTable for SimulatedTable {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        let table = self.clone();
        let effect = move || {
            let table = table.clone();
            async move { table.world.entries.get(id).await }
        };
        self.world.call(Service::Table, "GetItem", self.patience, effect).await?
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let (table, entry, condition) = (self.clone(), entry.clone(), condition.clone());
        let effect = move || {
            let (table, entry, condition) = (table.clone(), entry.clone(), condition.clone());
            async move {
                let put = table.world.entries.put(&entry, &condition, now);
                let action = Action::Put(condition.clone());
                Box::pin(table.book(entry.id, action, put, |it| *it == Written::Yes)).await
            }
        };
        let written = self.world.call(Service::Table, "PutItem", self.patience, effect).await??;
        Ok(self.forget(written))
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let (table, settlement) = (self.clone(), settlement.clone());
        let effect = move || {
            let (table, settlement) = (table.clone(), settlement.clone());
            async move {
                let settle = table.world.entries.settle(id, token, &settlement, now);
                let action = Action::Settle(token, settlement.clone());
                Box::pin(table.book(id, action, settle, |it| *it == Written::Yes)).await
            }
        };
        let written =
            self.world.call(Service::Table, "UpdateItem", self.patience, effect).await??;
        Ok(self.forget(written))
    }

    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        let (table, principal) = (self.clone(), principal.clone());
        let effect = move || {
            let (table, principal) = (table.clone(), principal.clone());
            async move {
                let cancel = table.world.entries.cancel(id, &principal, now);
                let is_done = |answer: &Cancellation| matches!(answer, Cancellation::Done(_));
                Box::pin(table.book(id, Action::Cancel, cancel, is_done)).await
            }
        };
        self.world.call(Service::Table, "UpdateItem", self.patience, effect).await?
    }
}

/// A group is one call, which goes wrong as a whole.
impl GroupTable for SimulatedTable {
    async fn write_group(&self, writes: &[GroupWrite]) -> Result<Vec<bool>, GroupError> {
        let (table, writes) = (self.clone(), writes.to_vec());
        let effect = move || {
            let (table, writes) = (table.clone(), writes.clone());
            async move { Box::pin(table.book_group(&writes)).await }
        };
        self.world.call(Service::Table, "BatchExecuteStatement", self.patience, effect).await?
    }
}
