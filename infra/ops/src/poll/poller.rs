//! Receives, has the consumer invoked, and deletes what is done.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use reqwest::Url;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::answer::{Answer, Verdict};
use super::{Event, record};
use crate::mapping::Mapping;
use crate::messages::{MOST_ENTRIES, MOST_RECEIVED, to_delete, to_hide};
use crate::queue_attributes::QueueAttributes;
use crate::stack::Stack;

/// SQS's limit for a long poll, in seconds.
const LONG_POLL: i32 = 20;

/// A consumer on this machine or near it is reached sooner.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// Between two looks at whether a consumer that was gone is back.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// As many batches at a time as the mapping allows, but no more than this: one
/// process works on them.
const MOST_BATCHES: u64 = 10;

/// Leases end this long after the consumer's timeout: its own margin of 5 s
/// (`LEASE_MARGIN` in `consumer/src/deadline.rs`), and 1 s to reach it. If an
/// invocation began later still, the copy meets a live lease and waits for it, at the
/// cost of one receive.
const LEASE_MARGIN: Duration = Duration::from_secs(6);

/// Takes messages from one queue to one consumer.
#[derive(Debug)]
pub struct Poller {
    /// What the deployed mapping says.
    pub mapping: Mapping,
    sqs: aws_sdk_sqs::Client,
    queue_url: String,
    queue_arn: String,
    region: String,
    /// How long a received message is nobody else's.
    hidden: Duration,
    /// After how long the consumer ends an invocation by itself.
    timeout: Duration,
    client: reqwest::Client,
    watch: String,
    is_ready: AtomicBool,
}

/// Messages of one batch, and until when they are ours.
#[derive(Debug)]
struct Batch {
    messages: Vec<Message>,
    until: Instant,
}

impl Poller {
    /// Reads what a stack's mapping and queue say; `watch` is where `cargo lambda
    /// watch` answers.
    ///
    /// # Errors
    ///
    /// They cannot be read, or the mapping would lose failed records.
    pub async fn new(stack: &Stack, watch: &str) -> Result<Self> {
        let mapping = Mapping::of(stack).await?;
        ensure!(
            mapping.reports_failures,
            "the mapping does not ask for the list of failed records, so that Lambda deletes \
             them: `cargo ops doctor` says how to mend it"
        );
        let queue_url = stack.outputs.queue_url.clone();
        let queue = QueueAttributes::read(&stack.sqs, &queue_url).await?;
        Ok(Self {
            mapping,
            sqs: stack.sqs.clone(),
            queue_url,
            queue_arn: queue.text(&QueueAttributeName::QueueArn)?.to_owned(),
            region: stack.connection.region()?.to_owned(),
            hidden: Duration::from_secs(queue.number(&QueueAttributeName::VisibilityTimeout)?),
            timeout: timeout(stack).await?,
            client: reqwest::Client::new(),
            watch: watch.trim_end_matches('/').to_owned(),
            is_ready: AtomicBool::new(false),
        })
    }

    /// Refuses to go on where nobody could run anything.
    ///
    /// # Errors
    ///
    /// Nothing answers there.
    pub(super) async fn ensure_something_answers(&self) -> Result<()> {
        let wrong = || format!("--watch {} is no URL such as http://127.0.0.1:9000", self.watch);
        let url: Url = self.watch.parse().with_context(wrong)?;
        let host = url.host_str().filter(|_| url.scheme() == "http").with_context(wrong)?;
        let address = (host.trim_matches(['[', ']']), url.port_or_known_default().unwrap_or(80));
        // No request: `cargo lambda watch` would say that it calls no function.
        let connected =
            timeout_at(Instant::now() + CONNECTS_WITHIN, TcpStream::connect(address)).await;
        ensure!(
            matches!(connected, Ok(Ok(_))),
            "nothing answers at {}: start `cargo lambda watch --invoke-address 127.0.0.1` first \
             (`cargo ops dev` starts all of it)",
            self.watch
        );
        Ok(())
    }

