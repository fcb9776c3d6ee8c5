//! A consumer with a table and queues in memory, whose calls can be made to
//! fail, and whose time is tokio's paused clock.

// The fuzz targets include this file by its path, and with it these.
#[path = "rig/queue.rs"]
mod queue;
#[path = "rig/table.rs"]
mod table;

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use consumer::backoff::Backoff;
use consumer::batch::BatchError;
use consumer::config::Settings;
use consumer::jobs::probe::{Runs, runs};
use consumer::jobs::{self, Handlers};
use consumer::{Consumer, Deadline};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shared::config::{EntryTtl, Environment};
use shared::metrics::Metrics;
use shared::table::GroupedJobTable;
use shared::{Clock, Fingerprint, Ids, JobEntry, JobId, Principal, Random, State, Timestamp};
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use self::queue::{Letter, RecordingQueue};
pub(crate) use self::table::{Fault, FaultyTable};
use crate::logs::Log;

/// The moment at which each test begins.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// The function's timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Rig {
    pub(crate) consumer: Consumer<GroupedJobTable<FaultyTable>, RecordingQueue>,
    pub(crate) table: Arc<FaultyTable>,
}

impl Rig {
    /// Jitter is switched off: every backoff is its whole bound. Every job is
    /// written alone.
    pub(crate) fn new() -> Self {
        Self::with_groups(false)
    }

    /// A consumer whose table makes writes in groups, or does not.
    pub(crate) fn with_groups(is_grouping: bool) -> Self {
        let table = Arc::new(FaultyTable::default());
        let started = Instant::now();
        let settings = Settings {
            max_receive_count: 5,
            retention: Duration::from_hours(4 * 24),
            function_timeout: TIMEOUT,
            concurrency: 10,
            backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_mins(15) },
            max_result_bytes: 64 * 1024,
            entry_ttl: EntryTtl::DEFAULT,
        };
        let clock = Clock::new(move || START + started.elapsed());
        let consumer = Consumer {
            table: GroupedJobTable::new(Arc::clone(&table), is_grouping),
            queue: RecordingQueue::default(),
            settings,
            handlers: Handlers::new(jobs::Settings::default(), clock.clone()),
            clock,
            ids: Ids::random(),
            random: Random::new(|| 1.0),
            metrics: Metrics::new("Relevo", "consumer", Log),
        };
        Self { consumer, table }
    }

    /// A consumer whose handlers are configured by these variables.
    pub(crate) fn configured(variables: &[(&str, &str)]) -> Self {
        let find = |name: &str| variables.iter().find(|(there, _)| *there == name);
        let mut env = Environment::new(|name| find(name).map(|(_, text)| (*text).to_owned()));
        let settings = jobs::Settings::read(&mut env);
        let settings = env.finish(|| settings).unwrap();
        let mut rig = Self::new();
        rig.consumer.handlers = Handlers::new(settings, rig.consumer.clock.clone());
        rig
    }

    /// A consumer that runs its records one after the other, in their order.
    pub(crate) fn in_order() -> Self {
        let mut rig = Self::new();
        rig.consumer.settings.concurrency = 1;
        rig
    }

    /// One invocation; the message ids that it reports.
    pub(crate) async fn deliver(&self, records: &[Value]) -> Result<Vec<String>, BatchError> {
        let answer = self.answer(&json!({ "Records": records }).to_string()).await?;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let failures = answer["batchItemFailures"].as_array().unwrap();
        Ok(failures
            .iter()
            .map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned())
            .collect())
    }

    /// One invocation; the bytes that it answers.
    pub(crate) async fn answer(&self, event: &str) -> Result<String, BatchError> {
        let event = RawValue::from_string(event.to_owned()).unwrap();
        let deadline = Deadline::new(&self.consumer.clock, self.now() + TIMEOUT, TIMEOUT);
        let answer = self.consumer.handle(&event, &deadline).await?;
        Ok(serde_json::to_string(&answer).unwrap())
    }

    /// One invocation that has `time`; the message ids that it reports.
    pub(crate) async fn deliver_within(&self, time: Duration, records: &[Value]) -> Vec<String> {
        let event = json!({ "Records": records }).to_string();
        let event = RawValue::from_string(event).unwrap();
        let deadline = Deadline::new(&self.consumer.clock, self.now() + time, time);
        let answer = self.consumer.handle(&event, &deadline).await.unwrap();
        answer.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.consumer.clock.now()
    }

    pub(crate) fn entry(&self, job: &Job) -> Option<JobEntry> {
        self.table.entries.entry(job.id)
    }

    pub(crate) fn state(&self, job: &Job) -> Option<State> {
        self.entry(job).map(|entry| entry.state)
    }

    pub(crate) fn set(&self, entry: JobEntry) {
        self.table.entries.insert(entry);
    }

    /// Makes the next calls to the table go wrong.
    pub(crate) fn faults(&self, faults: impl IntoIterator<Item = Fault>) {
        self.table.faults.lock().unwrap().extend(faults);
    }

    pub(crate) fn letters(&self) -> MutexGuard<'_, Vec<Letter>> {
        self.consumer.queue.letters.lock().unwrap()
    }

    /// After how many seconds the records were last asked to be seen again.
    pub(crate) fn visible_in(&self) -> Vec<(String, u64)> {
        std::mem::take(&mut *self.consumer.queue.visible_in.lock().unwrap())
    }
}

