//! A producer whose table and queue are in memory, and fail on command.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use producer::{JobQueue, MAX_TOGETHER, NotHttp, Outgoing, Producer, SendError};
use serde_json::Value;
use shared::aws::CallError;
use shared::config::Environment;
use shared::jobs::Rules;
use shared::message::Message;
use shared::metrics::Metrics;
use shared::table::{Cancellation, InMemoryJobTable, PutIf, Settlement, TableError, Written};
use shared::{Clock, Ids, JobEntry, JobId, JobTable, Principal, Timestamp};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::events::Event;
use crate::logs::Log;

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Arc<Mutex<Vec<&'static str>>>);

impl Steps {
    fn push(&self, step: &'static str) {
        self.0.lock().unwrap().push(step);
    }

    pub(crate) fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// What the next write to the table does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteFault {
    /// Nothing, and errs.
    Fails,
    /// Writes, but the answer is lost.
    LosesItsAnswer,
    /// The condition fails, and the old item is not told.
    TellsNothing,
}

/// [`InMemoryJobTable`] with faults.
#[derive(Debug, Default)]
pub(crate) struct FakeTable {
    pub(crate) entries: InMemoryJobTable,
    pub(crate) put_faults: Mutex<VecDeque<WriteFault>>,
    pub(crate) cancel_faults: Mutex<VecDeque<WriteFault>>,
    pub(crate) get_fails: Mutex<bool>,
    steps: Steps,
}

impl JobTable for FakeTable {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        self.steps.push("get");
        if *self.get_fails.lock().unwrap() {
            return Err(timed_out("GetItem").into());
        }
        self.entries.get(id).await
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        self.steps.push("put");
        let fault = self.put_faults.lock().unwrap().pop_front();
        match fault {
            None => self.entries.put(entry, condition, now).await,
            Some(WriteFault::Fails) => Err(timed_out("PutItem").into()),
            Some(WriteFault::LosesItsAnswer) => {
                self.entries.put(entry, condition, now).await?;
                Err(timed_out("PutItem").into())
            }
            Some(WriteFault::TellsNothing) => Ok(Written::No(None)),
        }
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        self.entries.settle(id, token, settlement, now).await
    }

    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        self.steps.push("cancel");
        let fault = self.cancel_faults.lock().unwrap().pop_front();
        match fault {
            Some(WriteFault::Fails) => return Err(timed_out("UpdateItem").into()),
            Some(WriteFault::TellsNothing) => return Ok(Cancellation::Refused(None)),
            None | Some(WriteFault::LosesItsAnswer) => {}
        }
        let answer = self.entries.cancel(id, principal, now).await?;
        if fault.is_some() { Err(timed_out("UpdateItem").into()) } else { Ok(answer) }
    }
}

/// What becomes of one message of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Taken,
    /// The answer does not name it.
    Missing,
    /// Refused for now.
    Throttled,
    /// Refused for good.
    Refused,
}

/// A queue that keeps what it was sent.
#[derive(Debug)]
pub(crate) struct FakeQueue {
    pub(crate) messages: Mutex<Vec<Outgoing>>,
    /// How many of the next messages are refused.
    pub(crate) failures: Mutex<u32>,
    /// Each send takes one; tests that hold it back take them all.
    pub(crate) acknowledgements: Semaphore,
    /// What was sent together, call by call.
    pub(crate) calls: Mutex<Vec<Vec<Outgoing>>>,
    /// What the next calls with several messages answer; afterwards all are
    /// taken.
    pub(crate) replies: Mutex<VecDeque<Result<Vec<Entry>, ()>>>,
    steps: Steps,
}

impl JobQueue for FakeQueue {
    async fn send(&self, message: Outgoing) -> Result<(), SendError> {
        self.acknowledgements.acquire().await.unwrap().forget();
        self.steps.push("send");
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err(SendError::Call(timed_out("SendMessage")));
        }
        drop(failures);
        self.messages.lock().unwrap().push(message);
        Ok(())
    }

    async fn send_together(
        &self,
        messages: &[&Outgoing],
    ) -> Result<Vec<Result<(), SendError>>, SendError> {
        self.acknowledgements.acquire().await.unwrap().forget();
        self.steps.push("send together");
        self.calls.lock().unwrap().push(messages.iter().copied().cloned().collect());
        let reply = self.replies.lock().unwrap().pop_front();
        let answers = match reply {
            Some(Err(())) => return Err(SendError::Call(timed_out("SendMessageBatch"))),
            Some(Ok(answers)) => answers,
            None => vec![Entry::Taken; messages.len()],
        };
        assert!(messages.len() <= MAX_TOGETHER);
        assert_eq!(answers.len(), messages.len());
        let answers = answers.into_iter().zip(messages).map(|(answer, message)| {
            let is_lasting = match answer {
                Entry::Taken => {
                    self.messages.lock().unwrap().push((*message).clone());
                    return Ok(());
                }
                Entry::Missing => return Err(SendError::Unacknowledged),
                Entry::Throttled => false,
                Entry::Refused => true,
            };
            Err(SendError::Refused { code: "Code".to_owned(), message: None, is_lasting })
        });
        Ok(answers.collect())
    }
}

