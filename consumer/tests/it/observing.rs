//! Logs and metrics tell what happened, and nothing else.

use std::time::Duration;

use serde_json::{Value, json};
use shared::emf::{Published, published};
use shared::telemetry::invocation;
use shared::{JobEntry, State};
use tracing::Instrument;

use crate::logs;
use crate::rig::{Job, Rig, START, record};

/// The facts of a record: message id, outcome, level.
fn facts() -> Vec<(String, String, String)> {
    let text = logs::text();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut facts: Vec<_> = events
        .filter(|event| event["message"] == "record settled")
        .map(|event| {
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            (text("sqs.message_id"), text("outcome"), text("level"))
        })
        .collect();
    facts.sort();
    facts
}

fn event(message: &str, message_id: &str) -> Value {
    let mut events = logs::about(message_id);
    events.retain(|event| event["message"] == message);
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

/// One batch in which everything happens that can happen to a record.
async fn scenario(rig: &Rig) {
    let done = Job::probe(&json!(["succeed"]));
    rig.set(done.entry(State::Succeeded));
    let lost = Job::probe(&json!([{ "succeed_after_ms": 1000 }]));
    let (succeeds, retries) =
        (Job::probe(&json!([{ "succeed_after_ms": 250 }])), Job::probe(&json!(["fail"])));
    let (exhausted, fails) =
        (Job::probe(&json!(["fail"])), Job::probe(&json!(["fail_permanently"])));
    let (panics, hangs) = (Job::probe(&json!(["panic"])), Job::probe(&json!(["hang"])));
    let unknown = Job::with_payload("from-the-future", &json!({}));
    let batch = [
        succeeds.record("succeeds"),
        succeeds.record("succeeds-copy"),
        done.record("duplicate"),
        retries.record("retries"),
        exhausted.record_at("last", 5),
        fails.record("fails"),
        panics.record("panics"),
        hangs.record_at("hangs", 2),
        lost.record("lost"),
        unknown.record_at("unknown", 5),
        record("poison", "{", 1),
    ];
    let steal = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        rig.set(JobEntry { lease_token: None, ..lost.running(START + Duration::from_hours(1)) });
    };
    let deliver = rig.deliver(&batch).instrument(invocation("request-1", true));
    let (failed, ()) = tokio::join!(deliver, steal);
    let mut failed = failed.unwrap();
    failed.sort();
    assert_eq!(failed, ["hangs", "last", "lost", "panics", "retries"]);
}

