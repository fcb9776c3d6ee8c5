//! What failed comes back later each time, and not for ever.

use std::time::Duration;

use serde_json::json;
use shared::State;

use crate::rig::{Job, Rig, START};

#[tokio::test(start_paused = true)]
async fn a_failed_job_is_released_and_runs_when_it_comes_back() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["fail", "succeed"])));
    assert_eq!(rig.deliver(&[job.record("m")]).await.unwrap(), ["m"]);
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, State::Queued);
    assert_eq!(entry.error.as_deref(), Some("failed as asked"));
    assert_eq!(entry.not_before, Some(START + Duration::from_secs(2)));
    assert_eq!(rig.visible_in(), [("m".to_owned(), 4)]);

    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(rig.deliver(&[job.record_at("m", 2)]).await.unwrap().is_empty());
    let entry = rig.entry(&job).unwrap();
    assert_eq!((entry.state, entry.attempt, entry.error), (State::Succeeded, 2, None));
}

#[tokio::test(start_paused = true)]
async fn waits_grow_with_every_receive() {
    let rig = Rig::new();
    for (receive, expected) in [(1, 4), (2, 6), (3, 10), (4, 18)] {
        let job = Job::probe(&json!(["fail"]));
        assert_eq!(rig.deliver(&[job.record_at("m", receive)]).await.unwrap(), ["m"]);
        assert_eq!(rig.visible_in(), [("m".to_owned(), expected)]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_receive_fails_the_job_and_lets_sqs_move_it_at_once() {
    for receive in [5, 6, u32::MAX] {
        let (rig, job) = (Rig::new(), Job::probe(&json!(["err"])));
        assert_eq!(rig.deliver(&[job.record_at("m", receive)]).await.unwrap(), ["m"]);
        let entry = rig.entry(&job).unwrap();
        assert_eq!(entry.state, State::Failed);
        assert_eq!(entry.reason.as_deref(), Some("retries-exhausted"));
        assert_eq!(entry.error.as_deref(), Some("erred as asked"));
        assert_eq!(rig.visible_in(), [("m".to_owned(), 0)]);
        assert!(rig.letters().is_empty(), "SQS moves the message itself");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handlers_not_before_holds_for_every_copy() {
    let until = START + Duration::from_mins(10);
    let steps = json!([{ "fail_until": until }, "succeed"]);
    let (rig, job) = (Rig::new(), Job::probe(&steps));
    assert_eq!(rig.deliver(&[job.record("m-1")]).await.unwrap(), ["m-1"]);
    assert_eq!(rig.entry(&job).unwrap().not_before, Some(until));
    assert_eq!(rig.deliver(&[job.record("m-2")]).await.unwrap(), ["m-2"]);
    assert_eq!(rig.visible_in(), [("m-1".to_owned(), 602), ("m-2".to_owned(), 602)]);
    assert_eq!(job.runs().started, 1);
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_longer_than_sqs_allows_or_shorter_than_none() {
    let (day, hour) = (Duration::from_hours(24), Duration::from_hours(1));
    let ahead = START + day;
    let (rig, job) = (Rig::new(), Job::probe(&json!([{ "fail_until": ahead }])));
    assert_eq!(rig.deliver(&[job.record("m")]).await.unwrap(), ["m"]);
    assert_eq!(rig.entry(&job).unwrap().not_before, Some(ahead), "it waits on after 12 h");
    let waits = rig.visible_in()[0].1;
    assert!((hour.as_secs() * 11..hour.as_secs() * 12).contains(&waits), "{waits}");

    let past = Job::probe(&json!([{ "fail_until": START.as_millis() - 1 }]));
    assert_eq!(rig.deliver(&[past.record("m")]).await.unwrap(), ["m"]);
    assert_eq!(rig.visible_in(), [("m".to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_no_longer_than_its_receives_last() {
    let year = START + Duration::from_hours(24 * 365);
    for (receive, hours) in [(1, 36), (4, 12)] {
        let (rig, job) = (Rig::new(), Job::probe(&json!([{ "fail_until": year }])));
        assert_eq!(rig.deliver(&[job.record_at("m", receive)]).await.unwrap(), ["m"]);
        let not_before = rig.entry(&job).unwrap().not_before.unwrap();
        assert!(not_before.since(START) < Duration::from_hours(hours), "{receive}");
        assert!(not_before.since(START) > Duration::from_hours(hours - 2), "{receive}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_visibility_that_cannot_be_changed_loses_nothing() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["fail"])));
    rig.consumer.queue.is_down.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(rig.deliver(&[job.record("m")]).await.unwrap(), ["m"]);
    let mut without_receipt = Job::probe(&json!(["fail"])).record("m-2");
    without_receipt["receiptHandle"] = json!(null);
    assert_eq!(rig.deliver(&[without_receipt]).await.unwrap(), ["m-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_kind_is_retried_only_where_nothing_happened() {
    let rig = Rig::new();
    let safe = Job::held(&json!(["fail", "succeed"]));
    assert_eq!(rig.deliver(&[safe.record("m")]).await.unwrap(), ["m"]);
    assert_eq!(rig.state(&safe), Some(State::Queued));

    for step in ["err", "panic", "panic_in_task", "hang"] {
        let job = Job::held(&json!([step, "succeed"]));
        assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty(), "{step}");
        let entry = rig.entry(&job).unwrap();
        assert_eq!(entry.state, State::Held, "{step}");
        assert_eq!(entry.reason.as_deref(), Some("interrupted"));
        let letter = rig.letters().last().unwrap().clone();
        assert_eq!(letter.attribute("reason"), Some("interrupted"));
        assert_eq!(letter.body, job.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_known_waits_for_a_newer_consumer() {
    let rig = Rig::new();
    let job = Job::with_payload("from-the-future", &json!({ "a": 1 }));
    assert_eq!(rig.deliver(&[job.record("m")]).await.unwrap(), ["m"]);
    assert_eq!(rig.visible_in(), [("m".to_owned(), 60)]);
    assert_eq!(rig.entry(&job), None);

    assert!(rig.deliver(&[job.record_at("m", 5)]).await.unwrap().is_empty());
    let entry = rig.entry(&job).unwrap();
    assert_eq!((entry.state, entry.kind.as_str()), (State::Failed, "from-the-future"));
    let letters = rig.letters();
    assert_eq!(letters[0].attribute("reason"), Some("unknown-kind"));
    assert_eq!(letters[0].body, job.body);
}

#[tokio::test(start_paused = true)]
async fn a_payload_or_version_that_does_not_fit_waits_too() {
    let rig = Rig::new();
    let misfit = Job::with_payload("report", &json!({ "title": 1 }));
    assert_eq!(rig.deliver(&[misfit.record("m")]).await.unwrap(), ["m"]);
    let newer = Job::probe(&json!(["succeed"])).body.replace("\"v\":1", "\"v\":2");
    let record = |receive| crate::rig::record("m", &newer, receive);
    assert_eq!(rig.deliver(&[record(1)]).await.unwrap(), ["m"]);
    assert!(rig.deliver(&[misfit.record_at("m", 5), record(5)]).await.unwrap().is_empty());
    let letters = rig.letters();
    let mut reasons: Vec<_> = letters.iter().map(|letter| letter.attribute("reason")).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, [Some("invalid-payload"), Some("unknown-version")]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_understood_leaves_a_claimed_job_alone() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    let entry = rig.entry(&job);
    let newer = job.body.replace("\"v\":1", "\"v\":2");
    assert!(rig.deliver(&[crate::rig::record("m", &newer, 5)]).await.unwrap().is_empty());
    assert_eq!(rig.entry(&job), entry);
}
