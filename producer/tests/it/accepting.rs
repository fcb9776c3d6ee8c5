//! 202 is a promise, kept whatever fails in between.

use std::time::Duration;

use producer::group_id;
use serde_json::json;
use shared::Principal;
use shared::entry::State;
use uuid::Uuid;

use crate::events::{BODY, Event};
use crate::fakes::{Fixture, WriteFault};

const OTHER_BODY: &str =
    r#"{"kind":"report","payload":{"title":"other","rows":[{"group":"a","amount":"1.50"}]}}"#;

fn keyed() -> Event {
    Event::post(BODY).key("order-42")
}

#[tokio::test]
async fn a_keyed_job_is_written_before_it_is_sent() {
    let fixture = Fixture::new();
    let answer = fixture.send(&keyed()).await;
    assert_eq!(answer.status, 202);
    assert_eq!(fixture.steps.take(), ["put", "send"]);
    let (entry, message) = (fixture.entry(answer.id()).unwrap(), &fixture.decoded()[0]);
    assert_eq!((entry.state, entry.attempt), (State::Queued, 0));
    assert_eq!((entry.id, &entry.fingerprint), (message.id, &message.fingerprint));
    assert_eq!(entry.principal, message.principal);
    assert_eq!(message.created_at, Some(fixture.now()));
}

#[tokio::test]
async fn a_repeated_request_means_the_same_job() {
    let fixture = Fixture::new();
    let first = fixture.send(&keyed()).await;
    let reordered =
        r#"{ "payload" : {"rows":[{"amount":"1.50","group":"a"}],"title":"t"} , "kind":"report" }"#;
    for event in [
        keyed(),
        Event::post(reordered).key("order-42"),
        Event::post(BODY).key("\"order-42\""),
        Event::post(BODY).header("Idempotency-Key", "order-42"),
        Event::rest_post(BODY)
            .with("/multiValueHeaders/IDEMPOTENCY-KEY", json!(["order-42"]))
            .with("/headers/IDEMPOTENCY-KEY", json!("order-42")),
        Event::alb_post(BODY).key("order-42"),
    ] {
        let answer = fixture.send(&event).await;
        assert_eq!((answer.status, answer.id()), (202, first.id()), "{event:?}");
    }
    let ids: Vec<_> = fixture.decoded().iter().map(|message| message.id.to_string()).collect();
    assert!(ids.iter().all(|id| id == first.id()), "{ids:?}");
    assert_ne!(fixture.send(&Event::post(BODY).key("order-43")).await.id(), first.id());
}

#[tokio::test]
async fn ten_requests_at_once_mean_the_same_job() {
    let fixture = Fixture::new();
    let event = keyed();
    let send = || fixture.send(&event);
    let answers = tokio::join!(
        send(),
        send(),
        send(),
        send(),
        send(),
        send(),
        send(),
        send(),
        send(),
        send()
    );
    let (first, last) = (&answers.0, &answers.9);
    assert_eq!((first.status, last.status, first.id()), (202, 202, last.id()));
    for message in fixture.decoded() {
        assert_eq!(message.id.to_string(), first.id());
    }
}

#[tokio::test]
async fn a_key_does_not_mean_two_jobs() {
    let fixture = Fixture::new();
    let first = fixture.send(&keyed()).await;
    fixture.steps.take();
    let answer = fixture.send(&Event::post(OTHER_BODY).key("order-42")).await;
    assert_eq!((answer.status, answer.problem()), (422, "idempotency-key-reused"));
    assert_eq!(fixture.steps.take(), ["put"]);
    assert_eq!(fixture.decoded().len(), 1);
    assert!(!answer.event.to_string().contains(first.id()));
}

#[tokio::test]
async fn what_is_no_key_is_refused() {
    let fixture = Fixture::new();
    let twice =
        Event::rest_post(BODY).with("/multiValueHeaders/idempotency-key", json!(["a", "b"]));
    for event in [
        Event::post(BODY).key(""),
        Event::post(BODY).key("   "),
        Event::post(BODY).key(&"k".repeat(2049)),
        Event::post(BODY).key("\"a\", \"b\""),
        Event::post(BODY).key("a,b"),
        Event::post(BODY).key("\u{fc}"),
        twice,
    ] {
        let answer = fixture.send(&event).await;
        assert_eq!(
            (answer.status, answer.problem()),
            (400, "invalid-idempotency-key"),
            "{event:?}"
        );
    }
    assert_eq!(fixture.steps.take(), [""; 0]);
}

