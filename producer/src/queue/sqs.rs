//! The queue in SQS, spoken to through the AWS SDK.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{BuildError, SdkError};
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::operation::send_message_batch::{SendMessageBatchError, SendMessageBatchOutput};
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry,
};
use aws_types::SdkConfig;
use shared::aws::CallError;
use shared::config::QueueUrl;

use super::{JobQueue, KIND_ATTRIBUTE, Outgoing, STRING_TYPE, SendError};
use crate::refusal::is_misconfiguration;

/// A standard SQS queue.
#[derive(Clone, Debug)]
pub struct SqsJobQueue {
    client: Client,
    url: String,
}

impl SqsJobQueue {
    /// The queue at `url`, reached as `config` says.
    #[must_use]
    pub fn new(config: &SdkConfig, url: &QueueUrl) -> Self {
        Self { client: Client::new(config), url: url.as_str().to_owned() }
    }

    /// Opens the connection, by a call that asks for none of the queue's attributes.
    pub async fn look_up(&self) {
        let _ = self.client.get_queue_attributes().queue_url(&self.url).send().await;
    }
}

impl JobQueue for SqsJobQueue {
    async fn send(&self, message: Outgoing) -> Result<(), SendError> {
        let answer = self
            .client
            .send_message()
            .queue_url(&self.url)
            .message_attributes(KIND_ATTRIBUTE, kind(&message).map_err(|error| sort(error.into()))?)
            .set_message_system_attributes(trace(&message).map_err(|error| sort(error.into()))?)
            .message_body(message.body)
            .message_group_id(message.group_id)
            .delay_seconds(message.delay_seconds.into())
            .send()
            .await
            .map_err(sort)?;
        answer.message_id().map(|_| ()).ok_or(SendError::Unacknowledged)
    }

    async fn send_together(
        &self,
        messages: &[&Outgoing],
    ) -> Result<Vec<Result<(), SendError>>, SendError> {
        let entries: Result<Vec<_>, BuildError> = messages
            .iter()
            .enumerate()
            .map(|(position, message)| entry(position, message))
            .collect();
        let answer = self
            .client
            .send_message_batch()
            .queue_url(&self.url)
            .set_entries(Some(entries.map_err(|error| sort_together(error.into()))?))
            .send()
            .await
            .map_err(sort_together)?;
        Ok(match_up(messages.len(), answer))
    }
}

/// The message as one entry of a call; its id is its position.
fn entry(position: usize, message: &Outgoing) -> Result<SendMessageBatchRequestEntry, BuildError> {
    SendMessageBatchRequestEntry::builder()
        .id(position.to_string())
        .message_body(&message.body)
        .message_attributes(KIND_ATTRIBUTE, kind(message)?)
        .set_message_system_attributes(trace(message)?)
        .message_group_id(&message.group_id)
        .delay_seconds(message.delay_seconds.into())
        .build()
}

fn kind(message: &Outgoing) -> Result<MessageAttributeValue, BuildError> {
    MessageAttributeValue::builder().data_type(STRING_TYPE).string_value(message.kind).build()
}

type SystemAttributes = HashMap<MessageSystemAttributeNameForSends, MessageSystemAttributeValue>;

fn trace(message: &Outgoing) -> Result<Option<SystemAttributes>, BuildError> {
    let Some(trace) = &message.trace else {
        return Ok(None);
    };
    let trace = MessageSystemAttributeValue::builder()
        .data_type(STRING_TYPE)
        .string_value(trace.as_str())
        .build()?;
    Ok(Some(HashMap::from([(MessageSystemAttributeNameForSends::AwsTraceHeader, trace)])))
}

/// What became of each of `count` messages. An answer's ids count only where
/// they are ids that were sent; a message in neither of the lists was not
/// acknowledged, and one in both was refused.
fn match_up(count: usize, answer: SendMessageBatchOutput) -> Vec<Result<(), SendError>> {
    let mut outcomes: Vec<_> = (0..count).map(|_| Err(SendError::Unacknowledged)).collect();
    let acknowledged = answer.successful.into_iter().map(|entry| {
        (
            entry.id,
            if entry.message_id.is_empty() { Err(SendError::Unacknowledged) } else { Ok(()) },
        )
    });
    let refused = answer.failed.into_iter().map(|entry| {
        let (code, message, is_lasting) = (entry.code, entry.message, entry.sender_fault);
        (entry.id, Err(SendError::Refused { code, message, is_lasting }))
    });
    for (id, outcome) in acknowledged.chain(refused) {
        let position = (0..count).find(|position| position.to_string() == id);
        if let Some(there) = position.and_then(|position| outcomes.get_mut(position)) {
            *there = outcome;
        } else {
            tracing::warn!(id, "the queue's answer names a message that was not sent");
        }
    }
    outcomes
}

/// Tells what a deployment must mend from what time may.
fn sort(error: SdkError<SendMessageError, HttpResponse>) -> SendError {
    use SendMessageError as Error;
    let lasting = matches!(
        error.as_service_error(),
        Some(
            Error::InvalidAddress(_)
                | Error::InvalidMessageContents(_)
                | Error::InvalidSecurity(_)
                | Error::KmsAccessDenied(_)
                | Error::KmsDisabled(_)
                | Error::KmsInvalidKeyUsage(_)
                | Error::KmsInvalidState(_)
                | Error::KmsNotFound(_)
                | Error::KmsOptInRequired(_)
                | Error::QueueDoesNotExist(_)
                | Error::UnsupportedOperation(_)
        )
    );
    sorted(lasting, CallError::new("SendMessage", error))
}

/// As [`sort`], for many messages.
fn sort_together(error: SdkError<SendMessageBatchError, HttpResponse>) -> SendError {
    use SendMessageBatchError as Error;
    let lasting = matches!(
        error.as_service_error(),
        Some(
            Error::BatchEntryIdsNotDistinct(_)
                | Error::BatchRequestTooLong(_)
                | Error::EmptyBatchRequest(_)
                | Error::InvalidAddress(_)
                | Error::InvalidBatchEntryId(_)
                | Error::InvalidSecurity(_)
                | Error::KmsAccessDenied(_)
                | Error::KmsDisabled(_)
                | Error::KmsInvalidKeyUsage(_)
                | Error::KmsInvalidState(_)
                | Error::KmsNotFound(_)
                | Error::KmsOptInRequired(_)
                | Error::QueueDoesNotExist(_)
                | Error::TooManyEntriesInBatchRequest(_)
                | Error::UnsupportedOperation(_)
        )
    );
    sorted(lasting, CallError::new("SendMessageBatch", error))
}

fn sorted(lasting: bool, call: CallError) -> SendError {
    if lasting || is_misconfiguration(&call) {
        SendError::Misconfigured(call)
    } else {
        SendError::Call(call)
    }
}
