//! SQS as the SDK reaches it, and where the emulator is not like it.

use std::collections::BTreeMap;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use ops::connection::Connection;
use serde_json::json;
use shared::fake_sqs::{Queue, QueueSettings, ReceiptError};

/// What an emulator does otherwise than AWS says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exception {
    /// It answers `ReceiptHandleIsInvalid` for another receipt than the latest,
    /// where the request should succeed without deleting anything.
    ///
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html>
    RefusesToDeleteNothing,
    /// It hides a message that is not in flight, where it should answer
    /// `MessageNotInflight`.
    ///
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html>
    ChangesWhatIsVisible,
    /// It hides a message for longer than twelve hours after its receive.
    ///
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
    KnowsNoLimit,
}

/// Of ministack.
pub(crate) const MINISTACK: [Exception; 3] =
    [Exception::RefusesToDeleteNothing, Exception::ChangesWhatIsVisible, Exception::KnowsNoLimit];

/// The answers of AWS that mean `expected`; none is no error.
pub(crate) const fn codes(expected: Result<(), ReceiptError>) -> &'static [Option<&'static str>] {
    match expected {
        Ok(()) => &[None],
        Err(ReceiptError::Stale) => {
            &[Some("ReceiptHandleIsInvalid"), Some("InvalidParameterValue")]
        }
        Err(ReceiptError::NotInFlight) => &[Some("MessageNotInflight")],
        Err(ReceiptError::TooLong) => &[Some("InvalidParameterValue")],
    }
}

/// The addresses of a queue and of its dead-letter queue.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) source: String,
    dead_letters: String,
}

impl Queues {
    pub(crate) fn url(&self, queue: Queue) -> &str {
        match queue {
            Queue::Source => &self.source,
            Queue::DeadLetters => &self.dead_letters,
        }
    }
}

/// A message as the engine returns it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) id: String,
    pub(crate) receipt: String,
    pub(crate) receives: u32,
}

/// What is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    client: aws_sdk_sqs::Client,
    pub(crate) exceptions: &'static [Exception],
}

impl Engine {
    pub(crate) fn new(endpoint: &str, exceptions: &'static [Exception]) -> Self {
        Self { client: Connection::emulator(endpoint).sqs(), exceptions }
    }

    pub(crate) async fn create(&self, name: &str, settings: QueueSettings) -> Queues {
        let timeout = settings.visibility_timeout.as_secs().to_string();
        let create = |name: String| {
            let create = self.client.create_queue().queue_name(name);
            create.attributes(QueueAttributeName::VisibilityTimeout, timeout.clone())
        };
        let dead_letters = create(format!("dead-letters-{name}")).send().await.unwrap();
        let dead_letters = dead_letters.queue_url.unwrap();
        let arn = self.attribute(&dead_letters, QueueAttributeName::QueueArn).await;
        let redrive = json!({
            "deadLetterTargetArn": arn,
            "maxReceiveCount": settings.max_receive_count,
        });
        let source = create(format!("source-{name}"))
            .attributes(QueueAttributeName::RedrivePolicy, redrive.to_string())
            .send()
            .await
            .unwrap();
        Queues { source: source.queue_url.unwrap(), dead_letters }
    }

    /// The new message's id.
    pub(crate) async fn send(&self, url: &str, body: &str, delay: u32) -> String {
        let send = self.client.send_message().queue_url(url).message_body(body);
        let delay = i32::try_from(delay).unwrap();
        send.delay_seconds(delay).send().await.unwrap().message_id.unwrap()
    }

    /// The messages by their bodies.
    pub(crate) async fn receive(&self, url: &str, max: usize) -> BTreeMap<String, Received> {
        let count = MessageSystemAttributeName::ApproximateReceiveCount;
        let call = self.client.receive_message().queue_url(url);
        let call = call.max_number_of_messages(i32::try_from(max).unwrap());
        let answer = call.message_system_attribute_names(count.clone()).send().await.unwrap();
        let messages = answer.messages.unwrap_or_default().into_iter();
        messages
            .map(|message| {
                let receives = message.attributes.unwrap()[&count].parse().unwrap();
                let (id, receipt) = (message.message_id.unwrap(), message.receipt_handle.unwrap());
                (message.body.unwrap(), Received { id, receipt, receives })
            })
            .collect()
    }

    /// The error's code, if it is refused.
    pub(crate) async fn change_visibility(
        &self,
        url: &str,
        receipt: &str,
        seconds: u32,
    ) -> Option<String> {
        let change = self.client.change_message_visibility().queue_url(url).receipt_handle(receipt);
        let seconds = i32::try_from(seconds).unwrap();
        change.visibility_timeout(seconds).send().await.err().map(|error| code(&error))
    }

    /// The error's code, if it is refused.
    pub(crate) async fn delete(&self, url: &str, receipt: &str) -> Option<String> {
        let delete = self.client.delete_message().queue_url(url).receipt_handle(receipt);
        delete.send().await.err().map(|error| code(&error))
    }

    /// How many messages are visible, and how many are not.
    pub(crate) async fn count(&self, url: &str) -> (usize, usize) {
        let attributes = self.attributes(url, QueueAttributeName::All).await;
        let number = |name: &QueueAttributeName| attributes[name].parse::<usize>().unwrap();
        let in_flight = number(&QueueAttributeName::ApproximateNumberOfMessagesNotVisible);
        let delayed = number(&QueueAttributeName::ApproximateNumberOfMessagesDelayed);
        (number(&QueueAttributeName::ApproximateNumberOfMessages), in_flight + delayed)
    }

    async fn attribute(&self, url: &str, name: QueueAttributeName) -> String {
        self.attributes(url, name.clone()).await[&name].clone()
    }

    async fn attributes(
        &self,
        url: &str,
        name: QueueAttributeName,
    ) -> std::collections::HashMap<QueueAttributeName, String> {
        let get = self.client.get_queue_attributes().queue_url(url).attribute_names(name);
        get.send().await.unwrap().attributes.unwrap()
    }
}

/// As the API reference writes it, without the name space of the older protocol.
fn code<E: ProvideErrorMetadata + std::fmt::Debug>(error: &SdkError<E>) -> String {
    let code = error.code().unwrap_or_else(|| panic!("{error:?}"));
    code.rsplit('.').next().unwrap().to_owned()
}
