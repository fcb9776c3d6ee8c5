//! Random operations on queues in memory and on an engine's.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use fastrand::Rng;
use shared::Timestamp;
use shared::fake_sqs::{Content, FakeSqs, Queue, QueueSettings, ReceiptError};

use super::engine::{Engine, Exception, Queues, codes};
use super::timing::Deadlines;

const OPERATIONS: usize = 36;

/// Short, so that messages come back within the test.
const SETTINGS: QueueSettings =
    QueueSettings { visibility_timeout: Duration::from_secs(2), max_receive_count: 2 };

/// Longer than anything lasts that is asked for here.
const PAUSE: Duration = Duration::from_millis(2_500);

/// As long as a message may be invisible from its receive on, and so too long
/// for a message that was received.
const TOO_LONG: u32 = 12 * 60 * 60;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Send { delay: u32 },
    Receive { queue: Queue, max: usize },
    ChangeVisibility { receipt: usize, seconds: u32 },
    Delete { receipt: usize },
    Count { queue: Queue },
    Pause,
}

/// Why a sequence ended early.
#[derive(Debug)]
pub(crate) enum End {
    Interrupted,
    Different(String),
}

/// A message's name here and there.
#[derive(Clone, Debug)]
struct Names {
    in_memory: String,
    engine: String,
}

#[derive(Debug)]
pub(crate) struct Sequence {
    engine: Engine,
    queues: Queues,
    in_memory: FakeSqs,
    random: Rng,
    began: Instant,
    deadlines: Deadlines,
    /// The ids of each body.
    ids: HashMap<String, Names>,
    receipts: Vec<Names>,
    /// How often what happened.
    pub(crate) happened: BTreeMap<String, usize>,
}

impl Sequence {
    /// On new queues. The name is theirs; the seed decides what will be tried.
    pub(crate) async fn new(engine: Engine, name: &str, seed: u64) -> Self {
        Self {
            queues: engine.create(name, SETTINGS).await,
            engine,
            in_memory: FakeSqs::new(SETTINGS),
            random: Rng::with_seed(seed),
            began: Instant::now(),
            deadlines: Deadlines::default(),
            ids: HashMap::new(),
            receipts: Vec::new(),
            happened: BTreeMap::new(),
        }
    }

    /// Carries out random operations, and writes down which.
    pub(crate) async fn run(&mut self, history: &mut Vec<Operation>) -> Result<(), End> {
        for _ in 0..OPERATIONS {
            let operation = self.choose();
            history.push(operation);
            // Never two in one millisecond, in which twelve hours would not be over.
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.deadlines.wait(|| self.now()).await;
            let before = self.now();
            self.carry_out(operation, before).await?;
        }
        Ok(())
    }

    fn choose(&mut self) -> Operation {
        let random = &mut self.random;
        // Mostly the latest receipts; those before them are stale sooner or later.
        let known = self.receipts.len();
        let back = if random.bool() { random.usize(0..4) } else { random.usize(0..40) };
        let receipt = known.checked_sub(1 + back.min(known.saturating_sub(1)));
        let some = |choices: &[u32], random: &mut Rng| random.choice(choices).copied().unwrap();
        match (random.u32(0..20), receipt) {
            (0..4, _) => Operation::Send { delay: some(&[0, 0, 1, 2], random) },
            (4..8, _) => Operation::Receive { queue: Queue::Source, max: random.usize(1..=10) },
            (8..10, _) => {
                Operation::Receive { queue: Queue::DeadLetters, max: random.usize(1..=10) }
            }
            (10..14, Some(receipt)) => {
                let seconds = some(&[0, 0, 1, 2, TOO_LONG], random);
                Operation::ChangeVisibility { receipt, seconds }
            }
            (14..16, Some(receipt)) => Operation::Delete { receipt },
            (16, _) => Operation::Count { queue: Queue::DeadLetters },
            (17, _) => Operation::Count { queue: Queue::Source },
            (18.., _) => Operation::Pause,
            _ => Operation::Send { delay: 0 },
        }
    }

    async fn carry_out(&mut self, operation: Operation, before: Timestamp) -> Result<(), End> {
        match operation {
            Operation::Send { delay } => self.send(delay, before).await,
            Operation::Receive { queue, max } => self.receive(queue, max, before).await,
            Operation::ChangeVisibility { receipt, seconds } => {
                self.change_visibility(receipt, seconds, before).await
            }
            Operation::Delete { receipt } => self.delete(receipt).await,
            Operation::Count { queue } => self.count(queue, before).await,
            Operation::Pause => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
        }
    }

    async fn send(&mut self, delay: u32, before: Timestamp) -> Result<(), End> {
        let body = format!("body {}", self.ids.len());
        let id = self.engine.send(&self.queues.source, &body, delay).await;
        let now = self.now();
        let content = Content { body: body.clone(), ..Content::default() };
        let delay = Duration::from_secs(delay.into());
        let in_memory = self.in_memory.send(Queue::Source, content, delay, now);
        self.deadlines.add(before + delay, now + delay);
        self.ids.insert(body, Names { in_memory, engine: id });
        Ok(())
    }

