//! The job table in memory, for tests and simulations.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::{
    Again, Cancellation, GroupError, GroupTable, GroupWrite, JobTable, PutIf, Settlement,
    TableError, Written,
};
use crate::entry::{JobEntry, State};
use crate::fingerprint::Fingerprint;
use crate::job_id::JobId;
use crate::principal::Principal;
use crate::sources::Timestamp;

/// Answers as [`super::DynamoJobTable`] does, without a network.
#[derive(Debug, Default)]
pub struct InMemoryJobTable(Mutex<HashMap<JobId, JobEntry>>);

impl InMemoryJobTable {
    /// The entry of a job, expired or not.
    #[must_use]
    pub fn entry(&self, id: JobId) -> Option<JobEntry> {
        self.lock().get(&id).cloned()
    }

    /// Puts an entry there, whatever was there before.
    pub fn insert(&self, entry: JobEntry) {
        self.lock().insert(entry.id, entry);
    }

    /// Deletes an entry, as TTL or a person does.
    pub fn remove(&self, id: JobId) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, JobEntry>> {
        // No operation leaves the map half changed, so a panic elsewhere in a
        // test does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobTable for InMemoryJobTable {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        Ok(self.entry(id))
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let mut entries = self.lock();
        let old = entries.get(&entry.id);
        if old.is_some_and(|old| !old.is_expired(now) && !allows(old, condition, entry, now)) {
            return Ok(Written::No(old.cloned().map(Box::new)));
        }
        entries.insert(entry.id, in_whole_seconds(entry.clone()));
        Ok(Written::Yes)
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let mut entries = self.lock();
        match entries.get_mut(&id) {
            Some(entry) if entry.state == State::Running && entry.lease_token == Some(token) => {
                apply(entry, settlement, now);
                Ok(Written::Yes)
            }
            old => Ok(Written::No(old.cloned().map(Box::new))),
        }
    }

    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        let mut entries = self.lock();
        match entries.get_mut(&id) {
            Some(entry) if is_cancellable(entry, principal, now) => {
                end_claim(entry, State::Cancelled, now);
                Ok(Cancellation::Done(Box::new(entry.clone())))
            }
            old => Ok(Cancellation::Refused(old.cloned().map(Box::new))),
        }
    }
}

impl GroupTable for InMemoryJobTable {
    async fn write_group(&self, writes: &[GroupWrite]) -> Result<Vec<bool>, GroupError> {
        let mut made = Vec::new();
        for write in writes {
            made.push(match write {
                GroupWrite::Create { entry } => self.create(entry),
                GroupWrite::Claim { entry, fingerprint } => {
                    self.claim_untouched(entry, fingerprint.as_ref())
                }
                GroupWrite::Settle { id, token, settlement, now } => {
                    matches!(self.settle(*id, *token, settlement, *now).await, Ok(Written::Yes))
                }
            });
        }
        Ok(made)
    }
}

impl InMemoryJobTable {
    fn create(&self, entry: &JobEntry) -> bool {
        let mut entries = self.lock();
        let is_absent = !entries.contains_key(&entry.id);
        if is_absent {
            entries.insert(entry.id, in_whole_seconds(entry.clone()));
        }
        is_absent
    }

    fn claim_untouched(&self, entry: &JobEntry, fingerprint: Option<&Fingerprint>) -> bool {
        let mut entries = self.lock();
        let is_untouched = entries.get(&entry.id).is_some_and(|old| {
            old.state == State::Queued
                && old.lease_token.is_none()
                && old.not_before.is_none()
                && fingerprint.is_none_or(|wanted| *wanted == old.fingerprint)
        });
        if is_untouched {
            entries.insert(entry.id, in_whole_seconds(entry.clone()));
        }
        is_untouched
    }
}

fn is_cancellable(old: &JobEntry, principal: &Principal, now: Timestamp) -> bool {
    let has_no_owner = match old.state {
        State::Queued => true,
        State::Running => old.lease_until.is_some_and(|until| until < now) && !old.last_attempt,
        State::Succeeded | State::Failed | State::Held | State::Cancelled => false,
    };
    has_no_owner && old.principal == *principal && !old.is_expired(now)
}

fn allows(old: &JobEntry, condition: &PutIf, new: &JobEntry, now: Timestamp) -> bool {
    match condition {
        PutIf::Absent => false,
        PutIf::Claimable { fingerprint, again } => {
            let state = match (old.state, again) {
                (State::Queued, _) => old.not_before.is_none_or(|not_before| not_before <= now),
                (State::Failed, Again::Any) => true,
                (State::Failed, Again::FailedBefore(moment)) => old.updated_at < *moment,
                (State::Running, Again::Any) => old.lease_until.is_some_and(|until| until < now),
                (State::Running, Again::FailedBefore(_))
                | (State::Succeeded | State::Held | State::Cancelled, _) => false,
            };
            let is_late = new.lease_token.is_some() && old.lease_token == new.lease_token;
            state
                && !is_late
                && fingerprint.as_ref().is_none_or(|wanted| *wanted == old.fingerprint)
        }
        PutIf::Unclaimed { fingerprint } => {
            old.state == State::Queued && old.fingerprint == *fingerprint
        }
    }
}

fn apply(entry: &mut JobEntry, settlement: &Settlement, now: Timestamp) {
    end_claim(entry, settlement.state(), now);
    match settlement.clone() {
        Settlement::Complete { result, result_omitted } => {
            // An update leaves alone what it does not name.
            entry.result = result.or(entry.result.take());
            entry.result_omitted = result_omitted;
        }
        Settlement::Release { error, not_before } => {
            (entry.error, entry.not_before) = (Some(error), Some(not_before));
        }
        Settlement::Fail(failure) | Settlement::Hold(failure) => {
            entry.reason = Some(failure.reason.to_owned());
            entry.error = Some(failure.error);
        }
    }
}

/// Removes what the last attempt left.
fn end_claim(entry: &mut JobEntry, state: State, now: Timestamp) {
    (entry.state, entry.updated_at) = (state, now);
    (entry.lease_until, entry.not_before, entry.reason, entry.error) = (None, None, None, None);
}

/// DynamoDB's TTL attribute counts seconds.
fn in_whole_seconds(entry: JobEntry) -> JobEntry {
    let expires_at = Timestamp::from_millis(entry.expires_at.as_seconds() * 1000);
    JobEntry { expires_at, ..entry }
}
