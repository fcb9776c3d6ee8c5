//! SQS in memory: a standard queue and its dead-letter queue.
//!
//! Nothing happens by chance or by itself: the time is passed in, and the
//! liberties that a standard queue may take (another order, a message that is
//! delivered twice) are taken by whoever asks for them.

use std::time::Duration;

use crate::sources::Timestamp;

/// The longest that a message can stay invisible after a receive.
///
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
const LONGEST_INVISIBLE: Duration = Duration::from_hours(12);

/// Messages that one receive returns at most.
///
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
const MOST_RECEIVED: usize = 10;

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The one that is worked on.
    Source,
    /// Where messages go that were received too often.
    DeadLetters,
}

/// Attributes of the source queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// How long a received message stays invisible.
    pub visibility_timeout: Duration,
    /// Receives of one message; the next one moves it to the dead letters.
    pub max_receive_count: u32,
}

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The body.
    pub body: String,
    /// Message attributes.
    pub attributes: Vec<(String, String)>,
    /// `MessageGroupId`.
    pub group_id: Option<String>,
    /// `AWSTraceHeader`.
    pub trace_header: Option<String>,
}

/// A message in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its `MessageId`.
    pub id: String,
    /// What was sent.
    pub content: Content,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// How often it was received.
    pub receives: u32,
    visible_at: Timestamp,
    received_at: Timestamp,
    receipt: u64,
}

impl StoredMessage {
    /// Whether a receive may return it.
    #[must_use]
    pub fn is_visible(&self, now: Timestamp) -> bool {
        self.visible_at <= now
    }
}

/// A message as a receive returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Proof of this receive, for the calls that follow it.
    pub receipt_handle: String,
    /// The message; `receives` counts this one.
    pub message: StoredMessage,
}

/// Why SQS refuses to change a message's visibility.
///
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// The message is gone, or was received again since.
    #[error("the receipt handle is not the latest of a message in the queue")]
    Stale,
    /// The message is visible, so that there is no visibility to change.
    #[error("the message is not in flight")]
    NotInFlight,
    /// Longer than twelve hours after the receive.
    #[error("a message cannot be invisible for longer than 12 hours")]
    TooLong,
}

/// A standard queue and its dead-letter queue.
#[derive(Debug)]
pub struct FakeSqs {
    settings: QueueSettings,
    source: Vec<StoredMessage>,
    dead_letters: Vec<StoredMessage>,
    made: u64,
}

impl FakeSqs {
    /// Two empty queues.
    #[must_use]
    pub const fn new(settings: QueueSettings) -> Self {
        Self { settings, source: Vec::new(), dead_letters: Vec::new(), made: 0 }
    }

    /// What is in `queue`, visible or not.
    #[must_use]
    pub fn messages(&self, queue: Queue) -> &[StoredMessage] {
        match queue {
            Queue::Source => &self.source,
            Queue::DeadLetters => &self.dead_letters,
        }
    }

    /// Sends a message that becomes visible after `delay`; its id.
    pub fn send(
        &mut self,
        queue: Queue,
        content: Content,
        delay: Duration,
        now: Timestamp,
    ) -> String {
        let id = format!("message-{}", self.next());
        let message = StoredMessage {
            id: id.clone(),
            content,
            sent_at: now,
            receives: 0,
            visible_at: now + delay,
            received_at: now,
            receipt: 0,
        };
        self.queue(queue).push(message);
        id
    }

    /// Changes the order in which messages are received.
    pub fn reorder(&mut self, queue: Queue, shuffle: impl FnOnce(&mut [StoredMessage])) {
        shuffle(self.queue(queue));
    }

    /// Receives up to `max` messages, ten at most. One that was received as
    /// often as the source queue allows becomes a dead letter instead.
    pub fn receive(&mut self, queue: Queue, max: usize, now: Timestamp) -> Vec<ReceivedMessage> {
        if queue == Queue::Source {
            self.bury(now);
        }
        let (timeout, mut made) = (self.settings.visibility_timeout, self.made);
        let visible = self.queue(queue).iter_mut().filter(|message| message.is_visible(now));
        let received = visible
            .take(max.min(MOST_RECEIVED))
            .map(|message| {
                made += 1;
                message.receives += 1;
                message.receipt = made;
                (message.received_at, message.visible_at) = (now, now + timeout);
                ReceivedMessage { receipt_handle: made.to_string(), message: message.clone() }
            })
            .collect();
        self.made = made;
        received
    }

    /// Makes a received message visible again after `visible_in`.
    ///
    /// # Errors
    ///
    /// Nothing has changed.
    pub fn change_visibility(
        &mut self,
        receipt_handle: &str,
        visible_in: Duration,
        now: Timestamp,
    ) -> Result<(), ReceiptError> {
        let position = self.position(receipt_handle)?;
        let message = self.source.get_mut(position).ok_or(ReceiptError::Stale)?;
        if message.is_visible(now) {
            return Err(ReceiptError::NotInFlight);
        }
        if (now + visible_in).since(message.received_at) > LONGEST_INVISIBLE {
            return Err(ReceiptError::TooLong);
        }
        message.visible_at = now + visible_in;
        Ok(())
    }

