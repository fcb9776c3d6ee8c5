//! For kinds with an intent, the intent is the whole identity of a job.

use serde_json::json;
use shared::entry::State;
use shared::{JobId, Principal};

use crate::events::Event;
use crate::fakes::Fixture;

/// A probe, whose intents are shared by the deployment.
fn probe(step: &str, intent: &str) -> String {
    format!(r#"{{"kind":"probe","payload":{{"attempts":["{step}"],"intent":"{intent}"}}}}"#)
}

fn ask(caller: &str) -> Event {
    Event::post(&probe("succeed", "once")).jwt(caller)
}

fn at(method: &str, id: &str) -> Event {
    Event::request(method, &format!("/jobs/{id}"))
}

#[tokio::test]
async fn whoever_asks_it_is_one_job_of_who_asked_first() {
    let fixture = Fixture::new();
    let first = fixture.send(&ask("ann")).await;
    for again in [
        ask("bob"),
        ask("ann").key("order-42"),
        Event::post(&probe("fail", "once")).jwt("bob"),
        Event::post(&probe("fail", "once")).jwt("bob").key("order-42"),
        ask("cy").iam("AROAEXAMPLE:pod-1"),
    ] {
        let answer = fixture.send(&again).await;
        assert_eq!((answer.status, answer.id()), (202, first.id()), "{again:?}");
    }
    let other = fixture.send(&Event::post(&probe("succeed", "twice")).jwt("ann")).await;
    assert_ne!(other.id(), first.id());

    // Nobody claims it here, so its message is sent again each time, in the
    // first caller's name.
    let ann = Principal::jwt("https://issuer.example", "ann");
    let of_first = |id: JobId| id.to_string() == first.id();
    let messages = fixture.decoded();
    assert_eq!(messages.iter().filter(|message| of_first(message.id)).count(), 6);
    assert!(messages.iter().all(|message| message.principal == ann));
    let groups: Vec<_> = fixture.messages().into_iter().map(|message| message.group_id).collect();
    assert!(groups.iter().all(|group| *group == producer::group_id(&ann, None)), "{groups:?}");
    assert_eq!(fixture.entry(first.id()).unwrap().principal, ann);
}

#[tokio::test]
async fn a_key_adds_nothing_to_an_intent() {
    let fixture = Fixture::new();
    let first = fixture.send(&ask("ann").key("order-42")).await;
    let report = Event::post(crate::events::BODY).jwt("ann").key("order-42");
    let keyed = fixture.send(&report).await;
    assert_eq!(keyed.status, 202);
    assert_ne!(keyed.id(), first.id());
    let another = ask("ann").with("/body", json!(probe("succeed", "twice"))).key("order-42");
    assert_ne!(fixture.send(&another).await.id(), first.id());
}

#[tokio::test]
async fn a_done_intent_is_not_done_again() {
    let fixture = Fixture::new();
    let first = fixture.send(&ask("ann")).await;
    for (state, shown) in
        [(State::Succeeded, "succeeded"), (State::Held, "failed"), (State::Cancelled, "cancelled")]
    {
        fixture.change(first.id(), |entry| (entry.state, entry.attempt) = (state, 1));
        let answer = fixture.send(&ask("bob")).await;
        assert_eq!((answer.status, answer.body["state"].as_str()), (202, Some(shown)));
        assert_eq!(fixture.messages().len(), 1);
    }
}

#[tokio::test]
async fn every_authenticated_caller_may_read_a_deployments_job() {
    let fixture = Fixture::new();
    let id = fixture.send(&ask("ann")).await.id().to_owned();
    for event in
        [at("GET", &id).jwt("ann"), at("GET", &id).jwt("bob"), at("GET", &id).iam("AROAEXAMPLE:x")]
    {
        let answer = fixture.send(&event).await;
        assert_eq!((answer.status, answer.id()), (200, id.as_str()), "{event:?}");
    }
    let anonymous = fixture.send(&at("GET", &id)).await;
    assert_eq!((anonymous.status, anonymous.problem()), (404, "job-not-found"));
}

#[tokio::test]
async fn only_who_asked_first_may_cancel_a_deployments_job() {
    let fixture = Fixture::new();
    let id = fixture.send(&ask("ann")).await.id().to_owned();
    fixture.send(&ask("bob")).await;
    let bob = fixture.send(&at("DELETE", &id).jwt("bob")).await;
    assert_eq!((bob.status, bob.problem()), (403, "not-the-owner"));
    let anonymous = fixture.send(&at("DELETE", &id)).await;
    assert_eq!((anonymous.status, anonymous.problem()), (404, "job-not-found"));
    assert_eq!(fixture.entry(&id).unwrap().state, State::Queued);

    let ann = fixture.send(&at("DELETE", &id).jwt("ann")).await;
    assert_eq!((ann.status, &ann.body["state"]), (200, &json!("cancelled")));
    let bob = fixture.send(&at("DELETE", &id).jwt("bob")).await;
    assert_eq!((bob.status, bob.problem()), (403, "not-the-owner"));
}

#[tokio::test]
async fn an_intent_in_a_batch_is_one_job_whatever_its_payload() {
    let fixture = Fixture::new();
    let with_key = probe("panic", "once").replacen('{', r#"{"idempotency_key":"k","#, 1);
    let jobs = [probe("succeed", "once"), probe("fail", "once"), with_key, probe("err", "twice")];
    let body = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
    let answer = fixture.send(&Event::post(&body).at("POST", "/jobs/batch").jwt("ann")).await;
    assert_eq!((answer.status, answer.statuses()), (202, vec![202; 4]));
    let id = |job: usize| answer.body["jobs"][job]["job"]["id"].as_str().unwrap();
    assert!(id(0) == id(1) && id(0) == id(2) && id(0) != id(3));
    let messages = fixture.messages();
    assert_eq!(messages.len(), 2);
    assert!(messages.iter().any(|message| message.body.contains("succeed")));
}

#[tokio::test]
async fn anonymous_callers_share_their_intents_too() {
    let fixture = Fixture::new();
    let anonymous = Event::post(&probe("succeed", "once"));
    let id = fixture.send(&anonymous).await.id().to_owned();
    assert_eq!(fixture.send(&anonymous).await.id(), id);
    assert_eq!(fixture.send(&at("GET", &id)).await.status, 200);
    assert_eq!(fixture.send(&at("DELETE", &id)).await.status, 200);
}
