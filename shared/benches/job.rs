//! What is computed about one job: its payload is read and checked, told from
//! others by its fingerprint, and read again from its message.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up stops")]

use std::hint::black_box;

use criterion::Criterion;
use serde_json::value::RawValue;
use shared::message::{Message, NewMessage};
use shared::{Fingerprint, Job, JobId, Principal, Timestamp};
use uuid::Uuid;

/// Rows of a report: as in the samples, and many.
const ROWS: [usize; 2] = [5, 1_000];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for rows in ROWS {
        let payload = payload(rows);
        let mut group = criterion.benchmark_group(format!("report of {rows} rows"));
        group.bench_function("validate", |bencher| {
            bencher.iter(|| Job::parse("report", black_box(&payload)));
        });
        group.bench_function("fingerprint", |bencher| {
            bencher.iter(|| Fingerprint::of("report", black_box(&payload)));
        });
        let message = message(&payload);
        group.bench_function("decode", |bencher| {
            bencher.iter(|| Message::decode(black_box(&message)));
        });
        group.finish();
    }
    criterion.final_summary();
}

fn payload(rows: usize) -> Box<RawValue> {
    let row = |row| format!(r#"{{"group":"group {}","amount":"{row}.25"}}"#, row % 10);
    let rows: Vec<_> = (0..rows).map(row).collect();
    let text = format!(r#"{{"title":"Sales of the week","rows":[{}]}}"#, rows.join(","));
    RawValue::from_string(text).unwrap()
}

fn message(payload: &RawValue) -> String {
    let fingerprint = Fingerprint::of("report", payload).unwrap();
    let principal = Principal::anonymous();
    let (id, now) = (JobId::new(Uuid::nil()), Timestamp::from_millis(1_800_000_000_000));
    NewMessage::new(id, "report", payload, &principal, &fingerprint, now).encode().unwrap()
}
