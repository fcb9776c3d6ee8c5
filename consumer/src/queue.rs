//! What the consumer asks of SQS: a later redelivery, or the dead-letter queue.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
};
use aws_types::SdkConfig;
use shared::aws::CallError;
use shared::config::QueueUrl;

/// Controls over what SQS does with a record that failed.
///
/// # Errors
///
/// Both methods err if SQS did not confirm. The record must then be reported
/// as failed: SQS shows it again after the queue's visibility timeout.
pub trait RetryQueue: Send + Sync {
    /// Shows the record again after `visible_in`, whole seconds up to 12 h.
    fn change_visibility(
        &self,
        receipt_handle: &str,
        visible_in: Duration,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Puts a message into the dead-letter queue.
    fn dead_letter(
        &self,
        letter: &DeadLetter<'_>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// A message that nobody can run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter<'a> {
    /// The message, byte for byte.
    pub body: &'a str,
    /// What operators read and filter by; never empty texts.
    pub attributes: Vec<(&'static str, String)>,
    /// The fair-queue key of the message.
    pub group_id: Option<&'a str>,
    /// The X-Ray trace of the message.
    pub trace_header: Option<&'a str>,
}

/// The most that SQS takes, attributes included. A message of Relevo's own
/// producer is 8 KiB smaller, so that its attributes fit.
///
/// Source: Amazon SQS message quotas (1 MiB since August 2025).
const MAX_MESSAGE_BYTES: usize = 1_048_576;

impl DeadLetter<'_> {
    /// Whether the attributes fit beside the body. If not, they are left off
    /// rather than the message lost.
    fn attributes_fit(&self) -> bool {
        let attributes: usize = self
            .attributes
            .iter()
            .map(|(name, value)| name.len() + "String".len() + value.len())
            .sum();
        self.body.len() + attributes <= MAX_MESSAGE_BYTES
    }
}

/// The two queues, spoken to through the AWS SDK.
#[derive(Clone, Debug)]
pub struct SqsRetryQueue {
    client: Client,
    queue_url: QueueUrl,
    dead_letter_queue_url: QueueUrl,
}

impl SqsRetryQueue {
    /// The queues at these URLs, reached as `config` says.
    #[must_use]
    pub fn new(config: &SdkConfig, queue_url: QueueUrl, dead_letter_queue_url: QueueUrl) -> Self {
        Self { client: Client::new(config), queue_url, dead_letter_queue_url }
    }
}

impl RetryQueue for SqsRetryQueue {
    async fn change_visibility(
        &self,
        receipt_handle: &str,
        visible_in: Duration,
    ) -> Result<(), CallError> {
        let request = self
            .client
            .change_message_visibility()
            .queue_url(self.queue_url.as_str())
            .receipt_handle(receipt_handle)
            .visibility_timeout(i32::try_from(visible_in.as_secs()).unwrap_or(i32::MAX));
        // Boxed for the reason that the job table's calls are.
        let answer = Box::pin(request.send()).await;
        answer.map(|_| ()).map_err(|error| CallError::new("ChangeMessageVisibility", error))
    }

    async fn dead_letter(&self, letter: &DeadLetter<'_>) -> Result<(), CallError> {
        let mut request = self
            .client
            .send_message()
            .queue_url(self.dead_letter_queue_url.as_str())
            .message_body(letter.body)
            .set_message_group_id(letter.group_id.map(str::to_owned));
        if letter.attributes_fit() {
            request = request.set_message_attributes(Some(attributes(letter)));
        }
        if let Some(trace_header) = letter.trace_header {
            request = with_trace(request, trace_header);
        }
        let answer = Box::pin(request.send()).await;
        answer.map(|_| ()).map_err(|error| CallError::new("SendMessage", error))
    }
}

fn attributes(letter: &DeadLetter<'_>) -> HashMap<String, MessageAttributeValue> {
    letter
        .attributes
        .iter()
        .filter_map(|(name, value)| {
            let value = MessageAttributeValue::builder()
                .data_type("String")
                .string_value(value)
                .build()
                .ok()?;
            Some(((*name).to_owned(), value))
        })
        .collect()
}

fn with_trace(request: SendMessageFluentBuilder, header: &str) -> SendMessageFluentBuilder {
    let value =
        MessageSystemAttributeValue::builder().data_type("String").string_value(header).build();
    match value {
        Ok(value) => request
            .message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, value),
        Err(_) => request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_left_off_where_a_message_leaves_no_room() {
        let fits = |body_bytes: usize| {
            let body = "x".repeat(body_bytes);
            let attributes = vec![("reason", "undecodable".to_owned())];
            DeadLetter { body: &body, attributes, group_id: None, trace_header: None }
                .attributes_fit()
        };
        let attribute_bytes = "reason".len() + "String".len() + "undecodable".len();
        assert!(fits(MAX_MESSAGE_BYTES - attribute_bytes));
        assert!(!fits(MAX_MESSAGE_BYTES - attribute_bytes + 1));
    }
}
