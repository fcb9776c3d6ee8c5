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

/// Asks for a webhook to `url` where these variables are set; what is wrong with
/// it, or nothing where it is accepted.
async fn refusal(variables: &[(&str, &str)], url: &str) -> Option<String> {
    let fixture = Fixture::configured(variables);
    let answer = fixture.send(&ask("webhook", &json!({ "url": url }))).await;
    if answer.status == 202 {
        assert_eq!(fixture.messages().len(), 1, "{url}");
        return None;
    }
    assert_eq!((answer.status, answer.problem()), (422, "invalid-job"), "{url}");
    assert_eq!(answer.body["error_count"], 1, "{url}: {}", answer.body);
    assert_eq!(answer.body["errors"][0]["pointer"], "/payload/url", "{url}");
    assert_eq!(fixture.steps.take(), [""; 0], "{url}");
    Some(answer.body["errors"][0]["detail"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_webhook_over_http_is_accepted_only_where_the_configuration_allows_it() {
    let url = "http://partner.example/in";
    for variables in [&[][..], &[("WEBHOOK_ALLOW_HTTP", "false")]] {
        let detail = refusal(variables, url).await.unwrap();
        assert!(detail.contains("only https is allowed"), "{detail}");
    }
    assert_eq!(refusal(&[("WEBHOOK_ALLOW_HTTP", "true")], url).await, None);
}

#[tokio::test]
async fn a_webhook_to_a_host_that_is_not_on_the_list_is_refused() {
    let listed = [("WEBHOOK_ALLOWED_HOSTS", "partner.example, 10.0.0.7")];
    for url in ["https://partner.example", "https://PARTNER.example.:8443", "https://10.0.0.7"] {
        assert_eq!(refusal(&listed, url).await, None, "{url}");
    }
    for url in ["https://evil.example", "https://x.partner.example", "https://10.0.0.8"] {
        let detail = refusal(&listed, url).await.unwrap();
        assert!(detail.contains("not on the list of allowed hosts"), "{url}: {detail}");
    }
    assert_eq!(refusal(&[], "https://evil.example").await, None);
    let and_others = [("WEBHOOK_ALLOWED_HOSTS", "partner.example,*")];
    assert_eq!(refusal(&and_others, "https://evil.example").await, None);
}

#[tokio::test]
async fn a_webhook_into_the_network_is_refused_however_the_address_is_written() {
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "127\u{ff0e}0\u{ff0e}0\u{ff0e}1",
        "[::ffff:127.0.0.1]",
    ] {
        let url = format!("https://{host}:9001/2018-06-01/runtime/invocation/next");
        let detail = refusal(&[], &url).await.unwrap();
        assert!(detail.contains("not a public one"), "{url}: {detail}");
        // Whoever lists an address knows where it is.
        assert_eq!(refusal(&[("WEBHOOK_ALLOWED_HOSTS", "127.0.0.1")], &url).await, None, "{url}");
    }
    for host in [
        "0",
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.168.0.1",
        "240.0.0.1",
        "[::]",
        "[::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fd00:ec2::254]",
        "[fe80::1]",
    ] {
        assert!(refusal(&[], &format!("https://{host}/")).await.is_some(), "{host}");
    }
    assert_eq!(refusal(&[], "https://1.1.1.1/").await, None);
}

#[tokio::test]
async fn of_a_batch_only_the_webhook_that_is_not_allowed_is_refused() {
    let fixture = Fixture::new();
    let jobs = ["https://partner.example", "http://partner.example"]
        .map(|url| json!({ "kind": "webhook", "payload": { "url": url } }));
    let answer = fixture
        .send(&Event::post(&json!({ "jobs": jobs }).to_string()).at("POST", "/jobs/batch"))
        .await;
    assert_eq!((answer.status, answer.statuses()), (207, vec![202, 422]));
    let error = answer.body.pointer("/jobs/1/problem/errors/0/pointer");
    assert_eq!(error, Some(&json!("/jobs/1/payload/url")));
    assert_eq!(fixture.messages().len(), 1);
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
