//! Runs the real consumer up to its next call.
//!
//! [`Consumer::handle`] is deterministic, given what its calls are answered
//! and when. So an invocation is the list of answers it got so far: to find
//! what it does next, it is run again from its beginning, on tokio's paused
//! clock, and left alone at the first call that has no answer yet.

use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::panic;
use std::pin::pin;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::Poll;
use std::time::Duration;

use consumer::backoff::Backoff;
use consumer::config::Settings;
use consumer::jobs::probe::runs;
use consumer::jobs::{self, Handlers};
use consumer::queue::{DeadLetter, RetryQueue};
use consumer::{Consumer, Deadline};
use serde_json::json;
use serde_json::value::RawValue;
use shared::aws::CallError;
use shared::config::EntryTtl;
use shared::metrics::Metrics;
use shared::table::{Cancellation, PutIf, Settlement, TableError, Written};
use shared::{Clock, Ids, JobEntry, JobId, JobTable, Principal, Random, Timestamp};
use tokio::runtime;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::entry::{
    Condition, Entry, FINGERPRINT, Millis, Settling, ZERO, millis, moment, uuid_of,
};

/// The function's timeout, the shortest that is allowed.
pub(crate) const TIMEOUT: Millis = 10_000;

/// What a handler does in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Succeed,
    Fail,
    FailForGood,
    Panic,
    Hang,
}

impl Step {
    pub(crate) const ALL: [Self; 5] =
        [Self::Succeed, Self::Fail, Self::FailForGood, Self::Panic, Self::Hang];

    /// Whether the handler says that nothing happened.
    pub(crate) const fn is_without_effect(self) -> bool {
        matches!(self, Self::Fail | Self::FailForGood)
    }
}

/// What one invocation is given: one record, and a lease token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Invocation {
    pub(crate) receive: u32,
    pub(crate) max_receive_count: u32,
    pub(crate) step: Step,
    pub(crate) hold: bool,
    pub(crate) token: u8,
    /// When its message was sent.
    pub(crate) sent_at: Millis,
}

/// A call that the consumer makes. Times are counted from the invocation's
/// beginning, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Put { entry: Entry, condition: Condition, now: Millis },
    Get,
    Settle { token: u8, settlement: Settling, now: Millis },
    ChangeVisibility { seconds: u64 },
    DeadLetter,
}

impl Call {
    /// The same call, its times counted from `by` earlier.
    #[must_use]
    pub(crate) fn shifted(self, by: Millis) -> Self {
        match self {
            Self::Put { entry, condition, now } => {
                let (entry, condition) = (entry.shifted(by), condition.shifted(by));
                Self::Put { entry, condition, now: now + by }
            }
            Self::Settle { token, settlement, now } => {
                let settlement = match settlement {
                    Settling::Release { not_before } => {
                        Settling::Release { not_before: not_before + by }
                    }
                    Settling::Complete | Settling::Fail | Settling::Hold => settlement,
                };
                Self::Settle { token, settlement, now: now + by }
            }
            Self::Get | Self::ChangeVisibility { .. } | Self::DeadLetter => self,
        }
    }
}

/// What a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Written,
    Refused(Option<Entry>),
    Entry(Option<Entry>),
    /// By a queue.
    Done,
    /// An error that says so.
    Throttled,
    /// An error because nobody answered.
    Unanswered,
    /// Nothing, ever.
    Hangs,
}

impl Reply {
    /// The same reply, its times counted from `by` earlier.
    #[must_use]
    pub(crate) fn shifted(self, by: Millis) -> Self {
        match self {
            Self::Refused(entry) => Self::Refused(entry.map(|entry| entry.shifted(by))),
            Self::Entry(entry) => Self::Entry(entry.map(|entry| entry.shifted(by))),
            Self::Written | Self::Done | Self::Throttled | Self::Unanswered | Self::Hangs => self,
        }
    }
}

/// A reply, and how long after the invocation's beginning it came.
pub(crate) type Answer = (Millis, Reply);

/// What an invocation does after the answers that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Next {
    /// When, counted from its beginning.
    pub(crate) at: Millis,
    pub(crate) what: What,
    /// Whether its handler was started by then.
    pub(crate) has_run: bool,
}

/// What an invocation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Call(Call),
    /// It answers Lambda, which deletes the message or leaves it.
    Answer {
        acknowledges: bool,
    },
}

/// Says nothing of the panics that handlers are asked for.
pub(crate) fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str() != Some("panicked as asked") {
                report(panic);
            }
        }));
    });
}

/// Replays invocations, each only once.
#[derive(Debug, Default)]
pub(crate) struct Replays(Mutex<HashMap<(Invocation, Vec<Answer>), Next>>);

