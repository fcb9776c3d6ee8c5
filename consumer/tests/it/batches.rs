//! One bad record costs its neighbours nothing.

use std::sync::atomic::Ordering;

use consumer::batch::BatchError;
use consumer::event::EventError;
use serde_json::{Value, json};
use shared::State;

use crate::rig::{Job, Rig, record};

const POISON: &str = "{not json";

#[tokio::test(start_paused = true)]
async fn only_what_failed_is_reported_and_in_these_bytes() {
    let rig = Rig::new();
    let (good, bad) = (Job::probe(&json!(["succeed"])), Job::probe(&json!(["fail"])));
    let event = json!({ "Records": [good.record("m-1"), bad.record("m-2")] }).to_string();
    let answer = rig.answer(&event).await.unwrap();
    assert_eq!(answer, r#"{"batchItemFailures":[{"itemIdentifier":"m-2"}]}"#);
    assert_eq!(rig.state(&good), Some(State::Succeeded));
    assert_eq!(rig.state(&bad), Some(State::Queued));
}

#[tokio::test(start_paused = true)]
async fn full_success_is_an_empty_list() {
    let rig = Rig::new();
    let job = Job::probe(&json!(["succeed"]));
    let event = json!({ "Records": [job.record("m-1")] }).to_string();
    assert_eq!(rig.answer(&event).await.unwrap(), r#"{"batchItemFailures":[]}"#);
    assert_eq!(rig.answer(r#"{"Records":[]}"#).await.unwrap(), r#"{"batchItemFailures":[]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_poison_record_costs_its_neighbours_nothing_wherever_it_sits() {
    for position in 0..3 {
        let rig = Rig::new();
        // While the dead-letter queue does not answer, the poison must be reported.
        rig.consumer.queue.is_down.store(true, Ordering::Relaxed);
        let jobs = [Job::probe(&json!(["succeed"])), Job::probe(&json!(["succeed"]))];
        let mut records = vec![jobs[0].record("m-1"), jobs[1].record("m-2")];
        records.insert(position, record("poison", POISON, 1));
        assert_eq!(rig.deliver(&records).await.unwrap(), ["poison"]);
        for job in &jobs {
            assert_eq!(rig.state(job), Some(State::Succeeded));
            assert_eq!(job.runs().started, 1);
        }

        rig.consumer.queue.is_down.store(false, Ordering::Relaxed);
        assert!(rig.deliver(&records).await.unwrap().is_empty());
        assert_eq!(rig.letters()[0].body, POISON);
    }
}

#[tokio::test(start_paused = true)]
async fn every_record_that_failed_is_reported() {
    let rig = Rig::new();
    let job = |step: &str| Job::probe(&json!([step]));
    let records: Vec<Value> = ["fail", "succeed", "err", "succeed", "panic"]
        .into_iter()
        .enumerate()
        .map(|(position, step)| job(step).record(&format!("m-{}", position + 1)))
        .collect();
    let mut failed = rig.deliver(&records).await.unwrap();
    failed.sort();
    assert_eq!(failed, ["m-1", "m-3", "m-5"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_in_which_all_fail_reports_them_all() {
    let rig = Rig::new();
    let records: Vec<Value> =
        (1..=3).map(|number| Job::probe(&json!(["fail"])).record(&format!("m-{number}"))).collect();
    assert_eq!(rig.deliver(&records).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failure_without_a_message_id_fails_the_invocation() {
    for message_id in [json!(null), json!(""), json!(7)] {
        let rig = Rig::new();
        let (good, bad) = (Job::probe(&json!(["succeed"])), Job::probe(&json!(["fail"])));
        let mut nameless = bad.record("m-2");
        nameless["messageId"] = message_id;
        let answer = rig.deliver(&[good.record("m-1"), nameless]).await;
        assert_eq!(answer, Err(BatchError::NoMessageId));
        assert_eq!(rig.state(&good), Some(State::Succeeded));
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_needs_no_message_id() {
    let rig = Rig::new();
    let job = Job::probe(&json!(["succeed"]));
    let minimal = json!({ "body": job.body });
    assert!(rig.deliver(&[minimal]).await.unwrap().is_empty());
    assert_eq!(rig.state(&job), Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn no_message_id_is_reported_twice() {
    let rig = Rig::new();
    let records =
        [Job::probe(&json!(["fail"])).record("m"), Job::probe(&json!(["fail"])).record("m")];
    assert_eq!(rig.deliver(&records).await.unwrap(), ["m"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_another_kind_are_an_error_and_no_success() {
    let rig = Rig::new();
    for event in [
        "{}",
        "[]",
        r#"{"records":[]}"#,
        r#"{"Records":null}"#,
        r#"{"Messages":[]}"#,
        r#"{"Service":"Amazon S3","Event":"s3:TestEvent"}"#,
        include_str!("../../../events/http-report.json"),
    ] {
        assert_eq!(rig.answer(event).await, Err(BatchError::Event(EventError::NotSqs)), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn records_of_a_fifo_queue_are_refused_before_any_runs() {
    let rig = Rig::new();
    let job = Job::probe(&json!(["succeed"]));
    let mut fifo = job.record("m-2");
    fifo["eventSourceARN"] = json!("arn:aws:sqs:eu-west-1:123456789012:jobs.fifo");
    let answer = rig.deliver(&[job.record("m-1"), fifo]).await;
    assert_eq!(answer, Err(BatchError::Event(EventError::Fifo)));
    assert_eq!(job.runs().started, 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_body_comes_back() {
    let rig = Rig::new();
    let job = Job::probe(&json!(["succeed"]));
    let mut bodiless = job.record("m-2");
    bodiless["body"] = json!(null);
    assert_eq!(rig.deliver(&[job.record("m-1"), bodiless]).await.unwrap(), ["m-2"]);
    assert_eq!(rig.state(&job), Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_one_record_and_leaves_the_next_invocation_alone() {
    for step in ["panic", "panic_in_task"] {
        let rig = Rig::new();
        let (one, three) = (Job::probe(&json!(["succeed"])), Job::probe(&json!(["succeed"])));
        let bad = Job::probe(&json!([step, "succeed"]));
        let batch = [one.record("m-1"), bad.record("m-2"), three.record("m-3")];
        assert_eq!(rig.deliver(&batch).await.unwrap(), ["m-2"]);
        let entry = rig.entry(&bad).unwrap();
        assert_eq!(entry.state, State::Queued);
        assert!(entry.error.unwrap().contains("panicked as asked"));

        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert!(rig.deliver(&[bad.record_at("m-2", 2)]).await.unwrap().is_empty());
        assert_eq!(rig.state(&bad), Some(State::Succeeded));
    }
}

#[tokio::test(start_paused = true)]
async fn copies_of_one_job_in_a_batch_share_one_run() {
    let rig = Rig::new();
    let job = Job::probe(&json!([{ "succeed_after_ms": 100 }]));
    let batch = [job.record("m-1"), job.record("m-2"), job.record("m-3")];
    assert!(rig.deliver(&batch).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);

    let failing = Job::probe(&json!(["fail"]));
    let batch = [failing.record_at("m-1", 5), failing.record_at("m-2", 1)];
    let mut failed = rig.deliver(&batch).await.unwrap();
    failed.sort();
    assert_eq!(failed, ["m-1", "m-2"]);
    assert_eq!(failing.runs().started, 1);
    // The copy that comes back decides whether that was the last attempt.
    assert_eq!(rig.state(&failing), Some(State::Queued));
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_batch_run_at_the_same_time_within_the_bound() {
    let mut rig = Rig::new();
    rig.consumer.settings.concurrency = 4;
    let jobs: Vec<_> = (0..8).map(|_| Job::probe(&json!([{ "succeed_after_ms": 1000 }]))).collect();
    let records: Vec<_> = jobs.iter().map(|job| job.record(&job.id.to_string())).collect();
    let started = rig.now();
    assert!(rig.deliver(&records).await.unwrap().is_empty());
    assert_eq!(rig.now().since(started).as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_table_fails_the_invocation_and_runs_nothing() {
    let rig = Rig::new();
    rig.table.is_down.store(true, Ordering::Relaxed);
    let jobs = [Job::probe(&json!(["succeed"])), Job::probe(&json!(["succeed"]))];
    let batch = [jobs[0].record_at("m-1", 1), jobs[1].record_at("m-2", 3)];
    assert_eq!(rig.deliver(&batch).await, Err(BatchError::Outage(2)));
    assert_eq!(jobs[0].runs().started + jobs[1].runs().started, 0);
    let mut visible_in = rig.visible_in();
    visible_in.sort();
    assert_eq!(visible_in, [("m-1".to_owned(), 60), ("m-2".to_owned(), 3600)]);

    rig.table.is_down.store(false, Ordering::Relaxed);
    assert!(rig.deliver(&batch).await.unwrap().is_empty());
    assert_eq!(jobs[0].runs().started, 1);
}

#[tokio::test(start_paused = true)]
async fn one_record_that_cannot_be_claimed_is_reported_alone() {
    let rig = Rig::in_order();
    rig.faults([crate::rig::Fault::Fails]);
    let jobs = [Job::probe(&json!(["succeed"])), Job::probe(&json!(["succeed"]))];
    let failed = rig.deliver(&[jobs[0].record("m-1"), jobs[1].record("m-2")]).await.unwrap();
    assert_eq!(failed, ["m-1"]);
    assert_eq!((jobs[0].runs().started, jobs[1].runs().started), (0, 1));
}
