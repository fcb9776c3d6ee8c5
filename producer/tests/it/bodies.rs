//! What a body must be.

use serde_json::json;

use crate::events::{BODY, Event};
use crate::fakes::Fixture;

/// The samples' payload with a text in place of its title.
fn titled(title: &str) -> String {
    format!(
        r#"{{"kind":"report","payload":{{"title":{title},"rows":[{{"group":"a","amount":"1"}}]}}}}"#
    )
}

async fn check(event: Event, status: u64, problem: &str) -> String {
    let fixture = Fixture::new();
    let answer = fixture.send(&event).await;
    assert_eq!((answer.status, answer.problem()), (status, problem), "{event:?} {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.body["status"], status);
    assert_eq!(fixture.steps.take(), [""; 0]);
    answer.body["detail"].as_str().unwrap().to_owned()
}

/// The standard alphabet with padding, as gateways encode.
fn base64(text: &str) -> serde_json::Value {
    json!(aws_smithy_types::base64::encode(text))
}

#[tokio::test]
async fn the_gateways_encoding_does_not_matter() {
    let fixture = Fixture::new();
    let encoded =
        Event::post(BODY).with("/body", base64(BODY)).with("/isBase64Encoded", json!(true));
    for event in [
        Event::post(BODY),
        encoded.clone(),
        encoded.without("/headers/content-type"),
        Event::post(BODY).without("/headers/content-type"),
        Event::post(BODY).header("content-type", ""),
        Event::post(BODY).header("content-type", "application/vnd.relevo+json;v=1"),
        Event::post(&format!("\u{feff}{BODY}")),
        Event::post(&format!(" \r\n\t{BODY}\n")),
    ] {
        let answer = fixture.send(&event).await;
        assert_eq!(answer.status, 202, "{event:?} {answer:?}");
    }
    let jobs: Vec<_> = fixture.decoded().into_iter().map(|m| (m.job, m.fingerprint)).collect();
    assert_eq!(jobs.len(), 8);
    assert!(jobs.windows(2).all(|pair| pair[0] == pair[1]), "{jobs:?}");
}

#[tokio::test]
async fn a_missing_body_is_called_missing() {
    let post = Event::post(BODY);
    for event in [
        post.clone().without("/body"),
        post.clone().with("/body", json!(null)),
        post.clone().with("/body", json!("")),
        post.clone().with("/body", json!(" \n\t ")),
        post.clone().with("/body", json!("")).with("/isBase64Encoded", json!(true)),
        post.with("/body", json!("\u{feff}")),
    ] {
        let detail = check(event, 400, "body-missing").await;
        assert!(detail.contains("missing"), "{detail}");
    }
}

#[tokio::test]
async fn other_content_types_are_refused() {
    for content_type in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        let event = Event::post(BODY)
            .with("/body", base64(BODY))
            .with("/isBase64Encoded", json!(true))
            .header("content-type", content_type);
        let detail = check(event, 415, "unsupported-media-type").await;
        assert!(detail.contains("application/json"), "{detail}");
    }
}

