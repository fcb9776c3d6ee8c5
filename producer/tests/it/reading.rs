//! What a client may see of a job.

use serde_json::json;
use shared::entry::State;

use crate::events::{BODY, Event, sample};
use crate::fakes::Fixture;

fn get(id: &str) -> Event {
    Event::request("GET", &format!("/jobs/{id}"))
}

#[tokio::test]
async fn a_job_can_be_followed_to_its_result() {
    let fixture = Fixture::new();
    let id = fixture.send(&Event::post(BODY)).await.id().to_owned();
    let queued = fixture.send(&get(&id)).await;
    assert_eq!(queued.status, 200);
    assert_eq!(
        queued.body,
        json!({
            "id": id,
            "kind": "report",
            "state": "queued",
            "attempt": 0,
            "created_at": "2023-11-14T22:13:20.123Z",
            "updated_at": "2023-11-14T22:13:20.123Z",
            "links": {"self": format!("/jobs/{id}")}
        })
    );
    assert_eq!(queued.header("retry-after"), Some("1"));
    assert_eq!(queued.header("cache-control"), Some("no-store"));

    fixture.change(&id, |entry| {
        entry.state = State::Succeeded;
        entry.attempt = 1;
        entry.result = Some(r#"{"total":{"sum":"1.50"}}"#.to_owned());
    });
    let done = fixture.send(&get(&id)).await;
    assert_eq!(done.body["state"], "succeeded");
    assert_eq!(done.body["result"], json!({"total": {"sum": "1.50"}}));
    assert_eq!(done.header("retry-after"), None);
}

#[tokio::test]
async fn links_can_be_followed() {
    let fixture = Fixture::new();
    for post in [
        Event::post(BODY),
        Event::post(BODY).at("POST", "/prod/jobs").with("/requestContext/stage", json!("prod")),
    ] {
        let link = fixture.send(&post).await.header("location").unwrap().to_owned();
        let found = fixture.send(&post.at("GET", &link)).await;
        assert_eq!((found.status, &found.body["links"]["self"]), (200, &json!(link)));
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let fixture = Fixture::new();
    for id in ["00000000-0000-0000-0000-000000000000", "nonsense", "a%20b", "1"] {
        let answer = fixture.send(&get(id)).await;
        assert_eq!((answer.status, answer.problem()), (404, "job-not-found"), "{id}");
    }
}

#[tokio::test]
async fn another_callers_job_is_not_found() {
    let fixture = Fixture::new();
    let id = fixture.send(&Event::post(BODY).jwt("ann")).await.id().to_owned();
    assert_eq!(fixture.send(&get(&id).jwt("ann")).await.status, 200);
    let missing = fixture.send(&get("00000000-0000-0000-0000-000000000000")).await;
    for other in [get(&id), get(&id).jwt("bob"), get(&id).iam("AROAEXAMPLE:ann")] {
        let answer = fixture.send(&other).await;
        assert_eq!((answer.status, answer.event), (404, missing.event.clone()));
    }
    let forged = get(&id).header("x-amzn-oidc-identity", "ann").header("authorization", "ann");
    assert_eq!(fixture.send(&forged).await.status, 404);
}

#[tokio::test]
async fn a_table_that_cannot_be_reached_is_said_to_be() {
    let fixture = Fixture::new();
    *fixture.producer.table.get_fails.lock().unwrap() = true;
    let answer = fixture.send(&sample!("http-get-job")).await;
    assert_eq!((answer.status, answer.problem()), (503, "unavailable"));
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert_eq!(fixture.send(&Event::request("GET", "/health")).await.status, 200);
}
