//! What the producer lets in of the kinds that reach the outside world.

use serde_json::{Value, json};

use crate::events::{Event, sample};
use crate::fakes::Fixture;

fn ask(kind: &str, payload: &Value) -> Event {
    Event::post(&json!({ "kind": kind, "payload": payload }).to_string())
}

/// Sends a payload that must be refused, with these pointers into it.
async fn check(kind: &str, payload: Value, expected: &[&str]) {
    let fixture = Fixture::new();
    let answer = fixture.send(&ask(kind, &payload)).await;
    assert_eq!(answer.status, 422, "{payload}: {}", answer.body);
    let errors = answer.body["errors"].as_array().unwrap();
    let pointers: Vec<_> = errors
        .iter()
        .map(|error| error["pointer"].as_str().unwrap().strip_prefix("/payload").unwrap())
        .collect();
    assert_eq!(pointers, expected, "{payload}");
    assert_eq!(fixture.steps.take(), [""; 0], "{payload}");
}

#[tokio::test]
async fn the_samples_are_accepted() {
    let fixture = Fixture::new();
    for sample in [sample!("http-webhook"), sample!("http-welcome-email")] {
        assert_eq!(fixture.send(&sample).await.status, 202, "{sample:?}");
    }
}

#[tokio::test]
async fn what_the_consumers_samples_hold_is_what_the_producer_sends() {
    for (request, sent) in [
        (sample!("http-webhook"), sample!("sqs-webhook")),
        (sample!("http-welcome-email"), sample!("sqs-welcome-email")),
    ] {
        let fixture = Fixture::new();
        let id = fixture.send(&request).await.id().to_owned();
        let message = &fixture.decoded()[0];
        let body = sent.value().pointer("/Records/0/body").and_then(Value::as_str).unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["fingerprint"], message.fingerprint.as_str());
        if message.job.intent().is_some() {
            assert_eq!(body["id"], id);
        }
    }
}

#[tokio::test]
async fn a_webhooks_body_is_sent_on_digit_for_digit() {
    let fixture = Fixture::new();
    let body = r#"{ "amount" : 10.10, "large": 12345678901234567890.5 , "u":"\u00e9"}"#;
    let payload = format!(r#"{{"url":"https://partner.example","body":{body}}}"#);
    let event = Event::post(&format!(r#"{{"kind":"webhook","payload":{payload}}}"#));
    assert_eq!(fixture.send(&event).await.status, 202);
    assert!(fixture.messages()[0].body.contains(body));
}

#[tokio::test]
async fn a_webhook_cannot_carry_what_belongs_to_the_connection() {
    let refused: Value =
        serde_json::from_str(include_str!("../../../events/requests/webhook-refused-headers.json"))
            .unwrap();
    check("webhook", refused["payload"].clone(), &["/url", "/headers/Host", "/headers/X-Note"])
        .await;
    for name in [
        "Connection",
        "Keep-Alive",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Host",
        "Content-Length",
        "webhook-id",
        "Webhook-Signature",
        "Idempotency-Key",
    ] {
        let payload = json!({ "url": "https://partner.example", "headers": { name: "x" } });
        check("webhook", payload, &[&format!("/headers/{name}")]).await;
    }
}

#[tokio::test]
async fn a_webhook_goes_to_a_web_address() {
    for url in [
        "",
        "partner.example",
        "ftp://partner.example",
        "file:///etc/passwd",
        "https://user:secret@partner.example",
        "https://partner.example/\r\nX-Injected: a",
        &format!("https://partner.example/{}", "x".repeat(2_083)),
    ] {
        check("webhook", json!({ "url": url }), &["/url"]).await;
    }
}

#[tokio::test]
async fn an_email_has_one_plain_recipient() {
    let with = |field: &str, value: &str| {
        let mut payload = json!({
            "candidate_id": "c-1", "to": "ada@example.org", "name": "Ada", "language": "en",
        });
        payload[field] = json!(value);
        payload
    };
    for to in [
        "ada",
        "ada@example.org\r\nBcc: eve@example.org",
        "ada@example.org, eve@example.org",
        "Ada <ada@example.org>",
    ] {
        check("welcome-email", with("to", to), &["/to"]).await;
    }
    for name in ["", "Ada\r\nBcc: eve@example.org", "Ada\u{2028}"] {
        check("welcome-email", with("name", name), &["/name"]).await;
    }
    check("welcome-email", with("candidate_id", "c 1"), &["/candidate_id"]).await;
    check("welcome-email", with("language", "tlh"), &["/language"]).await;
}

#[tokio::test]
async fn a_candidate_is_welcomed_once_whoever_asks() {
    let fixture = Fixture::new();
    let ask = |to: &str| {
        ask(
            "welcome-email",
            &json!({
                "candidate_id": "c-1", "to": to, "name": "Ada", "language": "en",
            }),
        )
    };
    let first = fixture.send(&ask("ada@example.org").jwt("ann").key("one")).await;
    assert_eq!(first.status, 202);
    for again in [
        ask("ada@example.org").jwt("ann").key("two"),
        ask("countess@example.org").jwt("bob").key("three"),
        ask("ada@example.org").jwt("bob"),
    ] {
        let answer = fixture.send(&again).await;
        assert_eq!((answer.status, answer.id()), (202, first.id()), "{again:?}");
    }
}
