//! The queue in SQS.

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
};
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
}

impl JobQueue for SqsJobQueue {
    async fn send(&self, message: Outgoing) -> Result<(), SendError> {
        let kind = MessageAttributeValue::builder()
            .data_type(STRING_TYPE)
            .string_value(message.kind)
            .build()
            .map_err(|error| sort(error.into()))?;
        let mut request = self
            .client
            .send_message()
            .queue_url(&self.url)
            .message_body(message.body)
            .message_attributes(KIND_ATTRIBUTE, kind)
            .message_group_id(message.group_id)
            .delay_seconds(message.delay_seconds.into());
        if let Some(trace) = message.trace {
            let trace = MessageSystemAttributeValue::builder()
                .data_type(STRING_TYPE)
                .string_value(trace.as_str())
                .build()
                .map_err(|error| sort(error.into()))?;
            request = request.message_system_attributes(
                MessageSystemAttributeNameForSends::AwsTraceHeader,
                trace,
            );
        }
        let answer = request.send().await.map_err(sort)?;
        answer.message_id().map(|_| ()).ok_or(SendError::Unacknowledged)
    }
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
    let call = CallError::new("SendMessage", error);
    if lasting || is_misconfiguration(&call) {
        SendError::Misconfigured(call)
    } else {
        SendError::Call(call)
    }
}
