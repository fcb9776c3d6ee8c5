//! Lambda's side of the consumer: it polls the queue, invokes the function,
//! and deletes what was not reported.
//!
//! <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use consumer::backoff::Backoff;
use consumer::batch::BatchError;
use consumer::config::{CALL_LIMITS, Settings};
use consumer::jobs::{self, Handlers};
use consumer::{Consumer, Deadline};
use serde_json::json;
use serde_json::value::RawValue;
use shared::config::EntryTtl;
use shared::fake_sqs::{Queue, ReceivedMessage};
use shared::message::Message;
use shared::metrics::Metrics;
use shared::table::GroupedJobTable;
use shared::{JobEntry, JobId, State};
use tokio::time::{sleep, timeout};

use super::fate::drive;
use super::faults::Fault;
use super::queue::SimulatedQueue;
use super::table::SimulatedTable;
use super::world::{MAX_RECEIVE_COUNT, TIMEOUT, World};

/// Polls the queue with one process after the other, until nothing can happen
/// any more.
pub(crate) async fn poll(world: Arc<World>, slot: usize) {
    let mut processes = 0;
    while !world.is_quiet() {
        let mut process = Process::new(&world, format!("consumer {slot}.{processes}"));
        processes += 1;
        while !world.is_quiet() && process.serve().await {}
    }
}

/// A process of the function, which serves one invocation after the other.
struct Process {
    world: Arc<World>,
    who: Arc<str>,
    consumer: Consumer<GroupedJobTable<SimulatedTable>, SimulatedQueue>,
    batch_size: usize,
}

