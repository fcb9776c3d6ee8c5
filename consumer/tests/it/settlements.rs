//! What a handler did becomes the entry's state, or its record comes back.

use std::time::Duration;

use consumer::batch::BatchError;
use serde_json::json;
use shared::{JobEntry, State};
use uuid::Uuid;

use crate::rig::{Fault, Job, Rig, START};

#[tokio::test(start_paused = true)]
async fn a_completed_job_keeps_its_result() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.result.as_deref(), Some(r#"{"attempt":1,"filler":""}"#));
    assert_eq!((entry.lease_until, entry.attempt, entry.error), (None, 1, None));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_errs_is_tried_again() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    rig.faults([Fault::None, Fault::Fails, Fault::Fails, Fault::Fails]);
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    assert_eq!(rig.state(&job), Some(State::Succeeded));
    assert_eq!(job.runs().started, 1);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_meets_its_own_write_is_stored() {
    for faults in [[Fault::None, Fault::SentTwice], [Fault::None, Fault::AnswerLost]] {
        let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
        rig.faults(faults);
        assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
        assert_eq!(rig.state(&job), Some(State::Succeeded));
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_is_never_stored_comes_back_after_the_lease() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    rig.faults([Fault::None].into_iter().chain([Fault::Fails; 1_000]));
    assert_eq!(rig.deliver(&[job.record("m")]).await, Err(BatchError::Outage(1)));
    assert!(rig.now().since(START) < Duration::from_secs(30), "answered before the deadline");
    assert_eq!(rig.state(&job), Some(State::Running));
    let visible_in = rig.visible_in();
    let (_, seconds) = visible_in.iter().find(|(id, _)| id == "m").unwrap();
    assert!((1..=15).contains(seconds), "after the lease: {seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_never_causes_another_run() {
    let (rig, job) = (Rig::new(), Job::probe(&json!([{ "succeed_with_bytes": 70_000 }])));
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    let entry = rig.entry(&job).unwrap();
    assert_eq!((entry.state, entry.result, entry.result_omitted), (State::Succeeded, None, true));
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
}

#[tokio::test(start_paused = true)]
async fn who_lost_the_lease_changes_nothing() {
    for step in ["succeed_after_ms", "fail_after_ms", "fail_permanently_after_ms"] {
        let (rig, job) = (Rig::new(), Job::probe(&json!([{ step: 1000 }])));
        let batch = [job.record("m")];
        let delivery = rig.deliver(&batch);
        let taken_over = JobEntry {
            lease_token: Some(Uuid::from_u128(2)),
            ..job.running(START + Duration::from_mins(1))
        };
        let thief = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            rig.set(taken_over.clone());
        };
        let (failed, ()) = tokio::join!(delivery, thief);
        assert_eq!(failed.unwrap(), ["m"]);
        assert_eq!(rig.entry(&job), Some(taken_over));
        assert!(rig.letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_that_cannot_be_stored_is_no_dead_letter_yet() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["fail_permanently"])));
    rig.faults([Fault::None].into_iter().chain([Fault::Fails; 1_000]));
    assert_eq!(rig.deliver(&[job.record("m")]).await, Err(BatchError::Outage(1)));
    assert!(rig.letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_held_kind_that_says_nothing_happened_is_given_back_also_after_an_error() {
    let (rig, job) = (Rig::new(), Job::held(&json!(["fail", "succeed"])));
    rig.faults([Fault::None, Fault::Fails]);
    assert_eq!(rig.deliver(&[job.record("m")]).await.unwrap(), ["m"]);
    assert_eq!(rig.state(&job), Some(State::Queued));
}