#[tokio::test(start_paused = true)]
async fn the_log_has_one_line_for_each_outcome() {
    logs::capture();
    let mut rig = Rig::new();
    rig.consumer.settings.concurrency = 100;
    scenario(&rig).await;
    let expected = [
        ("duplicate", "duplicate", "INFO"),
        ("fails", "permanent", "ERROR"),
        ("hangs", "released", "WARN"),
        ("last", "exhausted", "ERROR"),
        ("lost", "lease-lost", "WARN"),
        ("panics", "released", "WARN"),
        ("poison", "undecodable", "ERROR"),
        ("retries", "released", "WARN"),
        ("succeeds", "completed", "INFO"),
        ("succeeds-copy", "duplicate", "INFO"),
        ("unknown", "not-understood", "ERROR"),
    ]
    .map(|(id, outcome, level)| (id.to_owned(), outcome.to_owned(), level.to_owned()));
    assert_eq!(facts(), expected);
    for line in logs::text().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event.get("_aws").is_none() {
            assert_eq!(event["aws.request_id"], "request-1", "{line}");
            assert_eq!(event["cold_start"], true, "{line}");
            assert!(event["level"].is_string() && event["timestamp"].is_string(), "{line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_says_which_job_it_is_about_and_how_long_it_took() {
    logs::capture();
    let rig = Rig::new();
    let (slow, hangs) =
        (Job::probe(&json!([{ "succeed_after_ms": 250 }])), Job::probe(&json!(["hang"])));
    rig.deliver(&[slow.record("slow"), hangs.record_at("hangs", 3)]).await.unwrap();
    let started = event("job started", "slow");
    assert_eq!(started["queue_wait_ms"], 40);
    let settled = event("record settled", "slow");
    for event in [&started, &settled] {
        assert_eq!(event["job.id"], slow.id.to_string());
        assert_eq!(event["job.kind"], "probe");
        assert_eq!(event["job.attempt"], 1);
        assert_eq!(event["trace.id"], "1-67a1b2c3-0123456789abcdef01234567");
    }
    assert_eq!((&settled["duration_ms"], &settled["job.age_ms"]), (&json!(250), &json!(250)));
    assert_eq!(settled.get("stopped"), None);

    assert_eq!(event("job started", "hangs").get("queue_wait_ms"), None, "it waited on purpose");
    let stopped = event("record settled", "hangs");
    assert_eq!((&stopped["stopped"], &stopped["job.attempt"]), (&json!(true), &json!(3)));
    assert_eq!(stopped["error"], "stopped for lack of time");
}

fn expected() -> Published {
    let of = |name: &str, values: &[f64]| (name.to_owned(), values.to_vec());
    let mut expected = Published::from([
        of("BatchSize", &[11.0]),
        of("BatchItemFailures", &[5.0]),
        of("ColdStarts Function=consumer", &[1.0]),
        of("JobsDeadLettered", &[2.0, 2.0]),
        of("JobsDeadLettered Kind=probe", &[2.0]),
        of("JobsDeadLettered Kind=probe Reason=permanent", &[1.0]),
        of("JobsDeadLettered Kind=probe Reason=retries-exhausted", &[1.0]),
        of("JobsDeadLettered Kind=unknown", &[2.0]),
        of("JobsDeadLettered Kind=unknown Reason=undecodable", &[1.0]),
        of("JobsDeadLettered Kind=unknown Reason=unknown-kind", &[1.0]),
    ]);
    for (name, values) in [
        ("JobsSucceeded", &[1.0][..]),
        ("JobsRetried", &[3.0]),
        ("Duplicates", &[2.0]),
        ("LeasesLost", &[1.0]),
        ("StoppedForTime", &[1.0]),
        ("JobLatency", &[250.0]),
        ("HandlerDuration", &[0.0, 0.0, 0.0, 0.0, 250.0, 1000.0, 26_000.0]),
        ("QueueWait", &[40.0; 5]),
    ] {
        expected.extend([of(name, values), of(&format!("{name} Kind=probe"), values)]);
    }
    expected
}

#[tokio::test(start_paused = true)]
async fn metrics_count_what_happened() {
    logs::capture();
    let mut rig = Rig::new();
    rig.consumer.settings.concurrency = 100;
    scenario(&rig).await;
    assert_eq!(published(&logs::text(), "Relevo"), Ok(expected()));
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_an_answer_is_measured_all_the_same() {
    logs::capture();
    let rig = Rig::new();
    rig.answer("{}").await.unwrap_err();
    let published_so_far = published(&logs::text(), "Relevo").unwrap();
    assert_eq!(published_so_far["ColdStarts Function=consumer"], [1.0]);

    rig.faults([crate::rig::Fault::Fails]);
    let job = Job::probe(&json!(["succeed"]));
    rig.deliver(&[job.record("m")]).await.unwrap_err();
    let published = published(&logs::text(), "Relevo").unwrap();
    assert_eq!(
        (&published["BatchSize"], &published["BatchItemFailures"]),
        (&vec![1.0], &vec![1.0])
    );
    assert_eq!(published["ColdStarts Function=consumer"], [1.0], "once a process");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_could_not_be_sent_is_none_yet() {
    logs::capture();
    let rig = Rig::new();
    rig.consumer.queue.is_down.store(true, std::sync::atomic::Ordering::Relaxed);
    let (fails, succeeds) =
        (Job::probe(&json!(["fail_permanently"])), Job::probe(&json!(["succeed"])));
    rig.deliver(&[fails.record("fails"), succeeds.record("m")]).await.unwrap();
    let published = published(&logs::text(), "Relevo").unwrap();
    assert_eq!(published.get("JobsDeadLettered"), None);
    let unsent = event("dead letter not sent; the record comes back", "fails");
    assert_eq!(unsent["job.id"], fails.id.to_string());
}