    /// Deletes a received message from the source queue. With another receipt
    /// than the latest the call succeeds too, and deletes nothing.
    ///
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html>
    pub fn delete(&mut self, receipt_handle: &str) {
        if let Ok(position) = self.position(receipt_handle) {
            self.source.remove(position);
        }
    }

    /// Takes a dead letter out of its queue, by its id.
    pub fn take_dead_letter(&mut self, id: &str) -> Option<StoredMessage> {
        let position = self.dead_letters.iter().position(|message| message.id == id)?;
        Some(self.dead_letters.remove(position))
    }

    /// When the next message of the source queue is visible, if there is any.
    #[must_use]
    pub fn next_visible(&self) -> Option<Timestamp> {
        self.source.iter().map(|message| message.visible_at).min()
    }

    /// Moves what was received too often. The redrive policy does so when such
    /// a message would be received once more; it keeps its id.
    fn bury(&mut self, now: Timestamp) {
        let most = self.settings.max_receive_count;
        let is_dead =
            |message: &mut StoredMessage| message.is_visible(now) && message.receives >= most;
        self.dead_letters.extend(self.source.extract_if(.., is_dead));
    }

    fn position(&self, receipt_handle: &str) -> Result<usize, ReceiptError> {
        let receipt: u64 = receipt_handle.parse().map_err(|_| ReceiptError::Stale)?;
        let found = self.source.iter().position(|message| message.receipt == receipt);
        found.ok_or(ReceiptError::Stale)
    }

    fn queue(&mut self, queue: Queue) -> &mut Vec<StoredMessage> {
        match queue {
            Queue::Source => &mut self.source,
            Queue::DeadLetters => &mut self.dead_letters,
        }
    }

    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const VISIBILITY: Duration = Duration::from_secs(30);

    fn queue_with_one(delay: Duration) -> FakeSqs {
        let mut sqs =
            FakeSqs::new(QueueSettings { visibility_timeout: VISIBILITY, max_receive_count: 2 });
        let content = Content { body: "body".to_owned(), ..Content::default() };
        sqs.send(Queue::Source, content, delay, NOW);
        sqs
    }

    fn receive(sqs: &mut FakeSqs, now: Timestamp) -> Option<ReceivedMessage> {
        sqs.receive(Queue::Source, 10, now).pop()
    }

    #[test]
    fn a_message_is_invisible_until_its_delay_or_its_timeout_is_over() {
        let mut sqs = queue_with_one(Duration::from_secs(5));
        assert_eq!(receive(&mut sqs, NOW + Duration::from_secs(4)), None);
        let received = NOW + Duration::from_secs(5);
        assert_eq!(receive(&mut sqs, received).unwrap().message.receives, 1);
        let just_before = received + VISIBILITY.saturating_sub(Duration::from_millis(1));
        assert_eq!(receive(&mut sqs, just_before), None);
        assert_eq!(receive(&mut sqs, received + VISIBILITY).unwrap().message.receives, 2);
    }

    #[test]
    fn a_message_that_was_received_too_often_is_a_dead_letter_with_its_id() {
        let mut sqs = queue_with_one(Duration::ZERO);
        let first = receive(&mut sqs, NOW).unwrap().message.id;
        receive(&mut sqs, NOW + VISIBILITY).unwrap();
        assert_eq!(receive(&mut sqs, NOW + VISIBILITY * 2), None);
        assert!(sqs.messages(Queue::Source).is_empty());
        assert_eq!(sqs.take_dead_letter(&first).unwrap().content.body, "body");
        assert!(sqs.messages(Queue::DeadLetters).is_empty());
    }

    #[test]
    fn only_the_latest_receipt_counts() {
        let mut sqs = queue_with_one(Duration::ZERO);
        let first = receive(&mut sqs, NOW).unwrap().receipt_handle;
        let second = receive(&mut sqs, NOW + VISIBILITY).unwrap().receipt_handle;
        let later = NOW + VISIBILITY;
        let change = sqs.change_visibility(&first, Duration::ZERO, later);
        assert_eq!(change, Err(ReceiptError::Stale));
        sqs.delete(&first);
        assert_eq!(sqs.messages(Queue::Source).len(), 1);
        sqs.delete(&second);
        sqs.delete(&second);
        assert!(sqs.messages(Queue::Source).is_empty());
        let change = sqs.change_visibility(&second, Duration::ZERO, later);
        assert_eq!(change, Err(ReceiptError::Stale));
    }

    #[test]
    fn visibility_changes_only_in_flight_and_within_twelve_hours() {
        let mut sqs = queue_with_one(Duration::ZERO);
        let receipt = receive(&mut sqs, NOW).unwrap().receipt_handle;
        let later = NOW + Duration::from_secs(1);
        let too_long = sqs.change_visibility(&receipt, LONGEST_INVISIBLE, later);
        assert_eq!(too_long, Err(ReceiptError::TooLong));
        assert_eq!(sqs.change_visibility(&receipt, Duration::ZERO, later), Ok(()));
        let visible = sqs.change_visibility(&receipt, Duration::ZERO, later);
        assert_eq!(visible, Err(ReceiptError::NotInFlight));
        assert!(receive(&mut sqs, later).is_some());
    }
}