impl Replays {
    /// What `invocation` does after it got `answers`.
    pub(crate) fn next(&self, invocation: Invocation, answers: &[Answer]) -> Next {
        let key = (invocation, answers.to_vec());
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return *known;
        }
        let next = replay(invocation, answers);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, next);
        next
    }

    /// How many different beginnings of an invocation were run.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[expect(clippy::expect_used, reason = "without a runtime there is nothing to check")]
fn replay(invocation: Invocation, answers: &[Answer]) -> Next {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without input and output");
    // The probes' register of runs is the process's.
    let id = JobId::new(Uuid::new_v4());
    runtime.block_on(async {
        let began = Instant::now();
        let script = Arc::new(Script {
            began,
            answers: answers.to_vec(),
            progress: Mutex::new(Progress::default()),
        });
        let consumer = consumer(invocation, &script);
        let event = event(id, invocation);
        let deadline =
            Deadline::new(&consumer.clock, moment(TIMEOUT), settings(0).function_timeout);
        let mut handling = pin!(consumer.handle(&event, &deadline));
        let what = poll_fn(|context| match handling.as_mut().poll(context) {
            Poll::Ready(answer) => {
                let acknowledges = answer.is_ok_and(|answer| answer.batch_item_failures.is_empty());
                Poll::Ready(What::Answer { acknowledges })
            }
            Poll::Pending => match script.progress().open {
                Some(call) => Poll::Ready(What::Call(call)),
                None => Poll::Pending,
            },
        });
        let what = what.await;
        Next { at: elapsed(began), what, has_run: runs(id).started > 0 }
    })
}

fn elapsed(began: Instant) -> Millis {
    Millis::try_from(began.elapsed().as_millis()).unwrap_or(Millis::MAX)
}

/// The answers that a replay gives, in their order.
#[derive(Debug)]
struct Script {
    began: Instant,
    answers: Vec<Answer>,
    progress: Mutex<Progress>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    answered: usize,
    open: Option<Call>,
}

impl Script {
    fn progress(&self) -> Progress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
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

#[derive(Debug)]
struct ScriptedTable(Arc<Script>);

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

#[derive(Debug)]
struct ScriptedQueue(Arc<Script>);

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

fn consumer(
    invocation: Invocation,
    script: &Arc<Script>,
) -> Consumer<ScriptedTable, ScriptedQueue> {
    let (began, token) = (script.began, uuid_of(invocation.token));
    let clock = Clock::new(move || ZERO + began.elapsed());
    Consumer {
        table: ScriptedTable(Arc::clone(script)),
        queue: ScriptedQueue(Arc::clone(script)),
        settings: settings(invocation.max_receive_count),
        handlers: Handlers::new(jobs::Settings::default(), clock.clone()),
        clock,
        ids: Ids::new(move |_| token),
        random: Random::new(|| 1.0),
        metrics: Metrics::none(),
    }
}

fn settings(max_receive_count: u32) -> Settings {
    Settings {
        max_receive_count,
        retention: Duration::from_hours(4 * 24),
        function_timeout: Duration::from_millis(TIMEOUT.unsigned_abs()),
        concurrency: 1,
        backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_mins(15) },
        max_result_bytes: 1024,
        entry_ttl: EntryTtl::DEFAULT,
    }
}

/// The event of one record. Each delivery may let the handler do something
/// else; the fingerprint says that it is the same job all the same.
#[expect(clippy::expect_used, reason = "what was written as JSON is JSON")]
fn event(id: JobId, invocation: Invocation) -> Box<RawValue> {
    let step = match invocation.step {
        Step::Succeed => json!({ "succeed_after_ms": 1000 }),
        Step::Fail => json!({ "fail_after_ms": 1000 }),
        Step::FailForGood => json!({ "fail_permanently_after_ms": 1000 }),
        Step::Panic => json!("panic"),
        Step::Hang => json!("hang"),
    };
    let body = json!({
        "v": 1, "id": id, "kind": "probe", "principal": "anonymous",
        "payload": { "attempts": [step], "hold": invocation.hold },
        "fingerprint": FINGERPRINT, "created_at": ZERO,
    });
    let event = json!({ "Records": [{
        "messageId": "message",
        "receiptHandle": "receipt",
        "body": body.to_string(),
        "attributes": {
            "ApproximateReceiveCount": invocation.receive.to_string(),
            "SentTimestamp": moment(invocation.sent_at).as_millis().to_string(),
        },
    }]});
    RawValue::from_string(event.to_string()).expect("JSON")
}
