//! Reads the records of an SQS event.
//!
//! Only what is used is read. What is odd about one record costs the others
//! nothing: a field of the wrong type counts as left out, and if a record cannot
//! be read at all, each is read by itself.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use shared::Timestamp;
use shared::config::is_fifo;
use shared::raw::text;

/// One record of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// SQS's id of the message, by which a failure is reported.
    pub message_id: Option<String>,
    /// Names this receive of the message when its visibility is changed.
    pub receipt_handle: Option<String>,
    /// The message, if the record has a text there.
    pub body: Option<String>,
    /// How often SQS has delivered this copy, from 1. SQS calls it
    /// approximate; what is no number counts as 1.
    pub receive_count: u32,
    /// When the message was sent. One that a person sent again, from whatever
    /// tool, is another message, sent then.
    pub sent_at: Option<Timestamp>,
    /// The fair-queue key, to be carried along to the dead-letter queue.
    pub group_id: Option<String>,
    /// The X-Ray trace that the message belongs to.
    pub trace_header: Option<String>,
}

/// Why an event has no records that can be taken. Nothing was done, so the
/// whole batch must come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Some other event: an HTTP request, a schedule, a `ReceiveMessage` answer.
    #[error("the event has no list \"Records\"; the consumer's only trigger is an SQS queue")]
    NotSqs,
    /// Ordered queues need rules that are not kept here.
    #[error("records come from a FIFO queue; only standard queues are supported")]
    Fifo,
}

#[derive(Deserialize)]
struct Event<R> {
    #[serde(rename = "Records")]
    records: Vec<R>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRecord<'a> {
    #[serde(borrow)]
    message_id: Option<&'a RawValue>,
    #[serde(borrow)]
    receipt_handle: Option<&'a RawValue>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    attributes: Option<&'a RawValue>,
    #[serde(borrow, rename = "eventSourceARN")]
    event_source_arn: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes<'a> {
    #[serde(borrow)]
    approximate_receive_count: Option<&'a RawValue>,
    #[serde(borrow)]
    sent_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    message_group_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "AWSTraceHeader")]
    aws_trace_header: Option<&'a RawValue>,
}

/// The records of `event`.
///
/// # Errors
///
/// See [`EventError`].
pub fn records(event: &RawValue) -> Result<Vec<Record>, EventError> {
    // SQS's records can all be read, and so in one pass.
    let records = match serde_json::from_str(event.get()) {
        Ok(Event { records }) => records,
        Err(_) => read_one_by_one(event)?,
    };
    records.iter().map(read).collect()
}

/// The records of an event in which some cannot be read; these are empty.
fn read_one_by_one(event: &RawValue) -> Result<Vec<RawRecord<'_>>, EventError> {
    let event: Event<&RawValue> =
        serde_json::from_str(event.get()).map_err(|_| EventError::NotSqs)?;
    let records = event.records.into_iter();
    Ok(records.map(|record| serde_json::from_str(record.get()).unwrap_or_default()).collect())
}

fn read(raw: &RawRecord<'_>) -> Result<Record, EventError> {
    if raw.event_source_arn.and_then(text).is_some_and(|arn| is_fifo(&arn)) {
        return Err(EventError::Fifo);
    }
    let attributes: Attributes<'_> = raw
        .attributes
        .and_then(|attributes| serde_json::from_str(attributes.get()).ok())
        .unwrap_or_default();
    let owned = |value: Option<&RawValue>| value.and_then(text).map(Cow::into_owned);
    Ok(Record {
        message_id: owned(raw.message_id).filter(|id| !id.is_empty()),
        receipt_handle: owned(raw.receipt_handle),
        body: owned(raw.body),
        receive_count: attributes.approximate_receive_count.and_then(count).unwrap_or(1),
        sent_at: attributes.sent_timestamp.and_then(number).map(Timestamp::from_millis),
        group_id: owned(attributes.message_group_id),
        trace_header: owned(attributes.aws_trace_header),
    })
}

/// A count, which SQS writes as a text and some tools as a number.
fn count(value: &RawValue) -> Option<u32> {
    Some(u32::try_from(number(value)?).unwrap_or(u32::MAX).max(1))
}

/// A number, as text or not.
fn number(value: &RawValue) -> Option<u64> {
    text(value).as_deref().unwrap_or(value.get()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(event: &str) -> Result<Vec<Record>, EventError> {
        records(&RawValue::from_string(event.to_owned()).unwrap())
    }

    #[test]
    fn events_of_another_kind_are_refused() {
        for event in [
            "{}",
            "[]",
            "null",
            "\"text\"",
            r#"{"records":[]}"#,
            r#"{"Records":null}"#,
            r#"{"Records":{}}"#,
            r#"{"Messages":[{"MessageId":"m","Body":"{}"}]}"#,
        ] {
            assert_eq!(read(event), Err(EventError::NotSqs), "{event}");
        }
        assert_eq!(read(r#"{"Records":[]}"#), Ok(Vec::new()));
    }

    #[test]
    fn a_fifo_queue_is_refused() {
        let event = r#"{"Records":[{"eventSourceARN":"arn:aws:sqs:eu-west-1:1:jobs.fifo"}]}"#;
        assert_eq!(read(event), Err(EventError::Fifo));
    }

    #[test]
    fn a_record_that_is_odd_costs_its_neighbours_nothing() {
        let event = r#"{"Records":[
            {"messageId":"1","body":"a\"b","receiptHandle":"r","messageAttributes":7,
             "attributes":{"ApproximateReceiveCount":"3","MessageGroupId":"g",
                           "AWSTraceHeader":"Root=1-a",
                           "SentTimestamp":"1800000000000"}},
            {"messageId":"","body":null,"attributes":null},
            {"messageId":7,"body":{},"attributes":[]},
            17,
            {"messageId":"2","body":"b","attributes":{"ApproximateReceiveCount":4294967296}},
            {"messageId":"3","body":"c","attributes":{"ApproximateReceiveCount":"odd"}},
            {"messageId":"4","body":"d",
             "attributes":{"ApproximateReceiveCount":"0","SentTimestamp":"soon"}}
        ]}"#;
        let with = |id: &str, body: &str, receive_count| Record {
            message_id: Some(id.to_owned()),
            body: Some(body.to_owned()),
            receive_count,
            ..Record::default()
        };
        let empty = Record { receive_count: 1, ..Record::default() };
        let expected = vec![
            Record {
                receipt_handle: Some("r".to_owned()),
                group_id: Some("g".to_owned()),
                trace_header: Some("Root=1-a".to_owned()),
                sent_at: Some(Timestamp::from_millis(1_800_000_000_000)),
                ..with("1", "a\"b", 3)
            },
            empty.clone(),
            empty.clone(),
            empty,
            with("2", "b", u32::MAX),
            with("3", "c", 1),
            with("4", "d", 1),
        ];
        assert_eq!(read(event), Ok(expected.clone()));
        // Without the one that is no object, all are read at once.
        let event = event.replace("            17,\n", "");
        let without_it = [&expected[..3], &expected[4..]].concat();
        assert_eq!(read(&event), Ok(without_it));
    }

    #[test]
    fn a_record_with_a_key_twice_is_empty_and_costs_its_neighbours_nothing() {
        let event = r#"{"Records":[{"messageId":"1","messageId":"2","body":"a"},{"body":"b"}]}"#;
        let empty = Record { receive_count: 1, ..Record::default() };
        let neighbour = Record { body: Some("b".to_owned()), ..empty.clone() };
        assert_eq!(read(event), Ok(vec![empty, neighbour]));
    }
}
