//! The document that describes the API is made from its types, and its
//! examples are what the sample events are really answered.

use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Value, json};
use shared::Ids;
use shared::entry::State;
use uuid::{Builder, Uuid};

use crate::events::{Event, sample};
use crate::fakes::{Answer, Fixture};

const COMMITTED: &str = include_str!("../../openapi.json");

fn committed() -> Value {
    serde_json::from_str(COMMITTED).unwrap()
}

/// Where it is not, the file is written anew: look at the difference, and
/// commit it.
#[tokio::test]
async fn the_committed_document_is_that_of_the_types() {
    let document = with_examples(producer::openapi::document()).await;
    if committed() != document {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let text = serde_json::to_string_pretty(&document).unwrap();
        std::fs::write(path, text + "\n").unwrap();
        panic!("producer/openapi.json was out of date and has been written anew: commit it");
    }
}

async fn with_examples(mut document: Value) -> Value {
    let mut fixture = Fixture::new();
    let count = AtomicU8::new(1);
    fixture.producer.ids = Ids::new(move |now| {
        let count = count.fetch_add(1, Ordering::Relaxed);
        Builder::from_unix_timestamp_millis(now.as_millis(), &[count; 10]).into_uuid()
    });
    let (keyed, batch) = (sample!("http-report-with-key"), sample!("http-batch"));
    put_example(&mut document["paths"]["/jobs"]["post"]["requestBody"], &body(&keyed));
    put_example(&mut document["paths"]["/jobs/batch"]["post"]["requestBody"], &body(&batch));

    let mut show = |path: &str, method: &str, answer: &Answer| {
        let described = &mut document["paths"][path][method]["responses"];
        put_example(&mut described[answer.status.to_string()], &answer.body);
    };
    let accepted = fixture.send(&keyed).await;
    show("/jobs", "post", &accepted);
    show("/jobs", "post", &fixture.send(&sample!("http-report-invalid-rows")).await);
    show("/jobs/batch", "post", &fixture.send(&batch).await);
    fixture.change(accepted.id(), |entry| {
        (entry.state, entry.attempt) = (State::Succeeded, 1);
        let result = r#"{"groups":[{"group":"north","count":2,"sum":"1125.25"}]}"#;
        entry.result = Some(result.to_owned());
    });
    show("/jobs/{id}", "get", &fixture.send(&sample!("http-get-job")).await);
    show("/jobs/{id}", "delete", &fixture.send(&sample!("http-cancel-job")).await);
    fixture.change(accepted.id(), |entry| {
        (entry.state, entry.attempt, entry.result) = (State::Queued, 0, None);
    });
    show("/jobs/{id}", "delete", &fixture.send(&sample!("http-cancel-job")).await);
    show("/health", "get", &fixture.send(&sample!("http-health")).await);
    document
}

/// The body of a sample event.
fn body(event: &Event) -> Value {
    serde_json::from_str(event.value()["body"].as_str().unwrap()).unwrap()
}

fn put_example(described: &mut Value, example: &Value) {
    let content = described["content"].as_object_mut().unwrap();
    for (_, media) in content {
        media["example"] = example.clone();
    }
}

#[tokio::test]
async fn the_document_is_served() {
    let fixture = Fixture::new();
    let answer = fixture.send(&Event::request("GET", "/openapi.json")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body == committed());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(fixture.steps.take(), [""; 0]);

    let staged = Event::request("GET", "/prod/openapi.json");
    let answer = fixture.send(&staged.with("/requestContext/stage", json!("prod"))).await;
    let mut expected = committed();
    expected["servers"][0]["url"] = json!("/prod");
    assert_eq!(answer.status, 200);
    assert!(answer.body == expected, "{}", answer.body["servers"]);
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                members.values().for_each(|member| check(document, member));
            }
            Value::Array(elements) => elements.iter().for_each(|element| check(document, element)),
            _ => {}
        }
    }
    let document = committed();
    check(&document, &document);
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["Batch"]["properties"]["jobs"]["maxItems"], 500);
    assert_eq!(schemas["Report"]["additionalProperties"], false);
    assert!(!COMMITTED.to_lowercase().contains("probe"));
}

#[tokio::test]
async fn every_route_is_described() {
    let document = committed();
    let paths = document["paths"].as_object().unwrap();
    let fixture = Fixture::new();
    for (path, operations) in paths {
        let path = path.replace("{id}", &Uuid::from_u128(7).to_string());
        let refused = fixture.send(&Event::request("TRACE", &path)).await;
        assert_eq!(refused.status, 405, "{path}");
        let allowed = refused.header("allow").unwrap().to_lowercase();
        // HEAD is answered like GET.
        let allowed: Vec<_> = allowed.split(", ").filter(|method| *method != "head").collect();
        let methods = ["get", "post", "delete"].into_iter();
        let described: Vec<_> = methods.filter(|method| operations.get(method).is_some()).collect();
        assert_eq!(allowed, described, "{path}");
    }
    assert_eq!(paths.len(), 5);
}
