//! A table and a queue that answer the consumer's calls as a script says.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use consumer::queue::{DeadLetter, RetryQueue};
use shared::aws::CallError;
use shared::table::{Cancellation, PutIf, Settlement, TableError, Written};
use shared::{JobEntry, JobId, JobTable, Principal, Timestamp};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::entry::{Condition, Entry, Settling, millis};
use super::replay::{Answer, Call, Reply};

/// The answers that a replay gives, in their order.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) began: Instant,
    answers: Vec<Answer>,
    progress: Mutex<Progress>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    answered: usize,
    open: Option<Call>,
}

impl Script {
    pub(super) fn new(began: Instant, answers: &[Answer]) -> Self {
        Self { began, answers: answers.to_vec(), progress: Mutex::default() }
    }

    /// The call that has no answer, if there was one.
    pub(super) fn open_call(&self) -> Option<Call> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).open
    }

    /// The next answer, if there is one; else notes the call.
    fn next(&self, call: Call) -> Option<Answer> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.answers.get(progress.answered).copied();
        match answer {
            Some(_) => progress.answered += 1,
            None => progress.open = Some(call),
        }
        answer
    }

    async fn answer(&self, call: Call) -> Reply {
        let Some((at, reply)) = self.next(call) else { return pending().await };
        if reply == Reply::Hangs {
            return pending().await;
        }
        let at = Duration::from_millis(at.unsigned_abs());
        if at > self.began.elapsed() {
            sleep_until(self.began + at).await;
        }
        reply
    }
}

fn failed(reply: Reply) -> CallError {
    let code = (reply != Reply::Unanswered).then_some("ThrottlingException");
    CallError::for_tests("Call", code)
}

/// A table that answers what the script says.
#[derive(Debug)]
pub(super) struct ScriptedTable(pub(super) Arc<Script>);

impl ScriptedTable {
    async fn write(&self, call: Call) -> Result<Written, TableError> {
        match self.0.answer(call).await {
            Reply::Written => Ok(Written::Yes),
            Reply::Refused(old) => Ok(Written::No(old.map(|old| Box::new(old.to_job_entry())))),
            reply => Err(failed(reply).into()),
        }
    }
}

impl JobTable for ScriptedTable {
    async fn get(&self, _: JobId) -> Result<Option<JobEntry>, TableError> {
        match self.0.answer(Call::Get).await {
            Reply::Entry(entry) => Ok(entry.map(Entry::to_job_entry)),
            reply => Err(failed(reply).into()),
        }
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let (entry, condition) = (Entry::of(entry), Condition::of(condition));
        self.write(Call::Put { entry, condition, now: millis(now) }).await
    }

    async fn settle(
        &self,
        _: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let token = token.as_u128().try_into().unwrap_or(u8::MAX);
        let settlement = Settling::of(settlement);
        self.write(Call::Settle { token, settlement, now: millis(now) }).await
    }

    /// Cancelling is the producer's.
    async fn cancel(
        &self,
        _: JobId,
        _: &Principal,
        _: Timestamp,
    ) -> Result<Cancellation, TableError> {
        Err(failed(Reply::Throttled).into())
    }
}

/// A queue that answers what the script says.
#[derive(Debug)]
pub(super) struct ScriptedQueue(pub(super) Arc<Script>);

impl ScriptedQueue {
    async fn tell(&self, call: Call) -> Result<(), CallError> {
        match self.0.answer(call).await {
            Reply::Done => Ok(()),
            reply => Err(failed(reply)),
        }
    }
}

impl RetryQueue for ScriptedQueue {
    async fn change_visibility(&self, _: &str, visible_in: Duration) -> Result<(), CallError> {
        self.tell(Call::ChangeVisibility { seconds: visible_in.as_secs() }).await
    }

    async fn dead_letter(&self, _: &DeadLetter<'_>) -> Result<(), CallError> {
        self.tell(Call::DeadLetter).await
    }
}
