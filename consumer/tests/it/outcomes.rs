//! The table of outcomes in the crate's documentation is what happens.

use std::collections::BTreeMap;
use std::time::Duration;

use consumer::backoff::long_delay;
use serde_json::json;
use shared::{JobEntry, State, Timestamp};
use uuid::Uuid;

use crate::logs;
use crate::rig::{Fault, Job, Rig, START, record};

/// What a row of the table says.
struct Row {
    sqs: &'static str,
    entry: &'static str,
}

/// The rows by the names of their outcomes.
fn table() -> BTreeMap<String, Row> {
    let source = include_str!("../../src/lib.rs");
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | "));
    rows.filter(|row| !row.starts_with("outcome"))
        .flat_map(|row| {
            let columns: Vec<_> = row.trim_end_matches(" |").split(" | ").collect();
            let (sqs, entry) = (columns[1], columns[2]);
            columns[0].split(", ").map(move |name| (name.to_owned(), Row { sqs, entry }))
        })
        .collect()
}

/// Something that leads to an outcome.
struct Scenario {
    outcome: &'static str,
    job: Job,
    before: Option<JobEntry>,
    receive: u32,
    faults: Vec<Fault>,
}

impl Scenario {
    fn of(outcome: &'static str, step: &serde_json::Value) -> Self {
        let job = Job::probe(&json!([step]));
        Self { outcome, job, before: None, receive: 1, faults: Vec::new() }
    }

    fn over(outcome: &'static str, before: impl FnOnce(&Job) -> JobEntry) -> Self {
        let scenario = Self::of(outcome, &json!("succeed"));
        Self { before: Some(before(&scenario.job)), ..scenario }
    }
}

fn scenarios() -> Vec<Scenario> {
    let succeed = json!("succeed");
    let later = START + Duration::from_secs(9);
    let held = Job::held(&json!(["err"]));
    let failed = Job::held(&json!(["succeed"]));
    let unknown = || Job::with_payload("from-the-future", &json!({}));
    vec![
        Scenario::of("completed", &succeed),
        Scenario::over("duplicate", |job| job.entry(State::Succeeded)),
        Scenario::over("cancelled", |job| job.entry(State::Cancelled)),
        Scenario::of("released", &json!("fail")),
        Scenario { receive: 5, ..Scenario::of("exhausted", &json!("fail")) },
        Scenario::of("permanent", &json!("fail_permanently")),
        Scenario { job: held, ..Scenario::of("interrupted", &succeed) },
        Scenario {
            before: Some(failed.entry(State::Failed)),
            job: failed,
            ..Scenario::of("failed-before", &succeed)
        },
        Scenario::over("conflict", |job| job.other_payload(&json!(["fail"])).entry(State::Queued)),
        Scenario { job: unknown(), ..Scenario::of("not-understood", &succeed) },
        Scenario {
            job: unknown(),
            receive: 5,
            ..Scenario::of("not-understood at the last receive", &succeed)
        },
        Scenario::over("in-progress", |job| job.running(later)),
        Scenario::over("too-early", |job| JobEntry {
            not_before: Some(later),
            ..job.entry(State::Queued)
        }),
        Scenario {
            faults: [Fault::None].into_iter().chain([Fault::Fails; 1_000]).collect(),
            ..Scenario::of("not-stored", &succeed)
        },
        Scenario { faults: vec![Fault::Fails], ..Scenario::of("table-unreachable", &succeed) },
    ]
}

/// Checks that the record is seen again when the table says.
fn check_visibility(rig: &Rig, sqs: &str, receive: u32) {
    let visible_in = rig.visible_in();
    let waits: Vec<_> = visible_in.iter().filter(|(id, _)| id == "m").map(|(_, s)| *s).collect();
    let expected = if sqs.contains("visible now") {
        vec![0]
    } else if sqs.contains("long backoff") {
        vec![long_delay(receive, 1.0).as_secs()]
    } else if sqs.contains("after the lease") {
        assert!(matches!(waits[..], [1..=37]), "{waits:?}");
        return;
    } else if sqs.contains("`not_before`") {
        assert!(matches!(waits[..], [4 | 11]), "{waits:?}");
        return;
    } else if sqs.starts_with("returned") {
        vec![2]
    } else {
        Vec::new()
    };
    assert_eq!(waits, expected, "{sqs}");
}

