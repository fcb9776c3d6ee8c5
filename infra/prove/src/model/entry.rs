//! The job's entry as the model keeps it, and what a table call does to it.
//!
//! Only what the code under check looks at is kept, so that states which
//! differ in nothing else count as one. The transitions are those of
//! [`InMemoryJobTable`], which is held to DynamoDB's answers elsewhere.

use futures::FutureExt;
use shared::entry::Failure;
use shared::table::{Again, Cancellation, InMemoryJobTable, PutIf, Settlement, Written};
use shared::{Fingerprint, JobEntry, JobId, JobTable, Principal, State, Timestamp};
use uuid::Uuid;

use super::replay::{Call, Reply};

/// The moment from which times of the model are counted: the present, or the
/// beginning of an invocation.
pub(crate) const ZERO: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// The fingerprint of the job's messages. Nobody computes it anew.
pub(crate) const FINGERPRINT: &str = "fingerprint";

/// An entry never ends within a run of the model.
const TTL: std::time::Duration = std::time::Duration::from_hours(24 * 30);

/// The model has one job.
const ID: JobId = JobId::new(Uuid::from_u128(1));

/// Milliseconds before or after a moment.
pub(crate) type Millis = i64;

/// The moment that lies `millis` after [`ZERO`].
pub(crate) fn moment(millis: Millis) -> Timestamp {
    Timestamp::from_millis(ZERO.as_millis().saturating_add_signed(millis))
}

/// How long after [`ZERO`] a moment is.
pub(crate) fn millis(moment: Timestamp) -> Millis {
    moment.as_millis().cast_signed() - ZERO.as_millis().cast_signed()
}

/// What of an entry decides anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) state: State,
    pub(crate) token: Option<u8>,
    pub(crate) lease_until: Option<Millis>,
    pub(crate) not_before: Option<Millis>,
    pub(crate) last_attempt: bool,
    /// When it failed, if it did.
    pub(crate) failed_at: Option<Millis>,
}

impl Entry {
    /// The entry that the producer writes.
    pub(crate) const QUEUED: Self = Self {
        state: State::Queued,
        token: None,
        lease_until: None,
        not_before: None,
        last_attempt: false,
        failed_at: None,
    };

    pub(crate) fn of(entry: &JobEntry) -> Self {
        Self {
            state: entry.state,
            token: entry.lease_token.and_then(|token| token.as_u128().try_into().ok()),
            lease_until: entry.lease_until.map(millis),
            not_before: entry.not_before.map(millis),
            last_attempt: entry.last_attempt,
            failed_at: (entry.state == State::Failed).then(|| millis(entry.updated_at)),
        }
    }

    pub(crate) fn to_job_entry(self) -> JobEntry {
        let (principal, fingerprint) =
            (Principal::anonymous(), Fingerprint::from_text(FINGERPRINT));
        JobEntry {
            state: self.state,
            lease_token: self.token.map(uuid_of),
            lease_until: self.lease_until.map(moment),
            not_before: self.not_before.map(moment),
            last_attempt: self.last_attempt,
            updated_at: moment(self.failed_at.unwrap_or(0)),
            ..JobEntry::queued(ID, "probe", principal, fingerprint, ZERO, TTL)
        }
    }

    /// The same entry, its times counted from `by` earlier.
    #[must_use]
    pub(crate) fn shifted(self, by: Millis) -> Self {
        Self {
            lease_until: self.lease_until.map(|until| until + by),
            not_before: self.not_before.map(|until| until + by),
            failed_at: self.failed_at.map(|moment| moment + by),
            ..self
        }
    }
}

/// The lease token that is called `token` here.
pub(crate) fn uuid_of(token: u8) -> Uuid {
    Uuid::from_u128(u128::from(token))
}

/// What a settlement writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Settling {
    Complete,
    Release { not_before: Millis },
    Fail,
    Hold,
}

impl Settling {
    pub(crate) fn of(settlement: &Settlement) -> Self {
        match settlement {
            Settlement::Complete { .. } => Self::Complete,
            Settlement::Release { not_before, .. } => {
                Self::Release { not_before: millis(*not_before) }
            }
            Settlement::Fail(_) => Self::Fail,
            Settlement::Hold(_) => Self::Hold,
        }
    }

