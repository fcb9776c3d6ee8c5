//! What failed is seen in the log although the invocation succeeds, and no
//! payload ever is.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use serde_json::{Value, json};
use shared::emf::published;
use shared::telemetry::{LogLevel, subscriber};
use tracing_subscriber::util::SubscriberInitExt;

use crate::rig::{Job, Rig, record};

thread_local! {
    /// What this thread has logged. A test has a thread of its own.
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes what a thread logs to where it is kept: its stdout.
pub(crate) struct Log;

/// From here on, what this thread logs is kept.
///
/// One subscriber serves all threads: of several, each on its own thread, the
/// first would decide for all which events are never looked at.
pub(crate) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        subscriber(LogLevel::DEFAULT, || Log).init();
    });
    LOGGED.with_borrow_mut(Vec::clear);
}

pub(crate) fn text() -> String {
    LOGGED.with_borrow(|logged| String::from_utf8(logged.clone()).unwrap())
}

/// The events about the record `message_id`.
pub(crate) fn about(message_id: &str) -> Vec<Value> {
    let text = text();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["sqs.message_id"] == message_id).collect()
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_poison_record_is_one_line_that_says_what_is_wrong_and_where() {
    capture();
    let rig = Rig::new();
    let good = Job::probe(&json!(["succeed"]));
    let batch = [good.record("m-1"), record("poison", "{secret-text", 1)];
    assert!(rig.deliver(&batch).await.unwrap().is_empty());

    let events = about("poison");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["level"], "ERROR");
    assert_eq!(events[0]["outcome"], "undecodable");
    let error = events[0]["error"].as_str().unwrap();
    assert!(error.contains("not a JSON object") && error.contains("column 2"), "{error}");
    assert!(!text().contains("secret-text"));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_failed_in_part_counts_its_failures() {
    capture();
    let rig = Rig::new();
    let jobs = [Job::probe(&json!(["fail"])), Job::probe(&json!(["succeed"]))];
    rig.deliver(&[jobs[0].record("m-1"), jobs[1].record("m-2")]).await.unwrap();
    let published = published(&text(), "Relevo").unwrap();
    assert_eq!(
        (&published["BatchSize"], &published["BatchItemFailures"]),
        (&vec![2.0], &vec![1.0])
    );

    let events = about("m-1");
    // It started; the probe ended; the record was settled.
    let outcomes: Vec<_> = events.iter().map(|event| &event["outcome"]).collect();
    assert_eq!(outcomes, [&Value::Null, &Value::Null, &json!("released")]);
    assert_eq!(events[2]["job.id"], jobs[0].id.to_string());
    assert_eq!(events[2]["error"], "failed as asked");
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_tells_the_cause() {
    capture();
    let rig = Rig::new();
    rig.faults([crate::rig::Fault::Fails]);
    let job = Job::probe(&json!(["succeed"]));
    rig.deliver(&[job.record("m")]).await.unwrap_err();
    let events = about("m");
    assert_eq!(events.len(), 1, "{events:?}");
    let error = events[0]["error"].as_str().unwrap();
    assert!(error.contains("PutItem failed (ThrottlingException)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_payload_reaches_the_log_whatever_happens() {
    capture();
    let rig = Rig::new();
    let marker = "marker-that-nobody-may-see";
    for step in ["succeed", "fail", "fail_permanently", "err", "panic", "hang"] {
        let payload = json!({ "attempts": [step], "intent": marker });
        let job = Job::with_payload("probe", &payload);
        rig.deliver(&[job.record("m"), job.record_at("m-2", 5)]).await.unwrap();
    }
    for payload in [
        json!({ "title": 1, "rows": marker }),
        json!({ "title": [marker] }),
        json!({ "title": "t", "rows": [], marker: 1 }),
        json!(marker),
    ] {
        let misfit = Job::with_payload("report", &payload);
        rig.deliver(&[misfit.record("m"), misfit.record_at("m-2", 5)]).await.unwrap();
    }
    for body in [marker, &format!("\"{marker}\""), &format!("{{\"id\":\"{marker}\"}}")] {
        rig.deliver(&[record("m", body, 1)]).await.unwrap();
    }
    let unknown = Job::with_payload("from-the-future", &json!({ marker: marker }));
    rig.deliver(&[unknown.record("m"), unknown.record_at("m-2", 5)]).await.unwrap();
    assert!(text().lines().count() > 10);
    assert!(!text().contains(marker), "{}", text());
}