    async fn receive(&mut self, queue: Queue, max: usize, before: Timestamp) -> Result<(), End> {
        let theirs = self.engine.receive(self.queues.url(queue), max).await;
        let now = self.is_certain(before)?;
        self.in_memory.reorder(queue, |messages| {
            messages.sort_by_key(|message| !theirs.contains_key(&message.content.body));
        });
        let ours = self.in_memory.receive(queue, max, now);
        let mut expected: Vec<_> = ours
            .iter()
            .map(|received| (received.message.content.body.clone(), received.message.receives))
            .collect();
        expected.sort();
        let counts = theirs.iter().map(|(body, their)| (body.clone(), their.receives));
        same(&expected, &counts.collect(), "receive")?;
        for received in ours {
            let message = received.message;
            let their = &theirs[&message.content.body];
            let names = &self.ids[&message.content.body];
            same(&names.in_memory, &message.id, "id in memory")?;
            same(&names.engine, &their.id, "the engine's id")?;
            if queue == Queue::Source {
                let engine = their.receipt.clone();
                self.receipts.push(Names { in_memory: received.receipt_handle, engine });
            }
            let is_first = message.receives == 1;
            self.note(if is_first { "received" } else { "received once more" });
        }
        if theirs.is_empty() {
            self.note("received nothing");
            return Ok(());
        }
        if queue == Queue::DeadLetters {
            self.note("received a dead letter");
        }
        let timeout = SETTINGS.visibility_timeout;
        self.deadlines.add(before + timeout, now + timeout);
        Ok(())
    }

    async fn change_visibility(
        &mut self,
        receipt: usize,
        seconds: u32,
        before: Timestamp,
    ) -> Result<(), End> {
        let receipt = self.receipts[receipt].clone();
        let visible_in = Duration::from_secs(seconds.into());
        let expected = self.in_memory.change_visibility(&receipt.in_memory, visible_in, before);
        let ask = match expected {
            // Which leaves a message visible that is visible, and hides no mistake.
            Err(ReceiptError::NotInFlight) if self.has(Exception::ChangesWhatIsVisible) => Some(0),
            _ if seconds == TOO_LONG && self.has(Exception::KnowsNoLimit) => None,
            _ => Some(seconds),
        };
        if let Some(seconds) = ask {
            let url = &self.queues.source;
            let code = self.engine.change_visibility(url, &receipt.engine, seconds).await;
            let is_same = match expected {
                Err(ReceiptError::NotInFlight) if self.has(Exception::ChangesWhatIsVisible) => {
                    code.is_none()
                }
                expected => codes(expected).contains(&code.as_deref()),
            };
            if !is_same {
                let how = format!("change visibility: {expected:?} in memory, but {code:?}");
                return Err(End::Different(how));
            }
        }
        let now = self.is_certain(before)?;
        match expected {
            Ok(()) => {
                same(&(seconds == TOO_LONG), &false, "is as long as that allowed")?;
                self.deadlines.add(before + visible_in, now + visible_in);
                self.note("visibility changed");
            }
            Err(error) => self.note(&format!("visibility not changed: {error:?}")),
        }
        Ok(())
    }

    async fn delete(&mut self, receipt: usize) -> Result<(), End> {
        let receipt = self.receipts[receipt].clone();
        let held = self.in_memory.messages(Queue::Source).len();
        self.in_memory.delete(&receipt.in_memory);
        let is_deleted = self.in_memory.messages(Queue::Source).len() < held;
        let code = self.engine.delete(&self.queues.source, &receipt.engine).await;
        let expected = (!is_deleted && self.has(Exception::RefusesToDeleteNothing))
            .then_some("ReceiptHandleIsInvalid");
        same(&expected, &code.as_deref(), "delete")?;
        self.note(if is_deleted { "deleted" } else { "deleted nothing" });
        Ok(())
    }

    async fn count(&mut self, queue: Queue, before: Timestamp) -> Result<(), End> {
        let theirs = self.engine.count(self.queues.url(queue)).await;
        let now = self.is_certain(before)?;
        let messages = self.in_memory.messages(queue);
        let visible = messages.iter().filter(|message| message.is_visible(now)).count();
        same(&(visible, messages.len() - visible), &theirs, "visible and not visible")
    }

    fn has(&self, exception: Exception) -> bool {
        self.engine.exceptions.contains(&exception)
    }

    fn note(&mut self, what: &str) {
        *self.happened.entry(what.to_owned()).or_default() += 1;
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000) + self.began.elapsed()
    }

    /// Now, unless a message may have become visible since `before`.
    fn is_certain(&self, before: Timestamp) -> Result<Timestamp, End> {
        let now = self.now();
        match self.deadlines.between(before, now) {
            Some(_) => Err(End::Interrupted),
            None => Ok(now),
        }
    }
}

fn same<T: std::fmt::Debug + PartialEq>(ours: &T, theirs: &T, what: &str) -> Result<(), End> {
    if ours == theirs {
        return Ok(());
    }
    Err(End::Different(format!("{what}: {ours:?} in memory, but {theirs:?}")))
}
