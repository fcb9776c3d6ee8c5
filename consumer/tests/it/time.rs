//! The function never times out by its own doing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use consumer::Deadline;
use consumer::batch::BatchError;
use serde_json::json;
use serde_json::value::RawValue;
use shared::emf::published;
use shared::{State, Timestamp};

use crate::logs;
use crate::rig::{Fault, Job, Rig, START, TIMEOUT};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_started_in_time_comes_back_untouched() {
    let rig = Rig::in_order();
    let jobs: Vec<_> = (0..5).map(|_| Job::probe(&json!([{ "succeed_after_ms": 2000 }]))).collect();
    let records: Vec<_> = jobs.iter().map(|job| job.record(&job.id.to_string())).collect();
    let time = Duration::from_secs(10);
    let failed = rig.deliver_within(time, &records).await;
    assert!(rig.now().since(START) < time);
    for (position, job) in jobs.iter().enumerate() {
        let is_done = rig.state(job) == Some(State::Succeeded);
        assert_eq!(is_done, !failed.contains(&job.id.to_string()));
        assert_eq!(is_done, position < 3, "job {position}");
        assert_eq!(job.runs().started, usize::from(is_done));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_hangs_is_stopped_and_gives_its_claim_back() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["hang", "succeed"])));
    let quick = Job::probe(&json!(["succeed"]));
    let time = Duration::from_secs(30);
    let failed = rig.deliver_within(time, &[job.record("m-1"), quick.record("m-2")]).await;
    assert_eq!(failed, ["m-1"]);
    assert!(rig.now().since(START) < time);
    assert_eq!(job.runs().running, 0, "the handler was dropped");
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, State::Queued);
    assert_eq!(entry.error.as_deref(), Some("stopped for lack of time"));

    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(rig.deliver(&[job.record_at("m-1", 2)]).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_is_stopped_with_its_handler() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["spawn_and_hang"])));
    let failed = rig.deliver_within(Duration::from_secs(30), &[job.record("m")]).await;
    assert_eq!(failed, ["m"]);
    assert_eq!(rig.state(&job), Some(State::Queued));
}

/// In real time: a thread knows no other.
#[tokio::test]
async fn a_batch_with_a_thread_that_cannot_be_stopped_has_no_answer() {
    let (rig, job) = (Rig::new(), Job::probe(&json!([{ "block_for_ms": 7_000 }])));
    let quick = Job::probe(&json!(["succeed"]));
    let event = json!({ "Records": [job.record("m-1"), quick.record("m-2")] }).to_string();
    let event = RawValue::from_string(event).unwrap();
    let clock = &rig.consumer.clock;
    let time = Duration::from_secs(6);
    let started = std::time::Instant::now();
    let deadline = Deadline::new(clock, clock.now() + time, time);
    assert_eq!(rig.consumer.handle(&event, &deadline).await, Err(BatchError::StillAlive));
    assert!(started.elapsed() < time);
    assert_eq!(rig.state(&quick), Some(State::Succeeded), "it is a duplicate when it comes back");
    let published = published(&logs::text(), "Relevo").unwrap();
    assert_eq!(published["StoppedForTime"], [1.0], "measured before the process ends itself");
    // While the thread is at work, nobody else may run the job.
    let entry = rig.entry(&job).unwrap();
    assert_eq!((entry.state, entry.lease_until), (State::Running, Some(deadline.lease_until())));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_1970_means_the_configured_timeout() {
    let (rig, job) = (Rig::new(), Job::probe(&json!([{ "succeed_after_ms": 20_000 }])));
    let event = json!({ "Records": [job.record("m")] }).to_string();
    let event = RawValue::from_string(event).unwrap();
    let deadline =
        Deadline::new(&rig.consumer.clock, Timestamp::default(), Duration::from_secs(30));
    let answer = rig.consumer.handle(&event, &deadline).await.unwrap();
    assert!(answer.batch_item_failures.is_empty());
    assert_eq!(rig.state(&job), Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_longer_than_its_owner_can_run() {
    let (rig, job) = (Rig::new(), Job::probe(&json!([{ "succeed_after_ms": 1000 }])));
    let batch = [job.record("m")];
    let look = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        rig.entry(&job).unwrap()
    };
    let (_, entry) = tokio::join!(rig.deliver(&batch), look);
    assert_eq!(entry.state, State::Running);
    assert_eq!(entry.lease_until, Some(START + Duration::from_secs(35)));
}

#[tokio::test(start_paused = true)]
async fn calls_that_never_answer_do_not_outlast_the_invocation() {
    let rig = Rig::new();
    rig.consumer.queue.hangs.store(true, Ordering::Relaxed);
    let quick = Job::probe(&json!(["succeed"]));
    let permanent = Job::probe(&json!(["fail_permanently"]));
    let unknown = Job::with_payload("from-the-future", &json!({}));
    assert!(rig.deliver(&[quick.record("quick")]).await.unwrap().is_empty());

    // The claim of one hangs, the settlement of another, and the queue for all.
    for faults in [vec![Fault::Hangs], vec![Fault::None, Fault::Hangs], vec![]] {
        let started = rig.now();
        rig.faults(faults);
        let records = [permanent.record("m-1"), unknown.record_at("m-2", 5), quick.record("quick")];
        // An error brings back all of them, among them this one.
        let failed = rig.deliver(&records).await.unwrap_or_else(|_| vec!["m-1".to_owned()]);
        assert!(failed.contains(&"m-1".to_owned()), "{failed:?}");
        assert!(rig.now().since(started) < TIMEOUT);
        tokio::time::sleep(Duration::from_mins(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_could_not_be_started_at_its_last_receive_has_failed() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    rig.set(job.entry(State::Queued));
    let time = Duration::from_secs(4);
    assert_eq!(rig.deliver_within(time, &[job.record_at("m", 4)]).await, ["m"]);
    assert_eq!(rig.state(&job), Some(State::Queued));
    assert_eq!(rig.deliver_within(time, &[job.record_at("m", 5)]).await, ["m"]);
    assert_eq!(rig.state(&job), Some(State::Failed));
    assert_eq!(job.runs().started, 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_claim_took_too_long_is_not_started_only_to_be_stopped() {
    for job in [Job::probe(&json!(["succeed"])), Job::held(&json!(["succeed"]))] {
        let rig = Rig::new();
        rig.faults([Fault::Slow(Duration::from_secs(5))]);
        assert_eq!(rig.deliver_within(Duration::from_secs(10), &[job.record("m")]).await, ["m"]);
        assert_eq!(job.runs().started, 0);
        assert_eq!(rig.state(&job), Some(State::Queued));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(rig.deliver(&[job.record_at("m", 2)]).await.unwrap().is_empty());
    }
}