impl Process {
    fn new(world: &Arc<World>, who: String) -> Self {
        let who: Arc<str> = who.into();
        let (world, patience) = (Arc::clone(world), CALL_LIMITS.operation);
        let clock = world.clock();
        let table = SimulatedTable { world: Arc::clone(&world), patience, who: Arc::clone(&who) };
        // Also side by side: as when a deployment switches groups on or off.
        let is_grouping = world.random().bool();
        let consumer = Consumer {
            table: GroupedJobTable::new(Arc::new(table), is_grouping),
            queue: SimulatedQueue { world: Arc::clone(&world), patience, who: Arc::clone(&who) },
            settings: Settings {
                max_receive_count: MAX_RECEIVE_COUNT,
                retention: Duration::from_hours(4 * 24),
                function_timeout: TIMEOUT,
                concurrency: 10,
                backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_mins(15) },
                max_result_bytes: 64 * 1024,
                entry_ttl: EntryTtl::DEFAULT,
            },
            handlers: Handlers::new(jobs::Settings::default(), clock.clone()),
            clock,
            ids: world.ids(),
            random: world.chance(),
            metrics: Metrics::none(),
        };
        let batch_size = world.random().usize(1..11);
        Self { world, who, consumer, batch_size }
    }

    /// Waits for messages and serves one invocation; whether the process is
    /// still there.
    async fn serve(&mut self) -> bool {
        let world = &self.world;
        sleep(world.millis(0..1_000)).await;
        let received = self.receive();
        if !received.is_empty() {
            return self.invoke(&received).await;
        }
        let next = world.sqs().next_visible();
        let wait = next.map_or(Duration::from_hours(1), |next| next.since(world.now()));
        // Either somebody sends, or a message becomes visible, or all is over.
        let _ = timeout(wait.max(Duration::from_millis(1)), world.news.notified()).await;
        true
    }

    fn receive(&self) -> Vec<ReceivedMessage> {
        let world = &self.world;
        let several = world.sqs().messages(Queue::Source).len() > 1;
        if several && world.strikes(Fault::Reordered, world.climate.delivered_twice) {
            let mut random = world.random();
            world.sqs().reorder(Queue::Source, |messages| random.shuffle(messages));
        }
        let received = world.sqs().receive(Queue::Source, self.batch_size, world.now());
        for delivered in &received {
            if world.strikes(Fault::DeliveredTwice, world.climate.delivered_twice) {
                let again = world.millis(0..40_000);
                let again = Duration::from_secs(again.as_secs());
                let receipt = &delivered.receipt_handle;
                // Refused for a message that is visible at once: then it is.
                let _ = world.sqs().change_visibility(receipt, again, world.now());
            }
        }
        received
    }

    /// One invocation; whether the process is still there.
    async fn invoke(&self, received: &[ReceivedMessage]) -> bool {
        let world = &self.world;
        if world.strikes(Fault::InvocationLost, world.climate.invocation_lost) {
            world.log(|| format!("{}: {} messages got no invocation", self.who, received.len()));
            return true;
        }
        let _busy = world.busy();
        let ids: Vec<_> = received.iter().filter_map(job_of).collect();
        let invocation = world.random().u64(..);
        world.ledger().begun(invocation, ids);
        world.ledger().deliveries += received.len() as u64;
        world.log(|| {
            let messages: Vec<_> = received
                .iter()
                .map(|delivered| {
                    let message = &delivered.message;
                    format!("{} (receive {})", message.id, message.receives)
                })
                .collect();
            format!("{}: invoked with {}", self.who, messages.join(", "))
        });
        let Ok(event) = event(received) else { return true };
        let clock = &self.consumer.clock;
        let deadline = Deadline::new(clock, clock.now() + TIMEOUT, TIMEOUT);
        let answer = drive(world, &self.who, self.consumer.handle(&event, &deadline)).await;
        let Some(answer) = answer else {
            world.ledger().killed(invocation, world.now());
            return false;
        };
        match answer {
            Ok(answer) => {
                world.ledger().answered(invocation, world.now());
                let failures = answer.batch_item_failures.into_iter();
                let reported = failures.map(|failure| failure.item_identifier).collect();
                self.answered(received, reported).await;
                true
            }
            Err(error) => {
                world.log(|| format!("{}: {error}", self.who));
                // As `consumer::run` does.
                let ends = error == BatchError::StillAlive;
                let (now, mut ledger) = (world.now(), world.ledger());
                if ends {
                    ledger.killed(invocation, now);
                } else {
                    ledger.answered(invocation, now);
                }
                !ends
            }
        }
    }

    /// Deletes what was not reported.
    async fn answered(&self, received: &[ReceivedMessage], reported: Vec<String>) {
        let world = &self.world;
        let came: HashSet<_> = received.iter().map(|delivered| &delivered.message.id).collect();
        let once: HashSet<_> = reported.iter().collect();
        let is_sound = once.len() == reported.len() && once.is_subset(&came);
        world.ledger().check(is_sound, || format!("{}: reported {reported:?}", self.who));
        for delivered in received {
            let is_reported = once.contains(&delivered.message.id);
            self.check_copies(delivered, is_reported, received, &once).await;
            if is_reported {
                continue;
            }
            self.check_acknowledged(delivered).await;
            if !world.strikes(Fault::DeletionLost, world.climate.deletion_lost) {
                // Received again meanwhile: then it stays, and comes again.
                world.sqs().delete(&delivered.receipt_handle);
            }
        }
    }

    /// A message may be acknowledged when its job needs no more, or when it is
    /// a dead letter.
    async fn check_acknowledged(&self, delivered: &ReceivedMessage) {
        let (world, message) = (&self.world, &delivered.message);
        let entry = self.entry_of(delivered).await;
        let is_over = entry.is_some_and(|entry| {
            matches!(entry.state, State::Succeeded | State::Cancelled)
                && !entry.is_expired(world.now())
        });
        let mut ledger = world.ledger();
        let is_justified = is_over || ledger.has_letter(&message.id, &message.content.body);
        ledger.check(is_justified, || {
            format!(
                "{} was acknowledged, but its job is not over: {}",
                message.id, message.content.body
            )
        });
    }

    /// Copies of one job in one batch share its outcome. A dead letter is each
    /// copy's own: one may be sent where another is refused, and be redriven and
    /// have succeeded by now.
    async fn check_copies(
        &self,
        delivered: &ReceivedMessage,
        is_reported: bool,
        received: &[ReceivedMessage],
        reported: &HashSet<&String>,
    ) {
        let body = &delivered.message.content.body;
        let acknowledged_copy = received.iter().any(|other| {
            other.message.content.body == *body
                && !reported.contains(&other.message.id)
                && !self.world.ledger().has_letter(&other.message.id, body)
        });
        let is_shared = !(is_reported && acknowledged_copy)
            || self.entry_of(delivered).await.is_none_or(|entry| entry.state != State::Succeeded);
        self.world.ledger().check(is_shared, || {
            format!("{}: one copy was acknowledged and another was not: {body}", self.who)
        });
    }

    async fn entry_of(&self, delivered: &ReceivedMessage) -> Option<JobEntry> {
        self.world.entry(job_of(delivered)?).await
    }
}

fn job_of(delivered: &ReceivedMessage) -> Option<JobId> {
    Message::decode(&delivered.message.content.body).ok().map(|message| message.id)
}

fn event(received: &[ReceivedMessage]) -> Result<Box<RawValue>, serde_json::Error> {
    let records: Vec<_> = received
        .iter()
        .map(|delivered| {
            let message = &delivered.message;
            json!({
                "messageId": message.id,
                "receiptHandle": delivered.receipt_handle,
                "body": message.content.body,
                "attributes": {
                    "ApproximateReceiveCount": message.receives.to_string(),
                    "SentTimestamp": message.sent_at.as_millis().to_string(),
                    "MessageGroupId": message.content.group_id,
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:jobs",
                "awsRegion": "eu-west-1",
            })
        })
        .collect();
    RawValue::from_string(json!({ "Records": records }).to_string())
}
