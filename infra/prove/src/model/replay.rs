//! Runs the real consumer up to its next call.
//!
//! [`Consumer::handle`] is deterministic, given what its calls are answered
//! and when. So an invocation is the list of answers it got so far: to find
//! what it does next, it is run again from its beginning, on tokio's paused
//! clock, and left alone at the first call that has no answer yet.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic;
use std::pin::pin;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::Poll;
use std::time::Duration;

use consumer::backoff::Backoff;
use consumer::config::Settings;
use consumer::jobs::probe::runs;
use consumer::jobs::{self, Handlers};
use consumer::{Consumer, Deadline};
use serde_json::json;
use serde_json::value::RawValue;
use shared::config::EntryTtl;
use shared::metrics::Metrics;
use shared::{Clock, Ids, JobId, Random};
use tokio::runtime;
use tokio::time::Instant;
use uuid::Uuid;

use super::entry::{Condition, Entry, FINGERPRINT, Millis, Settling, ZERO, moment, uuid_of};
use super::script::{Script, ScriptedQueue, ScriptedTable};

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
        let script = Arc::new(Script::new(began, answers));
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
            Poll::Pending => match script.open_call() {
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
