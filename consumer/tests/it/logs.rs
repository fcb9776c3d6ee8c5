//! What failed is seen in the log although the invocation succeeds, and no
//! payload ever is.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::fmt::MakeWriter;

use crate::rig::{Job, Rig, record};

/// The log of the test's thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        let log = Self::default();
        let json = tracing_subscriber::fmt().json().flatten_event(true);
        (log.clone(), set_default(json.with_writer(log).finish()))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The events about the record `message_id`.
    pub(crate) fn about(&self, message_id: &str) -> Vec<Value> {
        let text = self.text();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["sqs.message_id"] == message_id).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_poison_record_is_one_line_that_says_what_is_wrong_and_where() {
    let (log, _guard) = Log::capture();
    let rig = Rig::new();
    let good = Job::probe(&json!(["succeed"]));
    let batch = [good.record("m-1"), record("poison", "{secret-text", 1)];
    assert!(rig.deliver(&batch).await.unwrap().is_empty());

    let events = log.about("poison");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["level"], "ERROR");
    assert_eq!(events[0]["outcome"], "undecodable");
    let error = events[0]["error"].as_str().unwrap();
    assert!(error.contains("not a JSON object") && error.contains("column 2"), "{error}");
    assert!(!log.text().contains("secret-text"));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_failed_in_part_counts_its_failures() {
    let (log, _guard) = Log::capture();
    let rig = Rig::new();
    let jobs = [Job::probe(&json!(["fail"])), Job::probe(&json!(["succeed"]))];
    rig.deliver(&[jobs[0].record("m-1"), jobs[1].record("m-2")]).await.unwrap();
    let text = log.text();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["batch.size"], &last["batch.failures"]), (&json!(2), &json!(1)));

    let events = log.about("m-1");
    let outcomes: Vec<_> = events.iter().map(|event| &event["outcome"]).collect();
    assert_eq!(outcomes, [&Value::Null, &json!("released")]);
    assert_eq!(events[1]["job.id"], jobs[0].id.to_string());
    assert_eq!(events[1]["error"], "failed as asked");
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_tells_the_cause() {
    let (log, _guard) = Log::capture();
    let rig = Rig::new();
    rig.faults([crate::rig::Fault::Fails]);
    let job = Job::probe(&json!(["succeed"]));
    rig.deliver(&[job.record("m")]).await.unwrap_err();
    let events = log.about("m");
    assert_eq!(events.len(), 1, "{events:?}");
    let error = events[0]["error"].as_str().unwrap();
    assert!(error.contains("PutItem failed (ThrottlingException)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_payload_reaches_the_log_whatever_happens() {
    let (log, _guard) = Log::capture();
    let rig = Rig::new();
    let marker = "marker-that-nobody-may-see";
    for step in ["succeed", "fail", "fail_permanently", "err", "panic", "hang"] {
        let payload = json!({ "attempts": [step], "intent": marker });
        let job = Job::with_payload("probe", &payload);
        rig.deliver(&[job.record("m"), job.record_at("m-2", 5)]).await.unwrap();
    }
    for payload in
        [json!({ "title": 1, "rows": marker }), json!({ "title": [marker] }), json!(marker)]
    {
        let misfit = Job::with_payload("report", &payload);
        rig.deliver(&[misfit.record("m"), misfit.record_at("m-2", 5)]).await.unwrap();
    }
    for body in [marker, &format!("\"{marker}\""), &format!("{{\"id\":\"{marker}\"}}")] {
        rig.deliver(&[record("m", body, 1)]).await.unwrap();
    }
    let unknown = Job::with_payload("from-the-future", &json!({ marker: marker }));
    rig.deliver(&[unknown.record("m"), unknown.record_at("m-2", 5)]).await.unwrap();
    assert!(log.text().lines().count() > 10);
    assert!(!log.text().contains(marker), "{}", log.text());
}
