//! What jobs are sent through a stack to see that it works.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::messages::send_all;
use crate::stack::Stack;

/// A story takes a second; a busy machine several.
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that needs a permission: a job, one with a key, one that fails
/// first, one that is cancelled, and a message that is none.
pub(super) async fn every_story(stack: &Stack) -> Result<()> {
    let key = Uuid::new_v4().to_string();
    a_job_is_done(stack, None).await.context("a job")?;
    a_job_is_done(stack, Some(&key)).await.context("a job with a key")?;
    let retried = json!({ "kind": "probe", "payload": { "attempts": ["fail", "succeed"] } });
    is_done(stack, &retried, None).await.context("a job that fails first")?;
    let poison = format!("no job {key}");
    send_all(stack, std::slice::from_ref(&poison)).await?;
    stack.wait_for_dead_letter(&poison, PATIENCE).await?;
    let mut later = report();
    if let Some(fields) = later.as_object_mut() {
        fields.insert("delay_seconds".to_owned(), json!(900));
    }
    let id = accepted(stack, &later, None).await?;
    let cancelled = stack.api.cancel(&id).await?;
    ensure!(cancelled.status == 200, "cancelling: {} {}", cancelled.status, cancelled.body);
    Ok(())
}

pub(super) async fn a_job_is_done(stack: &Stack, key: Option<&str>) -> Result<String> {
    is_done(stack, &report(), key).await
}

async fn is_done(stack: &Stack, request: &Value, key: Option<&str>) -> Result<String> {
    let id = accepted(stack, request, key).await?;
    let job = stack.api.wait_for_job(&id, PATIENCE).await?;
    match job.text("/state") {
        "succeeded" => Ok(id),
        other => bail!("the job ended as {other}: {}", job.body),
    }
}

async fn accepted(stack: &Stack, request: &Value, key: Option<&str>) -> Result<String> {
    let answer = stack.api.post_job(request.to_string(), key).await?;
    ensure!(answer.status == 202, "{} {}", answer.status, answer.body);
    Ok(answer.id()?.to_owned())
}

fn report() -> Value {
    let rows = json!([{ "group": "a", "amount": "1" }]);
    json!({ "kind": "report", "payload": { "title": "Proof", "rows": rows } })
}
