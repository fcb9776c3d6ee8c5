//! Messages as the producer writes them, for whoever sends some by hand, and what
//! SQS takes in one call.

use anyhow::{Context, Result, ensure};
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    SendMessageBatchRequestEntry,
};
use serde_json::{Map, Value, json};

use crate::stack::Stack;

/// The most messages that SQS sends, hides or deletes in one call.
///
/// Source: Amazon SQS API reference, `SendMessageBatch` and its kin.
pub const MOST_ENTRIES: usize = 10;

/// The most messages that SQS gives in one call.
///
/// Source: Amazon SQS API reference, `ReceiveMessage`.
pub const MOST_RECEIVED: i32 = 10;

/// What hides messages for some seconds by their receipts, or shows them at once. Each
/// has its position as its id.
///
/// # Errors
///
/// The request cannot be made.
pub(crate) fn to_hide<'a>(
    receipts: impl Iterator<Item = &'a str>,
    seconds: i32,
) -> Result<Vec<ChangeMessageVisibilityBatchRequestEntry>> {
    let entry = |(position, receipt): (usize, _)| {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(position.to_string())
            .receipt_handle(receipt)
            .visibility_timeout(seconds)
            .build()
            .context("could not make the request")
    };
    receipts.enumerate().map(entry).collect()
}

/// What deletes messages by their receipts. Each has its position as its id.
///
/// # Errors
///
/// The request cannot be made.
pub(crate) fn to_delete<'a>(
    receipts: impl Iterator<Item = &'a str>,
) -> Result<Vec<DeleteMessageBatchRequestEntry>> {
    let entry = |(position, receipt): (usize, _)| {
        DeleteMessageBatchRequestEntry::builder()
            .id(position.to_string())
            .receipt_handle(receipt)
            .build()
            .context("could not make the request")
    };
    receipts.enumerate().map(entry).collect()
}

/// The message that makes a job of this request, under an id of its own.
///
/// # Errors
///
/// The request is no JSON object.
pub fn message(id: &str, request: &str) -> Result<String> {
    let mut message: Map<String, Value> =
        serde_json::from_str(request).context("the request is no JSON object")?;
    message.insert("v".to_owned(), json!(1));
    message.insert("id".to_owned(), json!(id));
    Ok(Value::Object(message).to_string())
}

/// Puts bodies on the queue, by tens.
///
/// # Errors
///
/// One of them was refused, or the queue did not answer.
pub async fn send_all(stack: &Stack, bodies: &[String]) -> Result<()> {
    for ten in bodies.chunks(MOST_ENTRIES) {
        let mut batch = stack.sqs.send_message_batch().queue_url(&stack.outputs.queue_url);
        for (position, body) in ten.iter().enumerate() {
            let entry = SendMessageBatchRequestEntry::builder()
                .id(position.to_string())
                .message_body(body)
                .build()
                .context("could not make the message")?;
            batch = batch.entries(entry);
        }
        let sent = batch.send().await.context("could not send to the queue")?;
        ensure!(sent.failed().is_empty(), "the queue refused a message: {:?}", sent.failed());
    }
    Ok(())
}
