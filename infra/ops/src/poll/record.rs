//! A message as Lambda's poller puts it into an event.

use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use serde_json::{Map, Value, json};

/// The most bytes that Lambda takes as an event.
const EVENT_BYTES: usize = 6 * 1024 * 1024;

/// `{"Records":[]}` around the records.
const AROUND: usize = 14;

/// The event's record of a message from the queue with this ARN.
#[must_use]
pub fn record(message: &Message, queue_arn: &str, region: &str) -> Value {
    let attributes: Map<String, Value> = message
        .attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
        .collect();
    let message_attributes: Map<String, Value> = message
        .message_attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), attribute(value)))
        .collect();
    json!({
        "messageId": message.message_id(),
        "receiptHandle": message.receipt_handle(),
        "body": message.body(),
        "attributes": attributes,
        "messageAttributes": message_attributes,
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    })
}

fn attribute(value: &MessageAttributeValue) -> Value {
    let mut attribute = Map::from_iter([
        ("stringListValues".to_owned(), json!([])),
        ("binaryListValues".to_owned(), json!([])),
        ("dataType".to_owned(), json!(value.data_type())),
    ]);
    if let Some(text) = value.string_value() {
        attribute.insert("stringValue".to_owned(), json!(text));
    }
    if let Some(bytes) = value.binary_value() {
        let bytes = aws_smithy_types::base64::encode(bytes);
        attribute.insert("binaryValue".to_owned(), json!(bytes));
    }
    Value::Object(attribute)
}

/// Splits records into events that Lambda would take.
#[must_use]
pub fn events<T>(records: Vec<(T, Value)>) -> Vec<(Vec<T>, String)> {
    let mut events: Vec<(Vec<T>, String)> = Vec::new();
    for (message, record) in records {
        let record = record.to_string();
        match events.last_mut() {
            Some((messages, event)) if event.len() + record.len() + AROUND < EVENT_BYTES => {
                messages.push(message);
                event.push(',');
                event.push_str(&record);
            }
            _ => events.push((vec![message], record)),
        }
    }
    for (_, event) in &mut events {
        *event = format!(r#"{{"Records":[{event}]}}"#);
    }
    events
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::primitives::Blob;
    use aws_sdk_sqs::types::MessageSystemAttributeName as Name;

    use super::*;
    use crate::workspace::Workspace;

    const ARN: &str = "arn:aws:sqs:eu-west-1:123456789012:relevo-jobs";

    fn text(value: &str) -> MessageAttributeValue {
        let value = MessageAttributeValue::builder().data_type("String").string_value(value);
        value.build().unwrap()
    }

    /// The sample is what AWS sends.
    #[test]
    fn a_record_is_what_lambda_sends() {
        let sample = std::fs::read(Workspace::here().path("events/sqs-report.json")).unwrap();
        let sample: Value = serde_json::from_slice(&sample).unwrap();
        let sample = &sample["Records"][0];
        let of = |pointer: &str| sample.pointer(pointer).unwrap().as_str().unwrap();
        let message = Message::builder()
            .message_id(of("/messageId"))
            .receipt_handle(of("/receiptHandle"))
            .body(of("/body"))
            .md5_of_body(of("/md5OfBody"))
            .attributes(Name::ApproximateReceiveCount, of("/attributes/ApproximateReceiveCount"))
            .attributes(Name::SentTimestamp, of("/attributes/SentTimestamp"))
            .attributes(Name::SenderId, of("/attributes/SenderId"))
            .attributes(
                Name::ApproximateFirstReceiveTimestamp,
                of("/attributes/ApproximateFirstReceiveTimestamp"),
            )
            .message_attributes("kind", text(of("/messageAttributes/kind/stringValue")))
            .build();
        assert_eq!(record(&message, ARN, "eu-west-1"), *sample);
    }

    #[test]
    fn bytes_are_base64() {
        let bytes = MessageAttributeValue::builder().data_type("Binary");
        let bytes = bytes.binary_value(Blob::new([0, 255])).build().unwrap();
        let message = Message::builder().message_attributes("raw", bytes).build();
        let raw = &record(&message, ARN, "eu-west-1")["messageAttributes"]["raw"];
        assert_eq!(raw["binaryValue"], "AP8=");
        assert_eq!(raw.get("stringValue"), None);
    }

    #[test]
    fn an_event_is_no_larger_than_lambda_takes() {
        let records = (0..10).map(|number| (number, json!("x".repeat(1024 * 1024)))).collect();
        let events = events(records);
        assert_eq!(events.iter().map(|(messages, _)| messages.len()).collect::<Vec<_>>(), [5, 5]);
        for (messages, event) in events {
            assert!(event.len() <= EVENT_BYTES, "{}", event.len());
            let event: Value = serde_json::from_str(&event).unwrap();
            assert_eq!(event["Records"].as_array().unwrap().len(), messages.len());
        }
    }

    #[test]
    fn records_that_fit_are_one_event() {
        let records = vec![(1, json!({"a": 1})), (2, json!({"b": 2}))];
        assert_eq!(events(records), [(vec![1, 2], r#"{"Records":[{"a":1},{"b":2}]}"#.to_owned())]);
        assert_eq!(events::<()>(Vec::new()), []);
    }
}
