//! The stories of the kinds that reach the outside world.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use uuid::Uuid;

use super::PATIENCE;
use crate::api::Answer;
use crate::local::Local;

/// Attempts at a webhook whose receiver is busy for two of them.
const ATTEMPTS: usize = 3;

pub(super) async fn a_busy_receiver(local: &Local) -> Result<(String, Duration)> {
    let start = Instant::now();
    let id = accepted(local, &webhook(&local.receivers.url("/busy-twice")), None).await?;
    let job = local.stack.api.wait_for_job(&id, PATIENCE).await?;
    let took = start.elapsed();
    ensure!(job.text("/state") == "succeeded", "the job ended as {}", job.body);
    let requests = local.receivers.webhooks(&id);
    let statuses: Vec<_> = requests.iter().map(|request| &request["status"]).collect();
    ensure!(statuses == [&json!(503), &json!(503), &json!(200)], "it answered {statuses:?}");
    let verified = requests.iter().filter(|request| request["signature"] == "verified").count();
    ensure!(verified == ATTEMPTS, "{verified} of {ATTEMPTS} signatures were right");
    let told = "503, 503 (Retry-After: 1), 200: delivered once\n\
                one webhook-id, each signature verified by the receiver";
    Ok((told.to_owned(), took))
}

pub(super) async fn a_receiver_that_is_gone(local: &Local) -> Result<(String, Duration)> {
    let start = Instant::now();
    let id = accepted(local, &webhook(&local.receivers.url("/gone")), None).await?;
    let job = local.stack.api.wait_for_job(&id, PATIENCE).await?;
    let took = start.elapsed();
    ensure!(
        (job.text("/state"), job.text("/reason")) == ("failed", "permanent"),
        "the job ended as {}",
        job.body
    );
    let letter = local.stack.wait_for_letter_of(&id, PATIENCE).await?;
    let attributes = letter.message_attributes();
    let attribute = |name| attributes?.get(name)?.string_value();
    let error = attribute("error").unwrap_or_default().to_owned();
    ensure!(attribute("reason") == Some("permanent") && error.contains("410"), "{letter:?}");
    let requests = local.receivers.webhooks(&id).len();
    ensure!(requests == 1, "it was asked {requests} times");
    Ok((format!("asked once, then in the dead-letter queue:\n{error}"), took))
}

pub(super) async fn an_email_asked_for_twice(local: &Local) -> Result<(String, Duration)> {
    let start = Instant::now();
    let candidate = Uuid::new_v4().to_string();
    let to = format!("{candidate}@example.org");
    let request = json!({ "kind": "welcome-email", "payload": {
        "candidate_id": candidate, "to": to, "name": "Ada Lovelace", "language": "en",
    } });
    let id = accepted(local, &request, Some("of-one-service")).await?;
    let again = accepted(local, &request, Some("of-another-service")).await?;
    ensure!(again == id, "two ids for one candidate: {id} and {again}");
    let job = local.stack.api.wait_for_job(&id, PATIENCE).await?;
    let took = start.elapsed();
    ensure!(job.text("/state") == "succeeded", "the job ended as {}", job.body);
    local.stack.wait_until_queue_is_empty(PATIENCE).await?;
    let mails = local.receivers.mails(&to);
    ensure!(mails.len() == 1, "{} e-mails were sent", mails.len());
    let message_id = job.text("/result/message_id");
    let has_id =
        |mail: &Value| mail["message"].as_str().is_some_and(|text| text.contains(message_id));
    ensure!(mails.iter().all(has_id), "the e-mail has not the id {message_id}");
    Ok((format!("one job, one e-mail\nMessage-ID: {message_id}"), took))
}

fn webhook(url: &str) -> Value {
    let body = json!({ "type": "invoice.paid", "amount": "129.90" });
    json!({ "kind": "webhook", "payload": { "url": url, "body": body } })
}

async fn accepted(local: &Local, request: &Value, key: Option<&str>) -> Result<String> {
    let answer: Answer = local.stack.api.post_job(request.to_string(), key).await?;
    ensure!(answer.status == 202, "expected 202, got {} {}", answer.status, answer.body);
    Ok(answer.id()?.to_owned())
}
