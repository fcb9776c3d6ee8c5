//! The queue and its dead-letter queue, spoken to through the AWS SDK.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, MessageSystemAttributeName, MessageSystemAttributeNameForSends,
    MessageSystemAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry,
};

use super::letter::{self, Letter};
use super::line::Content;
use crate::messages::{MOST_RECEIVED, to_delete, to_hide};
use crate::queue_attributes::QueueAttributes;
use crate::stack::Stack;

/// How long SQS looks for messages. Longer than nothing, so that it looks on
/// all of its servers, and an empty answer means an empty queue.
const LOOK_FOR: i32 = 1;

/// What a message needs beside what it was sent with.
const SYSTEM_ATTRIBUTES: [MessageSystemAttributeName; 3] = [
    MessageSystemAttributeName::AwsTraceHeader,
    MessageSystemAttributeName::MessageGroupId,
    MessageSystemAttributeName::SentTimestamp,
];

/// The two queues of a stack.
#[derive(Clone, Debug)]
pub struct Queues {
    client: aws_sdk_sqs::Client,
    /// The URL of the queue that is worked on.
    pub source: String,
    /// The URL of the dead-letter queue.
    pub dead_letters: String,
}

/// What SQS says about one entry of a call that it did not carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl Queues {
    /// Those of a stack.
    #[must_use]
    pub fn of(stack: &Stack) -> Self {
        let (source, dead_letters) =
            (stack.outputs.queue_url.clone(), stack.outputs.dead_letter_queue_url.clone());
        Self { client: stack.sqs.clone(), source, dead_letters }
    }

    /// The same queues, reached in another way.
    #[must_use]
    pub fn through(&self, client: aws_sdk_sqs::Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// Up to ten dead letters, which nobody else sees for a while. None, if all
    /// that there are is hidden.
    ///
    /// # Errors
    ///
    /// The queue did not answer.
    pub async fn receive(&self, hidden_for: Duration) -> Result<Vec<Letter>> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.dead_letters)
            .max_number_of_messages(MOST_RECEIVED)
            .wait_time_seconds(LOOK_FOR)
            .visibility_timeout(seconds(hidden_for))
            .message_attribute_names("All")
            .set_message_system_attribute_names(Some(SYSTEM_ATTRIBUTES.to_vec()))
            .send()
            .await
            .context("could not read the dead-letter queue")?;
        answer.messages.unwrap_or_default().into_iter().map(Letter::new).collect()
    }

    /// How many dead letters others have received and not deleted.
    ///
    /// # Errors
    ///
    /// The queue did not answer.
    pub async fn in_flight(&self) -> Result<usize> {
        let queue = QueueAttributes::read(&self.client, &self.dead_letters).await?;
        let name = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
        Ok(queue.number(&name).unwrap_or_default())
    }

    /// Hides dead letters, ten at most, from now on; shows them at once if that
    /// is no time. What came of each.
    ///
    /// # Errors
    ///
    /// The queue did not answer. Each may be hidden or not.
    pub async fn hide(
        &self,
        receipts: &[&str],
        hidden_for: Duration,
    ) -> Result<Vec<Result<(), Refused>>> {
        let entries = to_hide(receipts.iter().copied(), seconds(hidden_for))?;
        let answer = self
            .client
            .change_message_visibility_batch()
            .queue_url(&self.dead_letters)
            .set_entries(Some(entries))
            .send()
            .await
            .context("could not hide dead letters")?;
        let done = answer.successful.into_iter().map(|entry| (entry.id, ()));
        Ok(match_up(receipts.len(), done, answer.failed))
    }

    /// Deletes dead letters, ten at most. What came of each.
    ///
    /// # Errors
    ///
    /// The queue did not answer. Each may be deleted or not.
    pub async fn delete(&self, receipts: &[&str]) -> Result<Vec<Result<(), Refused>>> {
        let entries = to_delete(receipts.iter().copied())?;
        let answer = self
            .client
            .delete_message_batch()
            .queue_url(&self.dead_letters)
            .set_entries(Some(entries))
            .send()
            .await
            .context("could not delete dead letters")?;
        let done = answer.successful.into_iter().map(|entry| (entry.id, ()));
        Ok(match_up(receipts.len(), done, answer.failed))
    }

    /// Sends a batch as `batch::cut` makes them to `queue`, one of the two.
    /// The message id of each, or why it was not sent.
    ///
    /// # Errors
    ///
    /// The queue did not answer. Each may have been sent or not.
    pub async fn send(
        &self,
        queue: &str,
        contents: &[&Content],
    ) -> Result<Vec<Result<String, Refused>>> {
        let entries: Result<Vec<_>> =
            contents.iter().enumerate().map(|(position, it)| entry(position, it)).collect();
        let answer = self
            .client
            .send_message_batch()
            .queue_url(queue)
            .set_entries(Some(entries?))
            .send()
            .await
            .context("could not send to the queue")?;
        let done = answer.successful.into_iter().map(|entry| (entry.id, entry.message_id));
        Ok(match_up(contents.len(), done, answer.failed))
    }
}

