//! A job's handler never runs twice at the same time, and never after it
//! succeeded.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use shared::{JobEntry, JobTable, State, Timestamp};

use crate::rig::{Fault, Job, Rig, START};

fn later(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

/// Delivers `job` over its `entry`: whether its record is reported, and how
/// often it ran.
async fn deliver_over(rig: &Rig, job: &Job, entry: JobEntry) -> (bool, usize) {
    rig.set(entry);
    let failed = rig.deliver(&[job.record("m")]).await.unwrap();
    (!failed.is_empty(), job.runs().started)
}

#[tokio::test(start_paused = true)]
async fn a_completed_job_is_acknowledged_and_not_run() {
    let rig = Rig::new();
    let job = Job::probe(&json!(["succeed"]));
    assert!(rig.deliver(&[job.record_at("m", 1)]).await.unwrap().is_empty());
    let entry = rig.entry(&job);
    assert!(rig.deliver(&[job.record_at("m", 2)]).await.unwrap().is_empty());
    assert!(rig.deliver(&[job.record_at("another-message", 1)]).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
    assert_eq!(rig.entry(&job), entry);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_is_acknowledged_and_not_run() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    let entry = job.entry(State::Cancelled);
    assert_eq!(deliver_over(&rig, &job, entry).await, (false, 0));
    assert_eq!(rig.state(&job), Some(State::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_job_in_progress_elsewhere_comes_back_after_its_lease() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    let running = job.running(later(20));
    assert_eq!(deliver_over(&rig, &job, running.clone()).await, (true, 0));
    assert_eq!(rig.entry(&job), Some(running), "the owner's claim is left alone");
    assert_eq!(rig.visible_in(), [("m".to_owned(), 22)], "also by a clock that is slower");

    tokio::time::sleep(Duration::from_secs(22)).await;
    assert!(rig.deliver(&[job.record_at("m", 2)]).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
    assert_eq!(rig.state(&job), Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_live_claim_is_not_stolen_at_any_time() {
    let rig = Rig::new();
    let job = Job::probe(&json!([{ "succeed_after_ms": 10_000 }]));
    let slow = [job.record("a")];
    let owner = rig.deliver(&slow);
    let others = async {
        for wait in [1, 4, 4] {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            assert_eq!(rig.deliver(&[job.record("b")]).await.unwrap(), ["b"]);
        }
    };
    let (owner, ()) = tokio::join!(owner, others);
    assert!(owner.unwrap().is_empty());
    assert_eq!((job.runs().started, job.runs().most_at_once), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn many_deliveries_at_once_make_one_run() {
    let rig = Rig::new();
    let job = Job::probe(&json!([{ "succeed_after_ms": 500 }]));
    let batches: Vec<_> = (0..20).map(|n| [job.record(&format!("m-{n}"))]).collect();
    let answers = futures::future::join_all(batches.iter().map(|batch| rig.deliver(batch))).await;
    let reported = answers.into_iter().filter(|answer| !answer.as_ref().unwrap().is_empty());
    assert_eq!(reported.count(), 19);
    assert_eq!(job.runs().started, 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_owner_died_runs_again_after_the_lease() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    let dead = job.running(Timestamp::from_millis(START.as_millis() - 1));
    assert_eq!(deliver_over(&rig, &job, dead).await, (false, 1));
}

#[tokio::test(start_paused = true)]
async fn a_held_kind_whose_owner_died_waits_for_a_person() {
    let (rig, job) = (Rig::new(), Job::held(&json!(["succeed"])));
    let dead = job.running(Timestamp::from_millis(START.as_millis() - 1));
    assert_eq!(deliver_over(&rig, &job, dead).await, (false, 0));
    assert_eq!(rig.state(&job), Some(State::Held));
    assert_eq!(rig.letters()[0].attribute("reason"), Some("interrupted"));

    // A redrive is never acknowledged into nothing.
    assert!(rig.deliver(&[job.record("redriven")]).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 0);
    assert_eq!(rig.letters().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_that_is_redriven_runs() {
    let rig = Rig::new();
    let job = Job::probe(&json!(["fail_permanently", "succeed"]));
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    assert_eq!(rig.state(&job), Some(State::Failed));
    assert!(rig.deliver(&[job.record_at("redriven", 2)]).await.unwrap().is_empty());
    assert_eq!(rig.state(&job), Some(State::Succeeded));
    assert_eq!(job.runs().started, 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_entry_is_no_entry() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    let expires_at = Timestamp::from_millis(START.as_millis() - 3_600_000);
    let expired = JobEntry { expires_at, ..job.entry(State::Succeeded) };
    assert_eq!(deliver_over(&rig, &job, expired).await, (false, 1));
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_same_id_is_a_conflict() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    assert!(rig.deliver(&[job.record("m-1")]).await.unwrap().is_empty());
    let entry = rig.entry(&job);
    let other = job.other_payload(&json!(["fail"]));
    assert!(rig.deliver(&[other.record("m-2")]).await.unwrap().is_empty());
    assert_eq!(rig.entry(&job), entry);
    assert_eq!(job.runs().started, 1);
    let letters = rig.letters();
    assert_eq!(letters[0].attribute("reason"), Some("fingerprint-mismatch"));
    assert_eq!(letters[0].body, other.body);
}

#[tokio::test(start_paused = true)]
async fn both_jobs_of_a_conflict_in_one_batch_are_told_apart() {
    let (rig, job) = (Rig::in_order(), Job::probe(&json!(["succeed"])));
    let other = job.other_payload(&json!(["fail"]));
    let batch = [job.record("m-1"), other.record("m-2")];
    assert!(rig.deliver(&batch).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
    assert_eq!(rig.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_the_intent_is_the_identity_another_payload_is_a_duplicate() {
    let rig = Rig::new();
    let job = Job::intended(&json!(["succeed"]));
    assert!(rig.deliver(&[job.record("m-1")]).await.unwrap().is_empty());
    let payload = json!({ "attempts": ["fail"], "intent": "once" });
    let other = Job::new(job.id, "probe", &payload);
    assert!(rig.deliver(&[other.record("m-2")]).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
    assert!(rig.letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_copy_waits_for_the_backoff_of_another() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    let waiting = JobEntry { not_before: Some(later(9)), ..job.entry(State::Queued) };
    assert_eq!(deliver_over(&rig, &job, waiting.clone()).await, (true, 0));
    assert_eq!(rig.entry(&job), Some(waiting));
    assert_eq!(rig.visible_in(), [("m".to_owned(), 11)]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_meets_its_own_write_is_acquired() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    rig.faults([Fault::SentTwice]);
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
    assert_eq!(rig.state(&job), Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_runs_nothing_until_its_lease_is_over() {
    let (rig, job) = (Rig::in_order(), Job::probe(&json!(["succeed"])));
    let other = Job::probe(&json!(["succeed"]));
    rig.faults([Fault::AnswerLost, Fault::Fails]);
    let failed = rig.deliver(&[job.record("m"), other.record("m-2")]).await.unwrap();
    assert_eq!(failed, ["m"]);
    assert_eq!(job.runs().started, 0);
    assert_eq!(rig.deliver(&[job.record_at("m", 2)]).await.unwrap(), ["m"]);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(rig.deliver(&[job.record_at("m", 3)]).await.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_made_again_under_its_token() {
    for job in [Job::probe(&json!(["succeed"])), Job::held(&json!(["succeed"]))] {
        let rig = Rig::new();
        rig.faults([Fault::AnswerLost]);
        assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
        assert_eq!(job.runs().started, 1);
        assert_eq!(rig.state(&job), Some(State::Succeeded));
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_a_conflict_whatever_the_state() {
    let ahead = Some(later(60));
    for state in [State::Queued, State::Running, State::Failed, State::Held, State::Cancelled] {
        let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
        let other = job.other_payload(&json!(["fail"])).entry(state);
        let other = JobEntry { lease_until: ahead, not_before: ahead, ..other };
        assert_eq!(deliver_over(&rig, &job, other.clone()).await, (false, 0), "{state}");
        assert_eq!(rig.entry(&job), Some(other));
        assert_eq!(rig.letters()[0].attribute("reason"), Some("fingerprint-mismatch"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_cannot_be_written_is_found_again_later() {
    let dead = |job: &Job| job.running(Timestamp::from_millis(START.as_millis() - 1));
    let (rig, job) = (Rig::new(), Job::held(&json!(["succeed"])));
    rig.faults([Fault::None, Fault::Fails, Fault::None, Fault::SentTwice]);
    rig.set(dead(&job));
    assert!(rig.deliver(&[job.record("m")]).await.is_err());
    assert_eq!(rig.state(&job), Some(State::Running));
    assert!(rig.letters().is_empty());
    assert!(rig.deliver(&[job.record_at("m", 2)]).await.unwrap().is_empty());
    assert_eq!(rig.state(&job), Some(State::Held));
    assert_eq!((rig.letters().len(), job.runs().started), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_held_kind_that_failed_runs_again_only_for_a_person() {
    let (rig, job) = (Rig::new(), Job::held(&json!(["fail_permanently", "succeed"])));
    let sent_at = |seconds: u64, receive| {
        let mut record = job.record_at("m", receive);
        record["attributes"]["SentTimestamp"] = json!(later(seconds).as_millis().to_string());
        record
    };
    // The dead letter cannot be sent, so the message comes back.
    rig.consumer.queue.is_down.store(true, Ordering::Relaxed);
    assert!(rig.deliver(&[sent_at(0, 1)]).await.is_err());
    rig.consumer.queue.is_down.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(rig.deliver(&[sent_at(0, 2)]).await.unwrap().is_empty());
    assert_eq!((rig.state(&job), job.runs().started), (Some(State::Failed), 1));
    assert_eq!(rig.letters()[0].attribute("reason"), Some("failed-before"));

    assert!(rig.deliver(&[sent_at(50, 2)]).await.unwrap().is_empty());
    assert_eq!((rig.state(&job), job.runs().started), (Some(State::Succeeded), 2));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_does_not_tell_the_entry_is_looked_up() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    rig.faults([Fault::NoOldItem]);
    assert_eq!(deliver_over(&rig, &job, job.entry(State::Succeeded)).await, (false, 0));
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_vanishes_meanwhile_is_claimed_again() {
    let (rig, job) = (Rig::new(), Job::probe(&json!(["succeed"])));
    rig.faults([Fault::Vanishes]);
    assert_eq!(deliver_over(&rig, &job, job.entry(State::Succeeded)).await, (false, 1));
}

#[tokio::test(start_paused = true)]
async fn no_id_is_shared_by_records_that_have_none() {
    let rig = Rig::new();
    for id in [json!(null), json!(""), json!(0)] {
        let body = |n: u32| {
            json!({ "id": id, "kind": "probe", "payload": { "attempts": ["succeed"] }, "n": n })
                .to_string()
        };
        let batch =
            [crate::rig::record("m-1", &body(1), 1), crate::rig::record("m-2", &body(2), 1)];
        assert!(rig.deliver(&batch).await.unwrap().is_empty());
    }
    assert_eq!(rig.letters().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn text_survives_to_the_job_unchanged() {
    let rig = Rig::new();
    let title = "naïve \u{1f600} &amp; \u{2028} \"quoted\" \\ \u{7f} \u{10ffff}";
    let payload = json!({ "title": title, "rows": [{ "group": title, "amount": "1" }] });
    let job = Job::with_payload("report", &payload);
    assert!(rig.deliver(&[job.record("m")]).await.unwrap().is_empty());
    let result = rig.entry(&job).unwrap().result.unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["title"], title);
    assert_eq!(result["groups"][0]["group"], title);
}

/// Cancelled, its message would be acknowledged, and nobody would find out.
#[tokio::test(start_paused = true)]
async fn a_held_kind_whose_owner_died_cannot_be_cancelled() {
    let (rig, job) = (Rig::new(), Job::held(&json!([{ "succeed_after_ms": 1000 }])));
    let batch = [job.record("m")];
    let look = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        rig.entry(&job).unwrap()
    };
    let (_, entry) = tokio::join!(rig.deliver(&batch), look);
    let after_lease = entry.lease_until.unwrap() + Duration::from_secs(1);
    rig.set(entry);
    let anonymous = shared::Principal::anonymous();
    let answer = rig.consumer.table.cancel(job.id, &anonymous, after_lease).await.unwrap();
    assert!(matches!(answer, shared::table::Cancellation::Refused(Some(_))), "{answer:?}");
}
