//! What nobody can run lies in the dead-letter queue, unchanged, and says why.

use std::sync::atomic::Ordering;

use consumer::batch::BatchError;
use serde_json::json;
use shared::State;

use crate::rig::{Job, Letter, Rig, START, record};

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_unchanged_and_says_why() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["fail_permanently"])));
    assert!(rig.deliver(&[job.record_at("m", 2)]).await.unwrap().is_empty());
    let entry = rig.entry(&job).unwrap();
    assert_eq!((entry.state, entry.reason.as_deref()), (State::Failed, Some("permanent")));
    let id = job.id.to_string();
    let expected = [
        ("reason", "permanent"),
        ("error", "failed for good as asked"),
        ("receive_count", "2"),
        ("failed_at", &START.to_rfc3339()),
        ("job_id", &id),
        ("kind", "probe"),
        ("source_message_id", "m"),
    ];
    let expected = Letter {
        body: job.body.clone(),
        attributes: expected.map(|(name, value)| (name, value.to_owned())).to_vec(),
        group_id: Some("group".to_owned()),
    };
    assert_eq!(*rig.letters(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn what_names_no_job_is_a_dead_letter_at_once() {
    let rig = Rig::new();
    let long_id = format!(r#"{{"id":"{}","kind":"probe","payload":{{}}}}"#, "k".repeat(2_049));
    let bodies = [
        long_id.as_str(),
        "{not json",
        "",
        "null",
        "[]",
        "\u{feff}{}",
        r#"{"Service":"Amazon S3","Event":"s3:TestEvent"}"#,
        r#"{"Type":"Notification","Message":"{}"}"#,
        r#"{"id":"not-a-uuid","kind":"probe","payload":{}}"#,
        r#"[1,"abfc2f07-0372-443d-8266-36440aa5df13","probe",{"attempts":["succeed"]}]"#,
    ];
    for body in bodies {
        assert!(rig.deliver(&[record("m", body, 1)]).await.unwrap().is_empty(), "{body}");
        let letter = rig.letters().pop().unwrap();
        assert_eq!(letter.body, body);
        assert_eq!(letter.attribute("reason"), Some("undecodable"));
        assert_eq!(letter.attribute("job_id"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_sent_comes_back() {
    let rig = Rig::new();
    rig.consumer.queue.is_down.store(true, Ordering::Relaxed);
    let (good, bad) = (Job::probe(&json!(["succeed"])), Job::probe(&json!(["fail_permanently"])));
    let failed = rig.deliver(&[good.record("m-1"), bad.record("m-2")]).await.unwrap();
    assert_eq!(failed, ["m-2"]);
    // Where nothing else was in the batch, that is an outage of the queue.
    let answer = rig.deliver(&[bad.record_at("m-2", 2)]).await;
    assert_eq!(answer, Err(BatchError::Outage(1)));

    rig.consumer.queue.is_down.store(false, Ordering::Relaxed);
    assert!(rig.deliver(&[bad.record_at("m-2", 3)]).await.unwrap().is_empty());
    assert_eq!(rig.letters().len(), 1);
}

/// What would not fit an entry must not look like an outage of the table.
#[tokio::test(start_paused = true)]
async fn a_message_with_endless_metadata_is_a_dead_letter_in_the_end() {
    for field in ["fingerprint", "principal", "kind"] {
        let rig = Rig::new();
        let mut body: serde_json::Value =
            serde_json::from_str(&Job::probe(&json!(["succeed"])).body).unwrap();
        body[field] = json!("x".repeat(450_000));
        let record = |receive| record("m", &body.to_string(), receive);
        assert_eq!(rig.deliver(&[record(1)]).await.unwrap(), ["m"], "{field}");
        assert!(rig.deliver(&[record(5)]).await.unwrap().is_empty(), "{field}");
        assert_eq!(rig.letters()[0].attribute("reason"), Some("invalid-payload"));
    }
}