    fn to_settlement(self) -> Settlement {
        let failure = || Failure { reason: "reason", error: "error".to_owned() };
        match self {
            Self::Complete => Settlement::Complete { result: None, result_omitted: true },
            Self::Release { not_before } => {
                let not_before = moment(not_before);
                Settlement::Release { error: "error".to_owned(), not_before }
            }
            Self::Fail => Settlement::Fail(failure()),
            Self::Hold => Settlement::Hold(failure()),
        }
    }
}

/// Under which condition an entry is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    Absent,
    Claimable { same_fingerprint: bool, failed_before: Option<Millis> },
    Unclaimed,
}

impl Condition {
    pub(crate) fn of(condition: &PutIf) -> Self {
        match condition {
            PutIf::Absent => Self::Absent,
            PutIf::Claimable { fingerprint, again } => Self::Claimable {
                same_fingerprint: fingerprint.is_some(),
                failed_before: match again {
                    Again::Any => None,
                    Again::FailedBefore(moment) => Some(millis(*moment)),
                },
            },
            PutIf::Unclaimed { .. } => Self::Unclaimed,
        }
    }

    /// The same condition, its times counted from `by` earlier.
    #[must_use]
    pub(crate) fn shifted(self, by: Millis) -> Self {
        match self {
            Self::Claimable { same_fingerprint, failed_before } => {
                let failed_before = failed_before.map(|moment| moment + by);
                Self::Claimable { same_fingerprint, failed_before }
            }
            Self::Absent | Self::Unclaimed => self,
        }
    }

    fn to_put_if(self) -> PutIf {
        let fingerprint = Fingerprint::from_text(FINGERPRINT);
        match self {
            Self::Absent => PutIf::Absent,
            Self::Claimable { same_fingerprint, failed_before } => PutIf::Claimable {
                fingerprint: same_fingerprint.then_some(fingerprint),
                again: failed_before
                    .map_or(Again::Any, |failed| Again::FailedBefore(moment(failed))),
            },
            Self::Unclaimed => PutIf::Unclaimed { fingerprint },
        }
    }
}

/// Carries out a table call on `entry`: what is there then, and the answer.
pub(crate) fn execute(entry: Option<Entry>, call: Call) -> (Option<Entry>, Reply) {
    let table = holding(entry);
    let written = |written| match written {
        Some(Ok(Written::Yes)) => Reply::Written,
        Some(Ok(Written::No(old))) => Reply::Refused(old.map(|old| Entry::of(&old))),
        Some(Err(_)) | None => Reply::Throttled,
    };
    let reply = match call {
        Call::Put { entry, condition, now } => {
            let (entry, condition) = (entry.to_job_entry(), condition.to_put_if());
            written(table.put(&entry, &condition, moment(now)).now_or_never())
        }
        Call::Settle { token, settlement, now } => {
            let settlement = settlement.to_settlement();
            let settled = table.settle(ID, uuid_of(token), &settlement, moment(now));
            written(settled.now_or_never())
        }
        Call::Get => Reply::Entry(entry),
        Call::ChangeVisibility { .. } | Call::DeadLetter => Reply::Done,
    };
    (table.entry(ID).map(|entry| Entry::of(&entry)), reply)
}

/// The client cancels the job, by a clock that is `skew` ahead; the entry then.
pub(crate) fn cancel(entry: Option<Entry>, skew: Millis) -> Option<Entry> {
    let table = holding(entry);
    let cancelled = table.cancel(ID, &Principal::anonymous(), moment(skew)).now_or_never();
    match cancelled {
        Some(Ok(Cancellation::Done(entry))) => Some(Entry::of(&entry)),
        Some(Ok(Cancellation::Refused(_)) | Err(_)) | None => entry,
    }
}

fn holding(entry: Option<Entry>) -> InMemoryJobTable {
    let table = InMemoryJobTable::default();
    if let Some(entry) = entry {
        table.insert(entry.to_job_entry());
    }
    table
}