/// Checks one scenario, delivered beside a record that succeeds (so that the
/// batch is no outage).
async fn check(scenario: Scenario, row: &Row) {
    let Scenario { outcome, job, before, receive, faults } = scenario;
    let rig = Rig::in_order();
    if let Some(before) = before.clone() {
        rig.set(before);
    }
    let neighbour = Job::probe(&json!(["succeed"]));
    assert!(rig.deliver(&[neighbour.record("neighbour")]).await.unwrap().is_empty());
    rig.faults(faults);
    let batch = [job.record_at("m", receive), neighbour.record("neighbour")];
    logs::capture();
    let answer = rig.deliver(&batch).await;
    // What cannot be reached for any record fails the invocation: all come back.
    let reported = answer.map_or(true, |failed| failed.contains(&"m".to_owned()));
    let told = logs::about("m")
        .into_iter()
        .filter_map(|event| event["outcome"].as_str().map(str::to_owned));
    let name = outcome.trim_end_matches(" at the last receive");
    assert_eq!(told.collect::<Vec<_>>(), [name]);
    check_visibility(&rig, row.sqs, receive);

    assert_eq!(reported, row.sqs.starts_with("returned"), "{outcome}");
    assert_eq!(rig.letters().len(), usize::from(row.sqs.starts_with("DLQ")), "{outcome}");
    let entry = rig.entry(&job);
    match row.entry {
        "unchanged" => assert_eq!(entry, before, "{outcome}"),
        state => {
            let found = entry.map(|entry| format!("`{}`", entry.state));
            assert_eq!(found.as_deref(), Some(state), "{outcome}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_row_of_the_table_is_what_happens() {
    let mut table = table();
    for scenario in scenarios() {
        let row = table.remove(scenario.outcome).expect(scenario.outcome);
        check(scenario, &row).await;
    }
    check_the_rest(&mut table).await;
    assert!(table.is_empty(), "rows without a scenario: {:?}", table.keys());
}

/// The outcomes that need more than an entry and a fault.
async fn check_the_rest(table: &mut BTreeMap<String, Row>) {
    let row = table.remove("undecodable").unwrap();
    let rig = Rig::new();
    assert!(rig.deliver(&[record("m", "{", 1)]).await.unwrap().is_empty());
    assert_eq!((rig.letters().len(), row.sqs.starts_with("DLQ")), (1, true));

    let row = table.remove("unreadable-record").unwrap();
    let bodiless = json!({ "messageId": "m" });
    assert_eq!(rig.deliver(&[bodiless]).await.unwrap(), ["m"]);
    assert!(row.sqs.starts_with("returned"));

    let row = table.remove("not-started").unwrap();
    let rig = Rig::new();
    let job = Job::probe(&json!(["succeed"]));
    assert_eq!(rig.deliver_within(Duration::from_secs(4), &[job.record("m")]).await, ["m"]);
    assert_eq!((rig.entry(&job), row.entry), (None, "unchanged"));

    let row = table.remove("not-started at the last receive").unwrap();
    assert_eq!(rig.deliver_within(Duration::from_secs(4), &[job.record_at("m", 5)]).await, ["m"]);
    assert_eq!((rig.state(&job), row.entry), (Some(State::Failed), "`failed`"));

    // What needs more than one faulty call is tested where those calls are.
    for tested_elsewhere in ["still-alive", "unsteady", "entry-unreadable"] {
        table.remove(tested_elsewhere).unwrap();
    }

    let row = table.remove("lease-lost").unwrap();
    let job = Job::probe(&json!([{ "succeed_after_ms": 1000 }]));
    let thief = JobEntry {
        lease_token: Some(Uuid::from_u128(2)),
        ..job.running(Timestamp::from_millis(u64::MAX / 2))
    };
    let batch = [job.record("m")];
    let steal = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        rig.set(thief.clone());
    };
    let (failed, ()) = tokio::join!(rig.deliver(&batch), steal);
    assert_eq!(failed.unwrap(), ["m"]);
    assert_eq!((rig.entry(&job), row.entry), (Some(thief), "unchanged"));
}
