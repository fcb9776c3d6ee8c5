//! What can be seen of the jobs from outside: in the table, in the dead-letter
//! queue, and by asking for them.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};

use super::LOOK_AGAIN;
use super::proxy::job_id;
use crate::messages::MOST_RECEIVED;
use crate::stack::Stack;

/// Requests at the same time.
const AT_ONCE: usize = 6;

/// Requests for one job: a killed producer may owe the first answer.
const ATTEMPTS: usize = 5;

/// The state of each entry in the table.
pub(super) async fn entries(stack: &Stack) -> Result<HashMap<String, String>> {
    let scan = stack.dynamodb.scan().table_name(&stack.outputs.table_name);
    let mut pages = scan.into_paginator().items().send();
    let mut entries = HashMap::new();
    while let Some(item) = pages.next().await {
        let item = item.context("could not read the table")?;
        let text = |name: &str| Some(item.get(name)?.as_s().ok()?.to_owned());
        if let (Some(id), Some(state)) = (text("job_id"), text("state")) {
            entries.insert(id, state);
        }
    }
    Ok(entries)
}

/// Takes all letters out of the dead-letter queue.
pub(super) async fn letters(stack: &Stack) -> Result<HashMap<String, Vec<String>>> {
    let url = &stack.outputs.dead_letter_queue_url;
    let mut letters: HashMap<String, Vec<String>> = HashMap::new();
    loop {
        let received =
            stack.sqs.receive_message().queue_url(url).max_number_of_messages(MOST_RECEIVED);
        let received = received.send().await.context("could not read the dead-letter queue")?;
        if received.messages().is_empty() {
            return Ok(letters);
        }
        for message in received.messages() {
            let body = message.body().unwrap_or_default().to_owned();
            letters.entry(job_id(&body)).or_default().push(body);
            let handle = message.receipt_handle().unwrap_or_default();
            let delete = stack.sqs.delete_message().queue_url(url).receipt_handle(handle);
            delete.send().await.context("could not delete a dead letter")?;
        }
    }
}

/// The states of jobs as clients see them.
pub(super) async fn states(stack: &Stack, ids: Vec<String>) -> Result<HashMap<String, String>> {
    let state = async |id: String| {
        for _ in 0..ATTEMPTS {
            let answer = stack.api.job(&id).await?;
            match answer.status {
                200 => return Ok((id, answer.text("/state").to_owned())),
                404 => return Ok((id, "not found".to_owned())),
                _ => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
        bail!("GET /jobs/{id} has no answer")
    };
    stream::iter(ids).map(state).buffer_unordered(AT_ONCE).try_collect().await
}