/// A job, and the message that carries it.
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) body: String,
    fingerprint: Fingerprint,
}

impl Job {
    /// A probe whose attempts do these steps.
    pub(crate) fn probe(steps: &Value) -> Self {
        Self::with_payload("probe", &json!({ "attempts": steps }))
    }

    /// A probe that is held when it is interrupted.
    pub(crate) fn held(steps: &Value) -> Self {
        Self::with_payload("probe", &json!({ "attempts": steps, "hold": true }))
    }

    /// A probe with an intent.
    pub(crate) fn intended(steps: &Value) -> Self {
        Self::with_payload("probe", &json!({ "attempts": steps, "intent": "once" }))
    }

    pub(crate) fn with_payload(kind: &str, payload: &Value) -> Self {
        Self::new(JobId::new(Uuid::new_v4()), kind, payload)
    }

    pub(crate) fn new(id: JobId, kind: &str, payload: &Value) -> Self {
        let text = RawValue::from_string(payload.to_string()).unwrap();
        let fingerprint = Fingerprint::of(kind, &text).unwrap();
        let body = json!({
            "v": 1, "id": id, "kind": kind, "payload": payload, "principal": "anonymous",
            "fingerprint": fingerprint, "created_at": START,
        });
        Self { id, body: body.to_string(), fingerprint }
    }

    /// Other work under the same id.
    pub(crate) fn other_payload(&self, steps: &Value) -> Self {
        Self::new(self.id, "probe", &json!({ "attempts": steps }))
    }

    pub(crate) fn record(&self, message_id: &str) -> Value {
        self.record_at(message_id, 1)
    }

    /// The record of receive number `receive`.
    pub(crate) fn record_at(&self, message_id: &str, receive: u32) -> Value {
        record(message_id, &self.body, receive)
    }

    /// The job's entry, as the producer writes it.
    pub(crate) fn entry(&self, state: State) -> JobEntry {
        let (principal, fingerprint) = (Principal::anonymous(), self.fingerprint.clone());
        let ttl = EntryTtl::DEFAULT.as_duration();
        let queued = JobEntry::queued(self.id, "probe", principal, fingerprint, START, ttl);
        JobEntry { state, ..queued }
    }

    /// The job's entry while another invocation runs it.
    pub(crate) fn running(&self, until: Timestamp) -> JobEntry {
        JobEntry {
            attempt: 1,
            lease_token: Some(Uuid::from_u128(1)),
            lease_until: Some(until),
            ..self.entry(State::Running)
        }
    }

    pub(crate) fn runs(&self) -> Runs {
        runs(self.id)
    }
}

pub(crate) fn record(message_id: &str, body: &str, receive: u32) -> Value {
    json!({
        "messageId": message_id,
        "receiptHandle": format!("receipt-{message_id}"),
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": receive.to_string(),
            "MessageGroupId": "group",
            "SentTimestamp": (START.as_millis() - 40).to_string(),
            "AWSTraceHeader": "Root=1-67a1b2c3-0123456789abcdef01234567",
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:jobs",
        "awsRegion": "eu-west-1",
    })
}
