//! A dead letter, as SQS hands it out.

use anyhow::{Context, Result};
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    Message as Received, MessageAttributeValue, MessageSystemAttributeName as System,
};
use aws_smithy_types::base64;
use shared::Timestamp;

use super::line::{Attribute, Content};

/// What the consumer writes on a dead letter beside its kind. A message that
/// SQS itself moved has the attributes it was sent with, and none of these.
const WRITTEN_ON_IT: [&str; 6] =
    ["reason", "error", "receive_count", "failed_at", "job_id", "source_message_id"];

/// A message of the dead-letter queue.
#[derive(Clone, Debug)]
pub struct Letter {
    /// SQS's name for it.
    pub message_id: String,
    /// Names this receive of it.
    pub receipt: String,
    /// What it is made of.
    pub content: Content,
    /// When it was sent: by the consumer when it gave up, or at the very
    /// beginning where SQS moved it. SQS's retention counts from here.
    pub sent_at: Timestamp,
}

impl Letter {
    /// What SQS answered.
    ///
    /// # Errors
    ///
    /// It lacks what SQS always tells.
    pub fn new(received: Received) -> Result<Self> {
        let system = |name: &System| received.attributes.as_ref()?.get(name).cloned();
        let sent_at = system(&System::SentTimestamp).and_then(|millis| millis.parse().ok());
        let (group_id, trace_header) =
            (system(&System::MessageGroupId), system(&System::AwsTraceHeader));
        let attributes = received.message_attributes.unwrap_or_default();
        let attributes = attributes.into_iter().map(|(name, value)| (name, read(&value)));
        Ok(Self {
            message_id: received.message_id.context("SQS did not name a message")?,
            receipt: received.receipt_handle.context("SQS gave no receipt handle")?,
            content: Content {
                body: received.body.unwrap_or_default(),
                attributes: attributes.collect(),
                group_id,
                trace_header,
            },
            sent_at: Timestamp::from_millis(sent_at.unwrap_or_default()),
        })
    }

    /// What an attribute says.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.content.attributes.get(name).map(|attribute| attribute.value.as_str())
    }

    /// Whether the consumer gave the message up, and not SQS.
    #[must_use]
    pub fn is_from_consumer(&self) -> bool {
        self.attribute("reason").is_some() && self.attribute("failed_at").is_some()
    }

    /// The message as it was before it became a dead letter.
    #[must_use]
    pub fn message(&self) -> Content {
        let mut content = self.content.clone();
        if self.is_from_consumer() {
            content.attributes.retain(|name, _| !WRITTEN_ON_IT.contains(&name.as_str()));
        }
        content
    }
}

fn read(value: &MessageAttributeValue) -> Attribute {
    let data_type = value.data_type().to_owned();
    let value = match (value.string_value(), value.binary_value()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(bytes)) => base64::encode(bytes),
        (None, None) => String::new(),
    };
    Attribute { data_type, value }
}

/// An attribute as SQS takes it.
///
/// # Errors
///
/// It says to be Base64 and is not.
pub fn write(attribute: &Attribute) -> Result<MessageAttributeValue> {
    let value = MessageAttributeValue::builder().data_type(&attribute.data_type);
    let value = if attribute.is_binary() {
        let bytes = base64::decode(&attribute.value).context("an attribute is not Base64")?;
        value.binary_value(Blob::new(bytes))
    } else {
        value.string_value(&attribute.value)
    };
    value.build().context("could not make an attribute")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(attributes: &[(&str, &str)]) -> Letter {
        let mut received = Received::builder().message_id("m").receipt_handle("r").body("b");
        received = received
            .attributes(System::SentTimestamp, "1700000000123")
            .attributes(System::MessageGroupId, "g")
            .attributes(System::AwsTraceHeader, "t");
        for (name, value) in attributes {
            let value = MessageAttributeValue::builder().data_type("String").string_value(*value);
            received = received.message_attributes(*name, value.build().unwrap());
        }
        Letter::new(received.build()).unwrap()
    }

    #[test]
    fn what_the_consumer_wrote_on_a_letter_is_not_sent_back() {
        let written = [
            ("reason", "permanent"),
            ("error", "no"),
            ("receive_count", "1"),
            ("failed_at", "2026-11-30T00:00:00.000Z"),
            ("job_id", "j"),
            ("kind", "report"),
            ("source_message_id", "s"),
        ];
        let message = letter(&written).message();
        let names: Vec<_> = message.attributes.keys().collect();
        assert_eq!(names, ["kind"]);
        assert_eq!((message.body.as_str(), message.group_id.as_deref()), ("b", Some("g")));
        assert_eq!(message.trace_header.as_deref(), Some("t"));
    }

    #[test]
    fn a_message_that_sqs_moved_is_sent_back_as_it_is() {
        // Whoever sent it may have attributes of the same names.
        let letter = letter(&[("error", "none"), ("kind", "report")]);
        assert_eq!(letter.message(), letter.content);
    }

    #[test]
    fn attributes_keep_their_types() {
        for (data_type, value) in [("Number.int", "1"), ("Binary", "AAH/"), ("String", "x")] {
            let attribute = Attribute { data_type: data_type.to_owned(), value: value.to_owned() };
            assert_eq!(read(&write(&attribute).unwrap()), attribute);
        }
    }
}