fn entry(position: usize, content: &Content) -> Result<SendMessageBatchRequestEntry> {
    const WHAT: &str = "could not make the message";
    let mut attributes = HashMap::new();
    for (name, attribute) in &content.attributes {
        attributes.insert(name.clone(), letter::write(attribute)?);
    }
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(position.to_string())
        .message_body(&content.body)
        .set_message_attributes(Some(attributes).filter(|all| !all.is_empty()))
        .set_message_group_id(content.group_id.clone());
    if let Some(header) = &content.trace_header {
        let value = MessageSystemAttributeValue::builder().data_type("String");
        let value = value.string_value(header).build().context(WHAT)?;
        entry = entry
            .message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, value);
    }
    entry.build().context(WHAT)
}

/// What became of each of `count` entries, whose ids are their positions. One
/// in neither of the lists was not carried out, and one in both was refused.
fn match_up<T>(
    count: usize,
    done: impl IntoIterator<Item = (String, T)>,
    failed: Vec<BatchResultErrorEntry>,
) -> Vec<Result<T, Refused>> {
    let nothing = || Err(Refused("SQS did not say what came of it".to_owned()));
    let mut outcomes: Vec<Result<T, Refused>> = (0..count).map(|_| nothing()).collect();
    let done = done.into_iter().map(|(id, value)| (id, Ok(value)));
    let failed = failed.into_iter().map(|entry| {
        let message = entry.message.map(|message| format!(": {message}")).unwrap_or_default();
        (entry.id, Err(Refused(format!("{}{message}", entry.code))))
    });
    for (id, outcome) in done.chain(failed) {
        let there = id.parse::<usize>().ok().and_then(|position| outcomes.get_mut(position));
        if let Some(there) = there {
            *there = outcome;
        }
    }
    outcomes
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::line::Attribute;
    use super::*;

    #[test]
    fn a_message_is_sent_with_all_that_it_has() {
        let kind = Attribute { data_type: "String".to_owned(), value: "report".to_owned() };
        let content = Content {
            body: "b".to_owned(),
            attributes: BTreeMap::from([("kind".to_owned(), kind)]),
            group_id: Some("g".to_owned()),
            trace_header: Some("Root=1".to_owned()),
        };
        let sent = entry(3, &content).unwrap();
        assert_eq!((sent.id(), sent.message_body()), ("3", "b"));
        assert_eq!(sent.message_group_id(), Some("g"));
        assert_eq!(sent.message_attributes().unwrap()["kind"].string_value(), Some("report"));
        let trace = MessageSystemAttributeNameForSends::AwsTraceHeader;
        let system = sent.message_system_attributes().unwrap();
        assert_eq!(system[&trace].string_value(), Some("Root=1"));

        let bare = entry(0, &Content { body: "b".to_owned(), ..Content::default() }).unwrap();
        assert_eq!((bare.message_attributes(), bare.message_system_attributes()), (None, None));
    }

    #[test]
    fn an_entry_counts_as_done_only_where_sqs_says_so() {
        let failed = |id: &str| {
            let entry = BatchResultErrorEntry::builder().id(id).code("Bad").sender_fault(true);
            entry.message("no").build().unwrap()
        };
        let done = [("0", 'a'), ("1", 'b'), ("9", 'c'), ("x", 'd')];
        let done = done.map(|(id, value)| (id.to_owned(), value));
        let outcomes = match_up(4, done, vec![failed("1"), failed("3")]);
        let refused = |text: &str| Err(Refused(text.to_owned()));
        assert_eq!(
            outcomes,
            [
                Ok('a'),
                refused("Bad: no"),
                refused("SQS did not say what came of it"),
                refused("Bad: no")
            ]
        );
    }
}