    /// Receives and invokes, for as long as the queue answers.
    ///
    /// # Errors
    ///
    /// The queue does not answer, the function is not there, or `tell` failed.
    pub async fn follow(&self, tell: impl Fn(&Event) -> Result<()>) -> Result<()> {
        let most = self.mapping.maximum_concurrency.unwrap_or(MOST_BATCHES).min(MOST_BATCHES);
        let most = usize::try_from(most).unwrap_or(1).max(1);
        let mut running = FuturesUnordered::new();
        // Kept while batches end, so that what it receives reaches the consumer.
        let mut gathering = Box::pin(self.gather(&tell));
        loop {
            tokio::select! {
                batch = &mut gathering, if running.len() < most => {
                    let Batch { messages, until } = batch?;
                    for (messages, event) in self.events(messages) {
                        let lost_at = self.lost_at(running.len()).min(until);
                        running.push(self.handle(messages, event, lost_at));
                    }
                    gathering = Box::pin(self.gather(&tell));
                }
                Some(event) = running.next() => tell(&event?)?,
            }
        }
    }

    /// When an invocation that has no answer will never have one: the consumer was
    /// replaced meanwhile. Those that are `ahead` of it come first, since `cargo
    /// lambda watch` runs one at a time.
    fn lost_at(&self, ahead: usize) -> Instant {
        let turns = u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1);
        Instant::now() + self.timeout.saturating_mul(turns) + LEASE_MARGIN
    }

    fn events(&self, messages: Vec<Message>) -> Vec<(Vec<Message>, String)> {
        let records = messages.into_iter().map(|message| {
            let record = record::record(&message, &self.queue_arn, &self.region);
            (message, record)
        });
        record::events(records.collect())
    }

    /// Waits for a first message, then until the batch is full or the window over.
    async fn gather(&self, tell: impl Fn(&Event) -> Result<()>) -> Result<Batch> {
        // What nobody can run is not received: each receive counts.
        self.wait_for_the_consumer(tell).await?;
        let size = usize::try_from(self.mapping.batch_size).unwrap_or(MOST_ENTRIES);
        let window = Duration::from_secs(self.mapping.window);
        let mut messages = Vec::new();
        while messages.is_empty() {
            messages = self.receive(size, LONG_POLL).await?;
        }
        let since = Instant::now();
        while messages.len() < size {
            let left = whole_seconds(window.saturating_sub(since.elapsed()));
            if left == 0 {
                break;
            }
            messages.extend(self.receive(size - messages.len(), left).await?);
        }
        Ok(Batch { messages, until: since + self.hidden })
    }

    async fn receive(&self, most: usize, wait: i32) -> Result<Vec<Message>> {
        let most = i32::try_from(most).unwrap_or(MOST_RECEIVED).min(MOST_RECEIVED);
        let received = self
            .sqs
            .receive_message()
            .queue_url(&self.queue_url)
            .max_number_of_messages(most)
            .wait_time_seconds(wait)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await
            .context("could not receive from the queue")?;
        Ok(received.messages.unwrap_or_default())
    }

    /// Has one event handled, and deletes what is done.
    async fn handle(
        &self,
        messages: Vec<Message>,
        event: String,
        lost_at: Instant,
    ) -> Result<Event> {
        let records = messages.iter().filter_map(Message::message_id).collect();
        let verdict = match timeout_at(lost_at, self.invoke(event)).await {
            Ok(Ok((status, is_error, body))) => {
                Answer { status, is_error, body: &body }.verdict(&records)
            }
            Ok(Err(error)) => self.unanswered(format!("{error:#}")),
            Err(_) => {
                self.show_again(&messages).await?;
                self.unanswered("no answer: the consumer was replaced, or hangs".to_owned())
            }
        };
        let id = |message: &Message| message.message_id().unwrap_or_default().to_owned();
        let count = messages.len();
        let (done, back, why): (Vec<_>, Vec<_>, _) = match verdict {
            Verdict::AllFailed { why } => (vec![], messages.iter().map(id).collect(), Some(why)),
            Verdict::Done { except } => {
                let (back, done): (Vec<_>, Vec<_>) =
                    messages.iter().partition(|message| except.contains(&id(message)));
                (done, back.into_iter().map(id).collect(), None)
            }
        };
        self.delete(&done).await?;
        Ok(Event::Batch { records: count, back, why })
    }

    fn unanswered(&self, why: String) -> Verdict {
        self.is_ready.store(false, Ordering::Relaxed);
        Verdict::AllFailed { why }
    }

    /// Makes messages visible of an invocation that was lost, instead of waiting for
    /// their visibility timeout as Lambda does: nobody who changes code waits for
    /// six times the consumer's timeout. What could not be shown comes back then.
    async fn show_again(&self, messages: &[Message]) -> Result<()> {
        for ten in messages.chunks(MOST_ENTRIES) {
            let batch = self.sqs.change_message_visibility_batch().queue_url(&self.queue_url);
            let batch = batch.set_entries(Some(to_hide(ten.iter().map(receipt), 0)?));
            batch.send().await.context("could not show messages again")?;
        }
        Ok(())
    }

    async fn invoke(&self, event: String) -> Result<(u16, bool, Vec<u8>)> {
        let url = format!("{}/2015-03-31/functions/consumer/invocations", self.watch);
        let request = self.client.post(url).header("content-type", "application/json").body(event);
        let answer = request.send().await.context("the consumer did not answer")?;
        let status = answer.status().as_u16();
        let is_error = answer.headers().contains_key("x-amz-function-error");
        let body = answer.bytes().await.context("the consumer's answer broke off")?;
        Ok((status, is_error, body.to_vec()))
    }

    /// Deletes what is done. What could not be deleted comes back, and is a
    /// duplicate then.
    async fn delete(&self, done: &[&Message]) -> Result<()> {
        for ten in done.chunks(MOST_ENTRIES) {
            let batch = self.sqs.delete_message_batch().queue_url(&self.queue_url);
            let entries = to_delete(ten.iter().copied().map(receipt))?;
            let batch = batch.set_entries(Some(entries));
            batch.send().await.context("could not delete from the queue")?;
        }
        Ok(())
    }

    /// Calls the consumer with no records until it answers. That compiles it, which
    /// may take longer than messages are hidden.
    async fn wait_for_the_consumer(&self, tell: impl Fn(&Event) -> Result<()>) -> Result<()> {
        if self.is_ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        tell(&Event::Waiting)?;
        loop {
            match self.invoke(r#"{"Records":[]}"#.to_owned()).await {
                Ok((404, _, body)) => bail!(
                    "there is no function \"consumer\" at {}: {}",
                    self.watch,
                    String::from_utf8_lossy(&body)
                ),
                Ok((status, is_error, body)) => {
                    let answer = Answer { status, is_error, body: &body };
                    if matches!(answer.verdict(&HashSet::new()), Verdict::Done { .. }) {
                        break;
                    }
                }
                Err(_) => {}
            }
            sleep(LOOK_AGAIN).await;
        }
        self.is_ready.store(true, Ordering::Relaxed);
        tell(&Event::Ready)
    }
}

fn receipt(message: &Message) -> &str {
    message.receipt_handle().unwrap_or_default()
}

/// After how long the consumer ends an invocation whose deadline it does not know,
/// as it does not know that of `cargo lambda watch`.
async fn timeout(stack: &Stack) -> Result<Duration> {
    const NAME: &str = "FUNCTION_TIMEOUT_SECONDS";
    let variables = stack.variables(&stack.outputs.consumer).await?;
    let seconds = variables.get(NAME).and_then(|seconds| seconds.parse().ok());
    seconds
        .map(Duration::from_secs)
        .with_context(|| format!("the consumer's variable {NAME} is no number"))
}

/// Rounded: a receive waits whole seconds.
fn whole_seconds(time: Duration) -> i32 {
    i32::try_from((time + Duration::from_millis(500)).as_secs()).unwrap_or(LONG_POLL).min(LONG_POLL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_and_no_longer_than_sqs_allows() {
        for (milliseconds, expected) in [(0, 0), (499, 0), (500, 1), (1000, 1), (300_000, 20)] {
            assert_eq!(whole_seconds(Duration::from_millis(milliseconds)), expected);
        }
    }
}
