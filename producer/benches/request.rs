//! What is computed about one request: its event is read, its jobs are checked,
//! named and put into messages, and it is answered. Table and queue answer at
//! once.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up stops")]

use std::time::Duration;

use criterion::Criterion;
use producer::{JobQueue, Outgoing, Producer, SendError};
use serde_json::value::RawValue;
use shared::jobs::Rules;
use shared::metrics::Metrics;
use shared::table::InMemoryJobTable;
use shared::{Clock, Ids};
use tokio::runtime::Builder;

fn main() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let mut criterion = Criterion::default().configure_from_args();
    let events = [
        ("one job", include_str!("../../events/http-report.json")),
        ("one job with a key", include_str!("../../events/http-report-with-key.json")),
        ("a batch", include_str!("../../events/http-batch.json")),
        ("a job that is refused", include_str!("../../events/http-report-invalid-rows.json")),
    ];
    let producer = Producer {
        table: InMemoryJobTable::default(),
        queue: Nowhere,
        clock: Clock::system(),
        ids: Ids::random(),
        message_limit: 1024 * 1024,
        rules: Rules::default(),
        entry_ttl: Duration::from_hours(30 * 24),
        metrics: Metrics::none(),
    };
    for (name, event) in events {
        let event = RawValue::from_string(event.to_owned()).unwrap();
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                let answer = runtime.block_on(producer.handle(&event, None)).unwrap();
                serde_json::to_string(&answer).unwrap()
            });
        });
    }
    criterion.final_summary();
}

/// A queue that takes everything.
struct Nowhere;

impl JobQueue for Nowhere {
    async fn send(&self, _: Outgoing) -> Result<(), SendError> {
        Ok(())
    }

    async fn send_together(
        &self,
        messages: &[&Outgoing],
    ) -> Result<Vec<Result<(), SendError>>, SendError> {
        Ok(messages.iter().map(|_| Ok(())).collect())
    }
}
