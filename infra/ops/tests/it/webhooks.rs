//! Webhooks to a real receiver, which checks signatures with the library that
//! receivers use.

use ops::local::Local;
use ops::messages::{message, send_all};
use ops::stack::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, accepted, end_to_end, ended, new_id};

/// Numbers that no float holds.
const BODY: &str = r#"{"amount":10.10,"large":12345678901234567890.5}"#;

fn webhook(url: &str) -> Value {
    let body: Value = serde_json::from_str(BODY).unwrap();
    json!({ "kind": "webhook", "payload": { "url": url, "body": body } })
}

/// A webhook that must fail for good; how often its receiver was asked.
async fn check_refused(local: &Local, url: &str, reason: &str) -> usize {
    let id = accepted(&local.stack, &webhook(url), None).await;
    check_failed(local, &id, reason).await
}

async fn check_failed(local: &Local, id: &str, reason: &str) -> usize {
    let stack = &local.stack;
    let job = ended(stack, id).await;
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("permanent")), "{job}");
    assert_eq!(job["attempt"], 1);
    let letter = stack.wait_for_letter_of(id, PATIENCE).await.unwrap();
    let error = letter.message_attributes().unwrap()["error"].string_value().unwrap().to_owned();
    assert!(error.contains(reason), "{error}");
    local.receivers.webhooks(id).len()
}

#[test]
fn a_receiver_that_is_busy_twice_accepts_one_signed_delivery() {
    end_to_end(async |local| {
        let url = local.receivers.url("/busy-twice");
        // As text: serde_json's values would make floats of the numbers.
        let request = format!(r#"{{"kind":"webhook","payload":{{"url":"{url}","body":{BODY}}}}}"#);
        let answer = local.stack.api.post_job(request, None).await.unwrap();
        assert_eq!(answer.status, 202, "{}", answer.body);
        let id = answer.id().unwrap();
        let job = ended(&local.stack, id).await;
        assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(3)), "{job}");
        assert_eq!(job["result"]["status"], 200);
        assert_eq!(job["result"]["body"], "thank you");

        let requests = local.receivers.webhooks(id);
        let all = |pointer: &str| -> Vec<_> {
            requests.iter().map(|request| request.pointer(pointer).unwrap().clone()).collect()
        };
        assert_eq!(all("/status"), [503, 503, 200]);
        assert_eq!(all("/signature"), ["verified"; 3]);
        assert_eq!(all("/headers/x-job-attempt"), ["1", "2", "3"]);
        assert_eq!(all("/headers/idempotency-key"), [id; 3]);
        assert_eq!(all("/body"), [BODY; 3]);
    });
}

#[test]
fn a_receiver_that_is_gone_is_asked_once_and_the_message_is_a_dead_letter() {
    end_to_end(async |local| {
        let url = local.receivers.url("/gone");
        assert_eq!(check_refused(local, &url, "410 Gone").await, 1);
    });
}

#[test]
fn a_redirect_to_the_metadata_address_is_not_followed() {
    end_to_end(async |local| {
        let url = local.receivers.url("/redirects");
        assert_eq!(check_refused(local, &url, "redirects are not followed").await, 1);
    });
}

#[test]
fn what_leads_into_the_network_is_not_connected_to() {
    end_to_end(async |local| {
        let not_public = "the host's address is not a public one";
        // A name that resolves to 127.0.0.1, where somebody listens.
        let url = local.receivers.url_by_name("/accepts");
        assert_eq!(check_refused(local, &url, not_public).await, 0);
        for url in [
            "http://169.254.169.254/latest/meta-data/",
            "http://[::1]:9001/2018-06-01/runtime/invocation/next",
        ] {
            let request = webhook(url).to_string();
            let answer = local.stack.api.post_job(request.clone(), None).await.unwrap();
            assert_eq!(answer.status, 422, "{}", answer.body);
            assert_eq!(answer.body["errors"][0]["pointer"], "/payload/url", "{}", answer.body);
            // A message that was accepted under other rules.
            let id = new_id();
            send_all(&local.stack, &[message(&id, &request).unwrap()]).await.unwrap();
            assert_eq!(check_failed(local, &id, not_public).await, 0, "{url}");
        }
    });
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_not_trusted() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let url = local.receivers.url_without_trust("/accepts");
        let id = accepted(stack, &webhook(&url), None).await;
        let failed = eventually(PATIENCE, "an attempt has failed", async || {
            let entry = stack.entry(&id).await?.unwrap_or_default();
            Ok(entry.get("error").and_then(|error| error.as_s().ok().cloned()))
        });
        let error = failed.await.unwrap();
        assert!(error.contains("certificate"), "{error}");
        assert_eq!(local.receivers.webhooks(&id).len(), 0);
    });
}