fn timed_out(operation: &'static str) -> CallError {
    CallError::for_tests(operation, None)
}

/// An answer, as the gateway would read it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) event: Value,
    pub(crate) status: u64,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn read(event: Value) -> Self {
        let status = event["statusCode"].as_u64().unwrap();
        let body = event["body"].as_str().map_or(Value::Null, |body| {
            serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {body}"))
        });
        Self { event, status, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let list = &self.event["multiValueHeaders"][name][0];
        self.event["headers"][name].as_str().or(list.as_str())
    }

    pub(crate) fn id(&self) -> &str {
        self.body["id"].as_str().unwrap_or_else(|| panic!("no id: {self:?}"))
    }

    /// The statuses of a batch's jobs.
    pub(crate) fn statuses(&self) -> Vec<u64> {
        let jobs = self.body["jobs"].as_array().unwrap_or_else(|| panic!("no jobs: {self:?}"));
        jobs.iter().map(|job| job["status"].as_u64().unwrap()).collect()
    }

    /// The last part of the problem's type.
    pub(crate) fn problem(&self) -> &str {
        let uri = self.body["type"].as_str().unwrap_or_else(|| panic!("no problem: {self:?}"));
        uri.strip_prefix("urn:problem-type:relevo:").unwrap()
    }
}

/// The producer under test.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) producer: Producer<FakeTable, FakeQueue>,
    pub(crate) steps: Steps,
    now: Arc<Mutex<Timestamp>>,
}

impl Fixture {
    /// A producer of a deployment that configures no rules.
    pub(crate) fn new() -> Self {
        Self::configured(&[])
    }

    /// One whose rules are read from these variables.
    pub(crate) fn configured(variables: &[(&str, &str)]) -> Self {
        let mut env = Environment::new(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        let rules = Rules::read(&mut env).unwrap();
        let steps = Steps::default();
        let now = Arc::new(Mutex::new(Timestamp::from_millis(1_700_000_000_123)));
        let clock = Arc::clone(&now);
        let producer = Producer {
            table: FakeTable { steps: steps.clone(), ..FakeTable::default() },
            queue: FakeQueue {
                messages: Mutex::default(),
                failures: Mutex::default(),
                acknowledgements: Semaphore::new(1_000),
                calls: Mutex::default(),
                replies: Mutex::default(),
                steps: steps.clone(),
            },
            clock: Clock::new(move || *clock.lock().unwrap()),
            ids: Ids::random(),
            message_limit: 1024 * 1024 - producer::DEAD_LETTER_RESERVE,
            rules,
            entry_ttl: std::time::Duration::from_hours(30 * 24),
            metrics: Metrics::new("Relevo", "producer", Log),
        };
        Self { producer, steps, now }
    }

    pub(crate) async fn try_send(&self, event: &Event) -> Result<Answer, NotHttp> {
        let answer = self.producer.handle(&event.raw(), None).await?;
        Ok(Answer::read(serde_json::to_value(answer).unwrap()))
    }

    pub(crate) async fn send(&self, event: &Event) -> Answer {
        self.try_send(event).await.unwrap()
    }

    pub(crate) fn messages(&self) -> Vec<Outgoing> {
        self.producer.queue.messages.lock().unwrap().clone()
    }

    /// What the consumer would read.
    pub(crate) fn decoded(&self) -> Vec<Message> {
        self.messages().iter().map(|message| Message::decode(&message.body).unwrap()).collect()
    }

    pub(crate) fn entry(&self, id: &str) -> Option<JobEntry> {
        self.producer.table.entries.entry(id.parse().unwrap())
    }

    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut JobEntry)) {
        let mut entry = self.entry(id).unwrap();
        change(&mut entry);
        self.producer.table.entries.insert(entry);
    }

    pub(crate) fn wait(&self, duration: std::time::Duration) {
        let mut now = self.now.lock().unwrap();
        *now = *now + duration;
    }

    pub(crate) fn now(&self) -> Timestamp {
        *self.now.lock().unwrap()
    }
}
