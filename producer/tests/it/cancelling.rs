//! A job can be cancelled while nobody has it in hand.

use std::time::Duration;

use serde_json::json;
use shared::entry::State;
use shared::{JobEntry, Timestamp};
use uuid::Uuid;

use crate::events::{BODY, Event};
use crate::fakes::{Fixture, WriteFault};

fn keyed() -> Event {
    Event::post(BODY).key("order-42")
}

fn delete(id: &str) -> Event {
    Event::request("DELETE", &format!("/jobs/{id}"))
}

/// A job that was accepted, and then changed.
async fn job(fixture: &Fixture, change: impl FnOnce(&mut JobEntry)) -> String {
    let id = fixture.send(&keyed()).await.id().to_owned();
    fixture.change(&id, change);
    fixture.steps.take();
    id
}

/// As a claim leaves it that was made before.
fn claimed(entry: &mut JobEntry, state: State, lease_until: Option<Timestamp>) {
    entry.state = state;
    entry.attempt = 1;
    entry.lease_token = Some(Uuid::from_u128(1));
    entry.lease_until = lease_until;
}

#[tokio::test]
async fn a_queued_job_is_cancelled_by_one_write() {
    let fixture = Fixture::new();
    let id = job(&fixture, |_| {}).await;
    fixture.wait(Duration::from_secs(3));
    for steps in [vec!["cancel"], vec!["cancel"]] {
        let answer = fixture.send(&delete(&id)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(
            answer.body,
            json!({
                "id": id,
                "kind": "report",
                "state": "cancelled",
                "attempt": 0,
                "created_at": "2023-11-14T22:13:20.123Z",
                "updated_at": "2023-11-14T22:13:23.123Z",
                "links": {"self": format!("/jobs/{id}")}
            })
        );
        assert_eq!(answer.header("retry-after"), None);
        assert_eq!(fixture.steps.take(), steps);
        // The second time finds it cancelled, and changes nothing.
        fixture.wait(Duration::from_secs(3));
    }
    assert_eq!(fixture.entry(&id).unwrap().state, State::Cancelled);
}

#[tokio::test]
async fn a_cancelled_job_is_not_revived_by_its_key() {
    let fixture = Fixture::new();
    let id = job(&fixture, |_| {}).await;
    fixture.send(&delete(&id)).await;
    let again = fixture.send(&keyed()).await;
    assert_eq!((again.status, again.id()), (202, id.as_str()));
    assert_eq!(again.body["state"], "cancelled");
    assert_eq!(again.header("retry-after"), None);
    assert_eq!(fixture.messages().len(), 1);
    assert_eq!(fixture.entry(&id).unwrap().state, State::Cancelled);
}

#[tokio::test]
async fn a_job_is_cancelled_between_two_attempts() {
    let fixture = Fixture::new();
    let ahead = fixture.now() + Duration::from_mins(1);
    let before = Timestamp::from_millis(fixture.now().as_millis() - 1);
    let given_back = job(&fixture, |entry| {
        claimed(entry, State::Queued, None);
        entry.not_before = Some(ahead);
        entry.error = Some("busy".to_owned());
    })
    .await;
    assert_eq!(fixture.send(&delete(&given_back)).await.status, 200);

    let fixture = Fixture::new();
    let killed = job(&fixture, |entry| claimed(entry, State::Running, Some(before))).await;
    let answer = fixture.send(&delete(&killed)).await;
    assert_eq!((answer.status, &answer.body["state"]), (200, &json!("cancelled")));
}

#[tokio::test]
async fn what_get_does_not_show_as_queued_is_not_cancelled() {
    let now = Fixture::new().now();
    let before = Timestamp::from_millis(now.as_millis() - 1);
    for (state, lease_until, shown) in [
        (State::Running, Some(now), "running"),
        // Its last attempt died: the message is a dead letter.
        (State::Running, Some(before), "failed"),
        (State::Succeeded, None, "succeeded"),
        (State::Failed, None, "failed"),
        (State::Held, None, "failed"),
    ] {
        let fixture = Fixture::new();
        let id = job(&fixture, |entry| {
            claimed(entry, state, lease_until);
            entry.last_attempt = shown == "failed";
        })
        .await;
        let old = fixture.entry(&id);
        let answer = fixture.send(&delete(&id)).await;
        assert_eq!((answer.status, answer.problem()), (409, "not-cancellable"), "{state}");
        assert_eq!(answer.body["state"], shown);
        assert_eq!(fixture.entry(&id), old);
        let read = fixture.send(&Event::request("GET", &format!("/jobs/{id}"))).await;
        assert_eq!(read.body["state"], shown);
    }
}

#[tokio::test]
async fn what_is_not_the_callers_is_not_there() {
    let fixture = Fixture::new();
    let id = fixture.send(&keyed().jwt("ann")).await.id().to_owned();
    let missing = fixture.send(&delete("00000000-0000-0000-0000-000000000000")).await;
    assert_eq!((missing.status, missing.problem()), (404, "job-not-found"));
    for other in [delete(&id), delete(&id).jwt("bob"), delete(&id).iam("AROAEXAMPLE:ann")] {
        assert_eq!(fixture.send(&other).await.event, missing.event);
    }
    assert_eq!(fixture.send(&delete("nonsense")).await.status, 404);
    assert_eq!(fixture.entry(&id).unwrap().state, State::Queued);
    fixture.wait(Duration::from_hours(31 * 24));
    assert_eq!(fixture.send(&delete(&id).jwt("ann")).await.event, missing.event);
    assert_eq!(fixture.entry(&id).unwrap().state, State::Queued);
}

#[tokio::test]
async fn a_lost_answer_is_made_good_by_asking_again() {
    let fixture = Fixture::new();
    let id = job(&fixture, |_| {}).await;
    for fault in [WriteFault::Fails, WriteFault::LosesItsAnswer] {
        fixture.producer.table.cancel_faults.lock().unwrap().push_back(fault);
        let answer = fixture.send(&delete(&id)).await;
        assert_eq!((answer.status, answer.problem()), (503, "unavailable"), "{fault:?}");
    }
    assert_eq!(fixture.entry(&id).unwrap().state, State::Cancelled);
    assert_eq!(fixture.send(&delete(&id)).await.status, 200);
}

#[tokio::test]
async fn a_refusal_that_tells_nothing_is_looked_into() {
    let fixture = Fixture::new();
    let id = job(&fixture, |_| {}).await;
    let silent = |times| {
        let mut faults = fixture.producer.table.cancel_faults.lock().unwrap();
        faults.extend(vec![WriteFault::TellsNothing; times]);
    };
    silent(3);
    assert_eq!(fixture.send(&delete(&id)).await.status, 503);
    assert_eq!(fixture.steps.take(), ["cancel", "get", "cancel", "get", "cancel", "get"]);
    silent(1);
    assert_eq!(fixture.send(&delete(&id)).await.status, 200);
    assert_eq!(fixture.steps.take(), ["cancel", "get", "cancel"]);
}
