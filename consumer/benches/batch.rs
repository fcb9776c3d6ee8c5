//! What is computed about one batch: its records are read, their claims decided,
//! their handlers run, and the failed ones reported. Table and queues answer at
//! once.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up stops")]

use std::time::Duration;

use consumer::backoff::Backoff;
use consumer::claim::Claimant;
use consumer::config::Settings;
use consumer::jobs::{self, Handlers};
use consumer::queue::{DeadLetter, RetryQueue};
use consumer::{Consumer, Deadline};
use criterion::{BatchSize, Criterion};
use serde_json::json;
use serde_json::value::RawValue;
use shared::aws::CallError;
use shared::config::EntryTtl;
use shared::entry::Lease;
use shared::message::Message;
use shared::metrics::Metrics;
use shared::table::{InMemoryJobTable, Settlement};
use shared::{Clock, Ids, JobTable, Random};
use tokio::runtime::{Builder, Runtime};
use uuid::Uuid;

const TIMEOUT: Duration = Duration::from_secs(30);

fn main() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let mut criterion = Criterion::default().configure_from_args();
    for records in [1, 10, 100] {
        whole(&mut criterion, &runtime, records);
    }
    duplicate(&mut criterion, &runtime);
    criterion.final_summary();
}

/// A batch whose jobs all succeed.
fn whole(criterion: &mut Criterion, runtime: &Runtime, records: u32) {
    let consumer = consumer();
    criterion.bench_function(&format!("batch of {records}"), |bencher| {
        bencher.iter_batched(
            || event(records),
            |event| {
                let deadline =
                    Deadline::new(&consumer.clock, consumer.clock.now() + TIMEOUT, TIMEOUT);
                let answer = runtime.block_on(consumer.handle(&event, &deadline)).unwrap();
                serde_json::to_string(&answer).unwrap()
            },
            BatchSize::SmallInput,
        );
    });
}

/// The claim of a job that was done before.
fn duplicate(criterion: &mut Criterion, runtime: &Runtime) {
    let clock = Clock::system();
    let now = clock.now();
    let message = Message::decode(&body()).unwrap();
    let token = Uuid::new_v4();
    let claimant = Claimant {
        message: &message,
        lease: Lease { token, until: now + TIMEOUT },
        attempt: 1,
        last_attempt: false,
        sent_at: None,
        entry_ttl: EntryTtl::DEFAULT.as_duration(),
    };
    let table = InMemoryJobTable::default();
    let done = Settlement::Complete { result: None, result_omitted: false };
    runtime.block_on(claimant.claim(&table, now)).unwrap();
    runtime.block_on(table.settle(message.id, token, &done, now)).unwrap();
    criterion.bench_function("claim of a duplicate", |bencher| {
        bencher.iter(|| runtime.block_on(claimant.claim(&table, now)).unwrap());
    });
}

fn event(records: u32) -> Box<RawValue> {
    let record = |_| {
        json!({
            "messageId": Uuid::new_v4(),
            "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a1",
            "body": body(),
            "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": "1796000000100" },
            "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:relevo-jobs",
        })
    };
    let records: Vec<_> = (0..records).map(record).collect();
    RawValue::from_string(json!({ "Records": records }).to_string()).unwrap()
}

fn body() -> String {
    let rows =
        json!([{ "group": "north", "amount": "12.50" }, { "group": "south", "amount": "3" }]);
    let payload = json!({ "title": "Sales of the week", "rows": rows });
    json!({ "v": 1, "id": Uuid::new_v4(), "kind": "report", "payload": payload }).to_string()
}

fn consumer() -> Consumer<InMemoryJobTable, Nowhere> {
    let clock = Clock::system();
    Consumer {
        table: InMemoryJobTable::default(),
        queue: Nowhere,
        settings: Settings {
            max_receive_count: 5,
            retention: Duration::from_hours(4 * 24),
            function_timeout: TIMEOUT,
            concurrency: 10,
            backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_mins(15) },
            max_result_bytes: 64 * 1024,
            entry_ttl: EntryTtl::DEFAULT,
        },
        handlers: Handlers::new(jobs::Settings::default(), clock.clone()),
        clock,
        ids: Ids::random(),
        random: Random::system(),
        metrics: Metrics::none(),
    }
}

/// Queues that take everything.
struct Nowhere;

impl RetryQueue for Nowhere {
    async fn change_visibility(&self, _: &str, _: Duration) -> Result<(), CallError> {
        Ok(())
    }

    async fn dead_letter(&self, _: &DeadLetter<'_>) -> Result<(), CallError> {
        Ok(())
    }
}