#[tokio::test]
async fn what_is_not_json_is_malformed() {
    for body in [
        BODY[..BODY.len() - 7].to_owned(),
        format!("{BODY}{BODY}"),
        format!("[{BODY}]"),
        "\"just a string\"".to_owned(),
        "null".to_owned(),
        titled(r#""\ud83d""#),
        titled("\"raw \u{1} control\""),
        titled("1e999"),
        BODY.replace("\"kind\"", "\"kind\":\"report\",\"kind\""),
        BODY.replace("\"title\"", "\"title\":\"x\",\"title\""),
        "{\"kind\":".to_owned(),
        "not json".to_owned(),
    ] {
        let detail = check(Event::post(&body), 400, "malformed").await;
        assert!(!detail.is_empty());
    }
    let not_utf8 =
        Event::post("").with("/body", json!("/w==")).with("/isBase64Encoded", json!(true));
    check(not_utf8, 400, "malformed").await;
}

#[tokio::test]
async fn what_the_queue_refuses_is_refused_at_the_door() {
    for character in ['\u{fffe}', '\u{ffff}'] {
        check(Event::post(&titled(&format!("\"a{character}\""))), 422, "invalid-job").await;
    }
    let fixture = Fixture::new();
    for title in [r#""\ufffe""#, "\"\u{1ffff} \u{7f} \u{fffd} \u{85}\"", r#""\u0000""#] {
        assert_eq!(fixture.send(&Event::post(&titled(title))).await.status, 202, "{title}");
    }
    assert_eq!(fixture.decoded().len(), 3);
}

#[tokio::test]
async fn endless_nesting_is_refused() {
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for levels in [65, 100, 200, 100_000] {
        check(Event::post(&titled(&nested(levels))), 422, "invalid-job").await;
    }
}

#[tokio::test]
async fn invalid_fields_are_pointed_at_all_at_once() {
    let fixture = Fixture::new();
    let rows = vec![r#"{"group":"a","amount":"x"}"#; 150].join(",");
    let body = format!(
        r#"{{"kind":"report","payload":{{"title":"t","rows":[{rows}]}},"delay_seconds":901}}"#
    );
    let answer = fixture.send(&Event::post(&body)).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.body["error_count"], 151);
    let errors = answer.body["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 100);
    assert_eq!(errors[0]["pointer"], "/delay_seconds");
    assert_eq!(errors[1]["pointer"], "/payload/rows/0/amount");
}

#[tokio::test]
async fn an_answer_stays_small_whatever_it_quotes() {
    let fixture = Fixture::new();
    let long = "k".repeat(900_000);
    for body in [
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"kind":"{long}","payload":{{}}}}"#),
        format!(r#"{{"kind":"report","payload":{{"{long}":1}}}}"#),
        format!(r#"{{"{long}":1,"{long}":1}}"#),
    ] {
        let answer = fixture.send(&Event::post(&body)).await;
        assert!((400..500).contains(&answer.status));
        assert!(answer.event.to_string().len() < 2_000, "{}", answer.event);
    }
}

#[tokio::test]
async fn a_header_that_http_does_not_allow_is_the_clients_fault() {
    for post in [Event::post, Event::rest_post, Event::alb_post] {
        for (name, value) in [("x-odd", "a\u{1}b"), ("x-odd", "a\nb"), ("x odd", "a")] {
            check(post(BODY).header(name, value), 400, "malformed").await;
        }
    }
    check(Event::request("G T", "/jobs"), 400, "malformed").await;
}

#[tokio::test]
async fn a_body_that_is_encoded_is_not_guessed_at() {
    for encoding in ["gzip", "br", "identity, gzip"] {
        let event = Event::post(BODY).header("content-encoding", encoding);
        check(event, 415, "unsupported-media-type").await;
    }
    let plain = Event::post(BODY).header("content-encoding", "identity");
    assert_eq!(Fixture::new().send(&plain).await.status, 202);
}

#[tokio::test]
async fn an_array_is_no_object() {
    for body in [
        r#"{"kind":"report","payload":["t",[{"group":"a","amount":"1"}]]}"#,
        r#"{"kind":"report","payload":{"title":"t","rows":[["a","1"]]}}"#,
        r#"{"kind":"report","payload":{"title":"t","rows":[null]}}"#,
    ] {
        let answer = Fixture::new().send(&Event::post(body)).await;
        assert_eq!((answer.status, answer.problem()), (422, "invalid-job"), "{body}");
        assert_eq!(answer.body["errors"][0]["detail"], "must be an object");
    }
}

#[tokio::test]
async fn null_is_not_the_same_as_nothing() {
    for field in ["delay_seconds", "group", "payload", "kind"] {
        let mut body: serde_json::Value = serde_json::from_str(BODY).unwrap();
        body[field] = json!(null);
        check(Event::post(&body.to_string()), 422, "invalid-job").await;
    }
    let job = r#"{"kind":"report","idempotency_key":null,"payload":{"title":"t","rows":[{"group":"a","amount":"1"}]}}"#;
    let batch = Event::post(&format!("{{\"jobs\":[{job}]}}")).at("POST", "/jobs/batch");
    let answer = Fixture::new().send(&batch).await;
    assert_eq!(answer.body["jobs"][0]["status"], 422, "{answer:?}");
    let pointer = &answer.body["jobs"][0]["problem"]["errors"][0]["pointer"];
    assert_eq!(pointer, "/jobs/0/idempotency_key");
}