#[tokio::test]
async fn requests_without_a_key_are_different_jobs() {
    let fixture = Fixture::new();
    let (one, two) =
        (fixture.send(&Event::post(BODY)).await, fixture.send(&Event::post(BODY)).await);
    assert_ne!(one.id(), two.id());
    assert_eq!(one.id().parse::<Uuid>().unwrap().get_version_num(), 7);
    assert!(fixture.entry(one.id()).is_some() && fixture.entry(two.id()).is_some());
}

#[tokio::test]
async fn nothing_is_promised_before_the_queue_has_answered() {
    for event in [Event::post(BODY), keyed()] {
        let fixture = Fixture::new();
        let held_back = fixture.producer.queue.acknowledgements.acquire_many(1_000).await.unwrap();
        let answer = fixture.send(&event);
        tokio::pin!(answer);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut answer).await;
        assert!(early.is_err(), "{early:?}");
        drop(held_back);
        assert_eq!(answer.await.status, 202);
        assert_eq!(fixture.messages().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_in_time_whatever_happens() {
    let fixture = Fixture::new();
    let _held_back = fixture.producer.queue.acknowledgements.acquire_many(1_000).await.unwrap();
    let started = tokio::time::Instant::now();
    assert_eq!(fixture.send(&keyed()).await.status, 503);
    assert_eq!(started.elapsed().as_secs(), producer::ANSWER_WITHIN.as_secs());
}

#[tokio::test]
async fn a_message_that_was_never_sent_is_sent_by_the_next_request() {
    let fixture = Fixture::new();
    *fixture.producer.queue.failures.lock().unwrap() = 1;
    let refused = fixture.send(&keyed()).await;
    assert_eq!((refused.status, refused.problem()), (503, "unavailable"));
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert!(refused.body.get("id").is_none());
    assert_eq!(fixture.messages(), []);

    fixture.wait(Duration::from_mins(1));
    let answer = fixture.send(&keyed()).await;
    assert_eq!((answer.status, answer.body["state"].as_str()), (202, Some("queued")));
    assert_eq!(fixture.decoded().len(), 1);
    assert_eq!(fixture.decoded()[0].id.to_string(), answer.id());
}

#[tokio::test]
async fn a_job_that_was_claimed_is_not_sent_again() {
    for (state, shown) in [
        (State::Running, "running"),
        (State::Succeeded, "succeeded"),
        (State::Failed, "failed"),
        (State::Held, "failed"),
        (State::Cancelled, "cancelled"),
        (State::Queued, "queued"),
    ] {
        let fixture = Fixture::new();
        let first = fixture.send(&keyed()).await;
        let now = fixture.now();
        fixture.change(first.id(), |entry| {
            entry.state = state;
            entry.attempt = 1;
            entry.lease_token = Some(Uuid::from_u128(1));
            entry.lease_until = (state == State::Running).then_some(now);
        });
        let answer = fixture.send(&keyed()).await;
        assert_eq!((answer.status, answer.body["state"].as_str()), (202, Some(shown)));
        assert_eq!(answer.id(), first.id());
        assert_eq!(answer.header("retry-after").is_some(), matches!(shown, "running" | "queued"));
        assert_eq!(fixture.messages().len(), 1, "{state}");
    }
}

#[tokio::test]
async fn an_expired_entry_is_no_entry() {
    let fixture = Fixture::new();
    let first = fixture.send(&keyed()).await;
    fixture.change(first.id(), |entry| entry.state = State::Succeeded);
    fixture.wait(Duration::from_hours(31 * 24));
    let gone = fixture.send(&Event::request("GET", &format!("/jobs/{}", first.id()))).await;
    assert_eq!(gone.status, 404);
    let again = fixture.send(&Event::post(OTHER_BODY).key("order-42")).await;
    assert_eq!((again.status, again.id()), (202, first.id()));
    assert_eq!(fixture.messages().len(), 2);
}

#[tokio::test]
async fn a_keyed_job_is_not_sent_while_its_entry_is_in_doubt() {
    for fault in [WriteFault::Fails, WriteFault::LosesItsAnswer] {
        let fixture = Fixture::new();
        fixture.producer.table.put_faults.lock().unwrap().push_back(fault);
        assert_eq!(fixture.send(&keyed()).await.status, 503);
        assert_eq!(fixture.messages(), []);
        assert_eq!(fixture.send(&keyed()).await.status, 202);
        assert_eq!(fixture.messages().len(), 1);
    }
}

#[tokio::test]
async fn a_refused_write_that_tells_nothing_is_looked_into() {
    let fixture = Fixture::new();
    fixture.send(&keyed()).await;
    fixture.steps.take();
    let silent =
        || fixture.producer.table.put_faults.lock().unwrap().push_back(WriteFault::TellsNothing);
    silent();
    assert_eq!(fixture.send(&keyed()).await.status, 202);
    assert_eq!(fixture.steps.take(), ["put", "get", "send"]);

    // The other entry is gone again by the time it is read.
    silent();
    let other = Event::post(BODY).key("order-43");
    assert_eq!(fixture.send(&other).await.status, 202);
    assert_eq!(fixture.steps.take(), ["put", "get", "put", "send"]);

    silent();
    silent();
    assert_eq!(fixture.send(&Event::post(BODY).key("order-44")).await.status, 503);
    assert_eq!(fixture.steps.take(), ["put", "get", "put", "get"]);
}

#[tokio::test]
async fn without_a_key_only_the_message_decides() {
    let fixture = Fixture::new();
    fixture.producer.table.put_faults.lock().unwrap().push_back(WriteFault::Fails);
    let answer = fixture.send(&Event::post(BODY)).await;
    assert_eq!((answer.status, fixture.messages().len()), (202, 1));
    assert!(fixture.entry(answer.id()).is_none());

    *fixture.producer.queue.failures.lock().unwrap() = 1;
    let answer = fixture.send(&Event::post(BODY)).await;
    assert_eq!((answer.status, fixture.messages().len()), (503, 1));
}

#[tokio::test]
async fn a_key_is_its_principals_own() {
    let fixture = Fixture::new();
    let ann = fixture.send(&keyed().jwt("ann")).await;
    let bob = fixture.send(&Event::post(OTHER_BODY).key("order-42").jwt("bob")).await;
    assert_eq!((ann.status, bob.status), (202, 202));
    assert_ne!(ann.id(), bob.id());
    let one = fixture.send(&keyed().iam("AROAEXAMPLE:pod-1")).await;
    let two = fixture.send(&keyed().iam("AROAEXAMPLE:pod-2")).await;
    assert_eq!(one.id(), two.id());
    assert_ne!(one.id(), ann.id());
}

#[tokio::test]
async fn nobody_gets_in_without_a_name() {
    let fixture = Fixture::new();
    let event = keyed().with("/requestContext/authorizer", json!({"lambda": {"user": "ann"}}));
    let answer = fixture.send(&event).await;
    assert_eq!((answer.status, answer.problem()), (403, "caller-unknown"));
    assert_eq!(fixture.steps.take(), [""; 0]);
}

#[tokio::test]
async fn a_message_carries_what_travels_beside_its_body() {
    let fixture = Fixture::new();
    let body = BODY.replacen('{', r#"{"delay_seconds":900,"group":"tenant 1","#, 1);
    fixture.send(&Event::post(&body).jwt("ann")).await;
    fixture.send(&Event::post(BODY).without("/headers/x-amzn-trace-id")).await;
    let messages = fixture.messages();
    let ann = Principal::jwt("https://issuer.example", "ann");
    assert_eq!(messages[0].kind, "report");
    assert_eq!(messages[0].delay_seconds, 900);
    assert_eq!(messages[0].group_id, group_id(&ann, Some("tenant 1")));
    let trace = messages[0].trace.as_ref().map(producer::TraceHeader::as_str);
    assert_eq!(trace, Some("Root=1-65537c80-0a1b2c3d4e5f60718293a4b5"));
    assert_eq!(messages[1].delay_seconds, 0);
    assert_eq!(messages[1].group_id, group_id(&Principal::anonymous(), None));
    assert_eq!(messages[1].trace, None);
}

#[tokio::test]
async fn an_invocations_own_trace_comes_first() {
    let fixture = Fixture::new();
    let own = "Root=1-65537c80-0a1b2c3d4e5f60718293a4b5;Parent=53995c3f42cd8ad8;Sampled=1";
    fixture.producer.handle(&Event::post(BODY).raw(), Some(own)).await.unwrap();
    let forged = Event::post(BODY).header("x-amzn-trace-id", "Root=<script>");
    fixture.producer.handle(&forged.raw(), None).await.unwrap();
    let messages = fixture.messages();
    assert_eq!(messages[0].trace.as_ref().map(producer::TraceHeader::as_str), Some(own));
    assert_eq!(messages[1].trace, None);
}
