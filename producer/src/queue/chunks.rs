//! Sends many messages, up to ten in each call.
//!
//! A call may take some of its messages and refuse others. Those that it
//! refused through no fault of theirs, and those that its answer does not
//! name, are sent again; a message that was sent twice runs once.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{JobQueue, MAX_TOGETHER, Outgoing, SendError};
use crate::refusal::{Cause, Refusal};

/// Calls at the same time: 100 jobs are sent in one go. Each takes about 10 ms, so
/// 50 calls (500 jobs) take about 50 ms; more connections would cost a small
/// function more than that.
const CALLS_AT_ONCE: usize = 10;

/// Calls for the messages of one chunk. The SDK's own attempts, after errors
/// of whole calls, come on top.
const ATTEMPTS: u32 = 3;

/// The wait before the second call; the next one is twice as long. Throttling
/// of a queue is over within a second as a rule.
const BACKOFF: Duration = Duration::from_millis(150);

/// Why a message is not known to be in the queue. The log has the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// Later it may work.
    ForNow,
    /// Only a deployment helps.
    ForGood,
}

/// Sends all messages, in calls of at most `limit` bytes. No call goes on
/// after `until`. For each message, in their order, whether it is in the queue.
pub(crate) async fn send_all(
    queue: &impl JobQueue,
    messages: &[Outgoing],
    limit: usize,
    until: Instant,
) -> Vec<Result<(), Unsent>> {
    let calls: Vec<_> =
        chunks(messages, limit).into_iter().map(|chunk| send_chunk(queue, chunk, until)).collect();
    stream::iter(calls).buffered(CALLS_AT_ONCE).collect::<Vec<_>>().await.concat()
}

/// Cuts the messages into parts that one call can take.
fn chunks(mut messages: &[Outgoing], limit: usize) -> Vec<&[Outgoing]> {
    let mut chunks = Vec::new();
    while !messages.is_empty() {
        let mut bytes = 0;
        let fitting = messages.iter().take(MAX_TOGETHER).take_while(|message| {
            bytes += message.size();
            bytes <= limit
        });
        // A single message never exceeds the limit: it was measured before.
        let (chunk, rest) = messages.split_at(fitting.count().max(1));
        chunks.push(chunk);
        messages = rest;
    }
    chunks
}

async fn send_chunk(
    queue: &impl JobQueue,
    chunk: &[Outgoing],
    until: Instant,
) -> Vec<Result<(), Unsent>> {
    let mut outcomes = vec![Err(Unsent::ForNow); chunk.len()];
    let mut next_call = Instant::now();
    for attempt in 0..ATTEMPTS {
        let left = chunk.iter().zip(&mut outcomes).filter(|(_, outcome)| **outcome == WAITING);
        let (messages, outcomes): (Vec<_>, Vec<_>) = left.unzip();
        if messages.is_empty() || next_call >= until {
            break;
        }
        sleep_until(next_call).await;
        let Ok(answers) = timeout_at(until, queue.send_together(&messages)).await else {
            tracing::error!(messages = messages.len(), "no time is left to send messages");
            break;
        };
        let is_final = answers.is_err();
        note(answers, outcomes);
        if is_final {
            // The SDK has tried the whole call again already.
            break;
        }
        next_call = Instant::now() + BACKOFF * 2_u32.pow(attempt);
    }
    outcomes
}

/// What the next call tries again.
const WAITING: Result<(), Unsent> = Err(Unsent::ForNow);

/// Notes what a call made of its messages. The log gets one line, with the
/// first cause.
fn note(
    answers: Result<Vec<Result<(), SendError>>, SendError>,
    outcomes: Vec<&mut Result<(), Unsent>>,
) {
    let (mut first, mut unsent) = (None, 0);
    match answers {
        Ok(answers) => {
            for (outcome, answer) in outcomes.into_iter().zip(answers) {
                *outcome = answer.map_err(|error| {
                    unsent += 1;
                    let why = Unsent::from(&error);
                    first.get_or_insert(error);
                    why
                });
            }
        }
        Err(error) => {
            unsent = outcomes.len();
            for outcome in outcomes {
                *outcome = Err(Unsent::from(&error));
            }
            first = Some(error);
        }
    }
    if let Some(first) = first {
        let cause = Cause::from(first).describe();
        tracing::error!(messages = unsent, cause, "messages were not sent by this call");
    }
}

impl From<&SendError> for Unsent {
    fn from(error: &SendError) -> Self {
        if error.is_lasting() { Self::ForGood } else { Self::ForNow }
    }
}

impl From<Unsent> for Refusal {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::ForNow => Self::unavailable_now(),
            Unsent::ForGood => Self::internal_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes_of(sizes: &[usize], limit: usize) -> Vec<usize> {
        let attributes = "kind".len() + "String".len() + "report".len();
        let messages: Vec<_> = sizes
            .iter()
            .map(|size| Outgoing {
                body: "x".repeat(size - attributes),
                kind: "report",
                group_id: String::new(),
                delay_seconds: 0,
                trace: None,
            })
            .collect();
        let chunks = chunks(&messages, limit);
        assert_eq!(chunks.concat(), messages);
        chunks.iter().map(|chunk| chunk.len()).collect()
    }

    #[test]
    fn a_call_takes_ten_messages_within_the_limit() {
        assert_eq!(sizes_of(&[], 100), [0; 0]);
        assert_eq!(sizes_of(&[20; 10], 1_000), [10]);
        assert_eq!(sizes_of(&[20; 21], 1_000), [10, 10, 1]);
        assert_eq!(sizes_of(&[50, 50, 50], 100), [2, 1]);
        assert_eq!(sizes_of(&[50, 51, 49, 1 + 20], 100), [1, 2, 1]);
        assert_eq!(sizes_of(&[20, 100, 20, 20], 100), [1, 1, 2]);
    }
}
