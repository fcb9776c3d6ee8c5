//! What the consumer's log tells about a job.

use anyhow::Result;
use serde_json::Value;

use crate::stack::Stack;

/// How often a job's handler was started: the consumer logs each start.
///
/// # Errors
///
/// The log could not be read.
pub async fn executions(stack: &Stack, id: &str) -> Result<usize> {
    let lines = stack.logs.of_function(&stack.outputs.consumer, 0).await?;
    let starts = lines
        .iter()
        .filter_map(|line| line.about_job(id))
        .filter(|event| event.get("message").and_then(Value::as_str) == Some("job started"));
    Ok(starts.count())
}

/// What came of each record of a job, in the order of the log.
///
/// # Errors
///
/// The log could not be read.
pub async fn outcomes(stack: &Stack, id: &str) -> Result<Vec<String>> {
    let lines = stack.logs.of_function(&stack.outputs.consumer, 0).await?;
    let outcome = |event: Value| event.get("outcome")?.as_str().map(str::to_owned);
    Ok(lines.iter().filter_map(|line| line.about_job(id)).filter_map(outcome).collect())
}
