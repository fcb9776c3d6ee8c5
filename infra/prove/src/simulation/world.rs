//! The world that functions, clients and faults share: time, chance, the
//! queue, the entries, and the network between them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shared::aws::CallError;
use shared::fake_sqs::{Content, FakeSqs, Queue, QueueSettings};
use shared::{Clock, Ids, JobTable, Random, Timestamp};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::entries::Entries;
use super::faults::{Climate, Fault, Weather};
use super::ledger::Ledger;

/// When each world begins.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// How far a clock may be off, to either side: two disagree by twice that.
pub(crate) const CLOCK_ERROR: Duration = Duration::from_secs(1);

/// The function's timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// As in `infra/template.yaml`: six times the timeout and the batching window.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(181);

/// Receives of a message before it becomes a dead letter.
pub(crate) const MAX_RECEIVE_COUNT: u32 = 5;

/// What a call is made to, which an outage may take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Table,
    Queue,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) entries: Entries,
    pub(crate) climate: Climate,
    started: Instant,
    random: Mutex<fastrand::Rng>,
    sqs: Mutex<FakeSqs>,
    ledger: Mutex<Ledger>,
    turn: tokio::sync::Mutex<()>,
    /// Wakes whoever waits for messages, and for the end.
    pub(crate) news: Notify,
    /// Wakes whoever lets time pass for threads.
    pub(crate) threads: Notify,
    /// Clients that have not got all that they want.
    clients: AtomicUsize,
    /// Calls that may still take effect, and invocations.
    busy: AtomicUsize,
    /// When the table is away.
    outage: Option<(Duration, Duration)>,
    /// After the storm: only jobs go wrong from now on.
    is_over: std::sync::atomic::AtomicBool,
}

impl World {
    pub(crate) fn new(seed: u64, entries: Entries, keeps_history: bool) -> Arc<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let climate = Climate::draw(&mut random);
        let outage = (climate.weather == Weather::Outage).then(|| {
            let from = Duration::from_secs(random.u64(0..120));
            (from, from + Duration::from_secs(random.u64(1..55 * 60)))
        });
        let settings = QueueSettings {
            visibility_timeout: VISIBILITY_TIMEOUT,
            max_receive_count: MAX_RECEIVE_COUNT,
        };
        Arc::new(Self {
            entries,
            climate,
            started: Instant::now(),
            random: Mutex::new(random),
            sqs: Mutex::new(FakeSqs::new(settings)),
            ledger: Mutex::new(Ledger::new(keeps_history)),
            turn: tokio::sync::Mutex::default(),
            news: Notify::new(),
            threads: Notify::new(),
            clients: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            outage,
            is_over: false.into(),
        })
    }

    /// The true time, which no clock of a function shows exactly.
    pub(crate) fn now(&self) -> Timestamp {
        START + self.started.elapsed()
    }

    /// A source of chance of its own: nobody holds the world's.
    pub(crate) fn random(&self) -> fastrand::Rng {
        lock(&self.random).fork()
    }

    pub(crate) fn sqs(&self) -> MutexGuard<'_, FakeSqs> {
        lock(&self.sqs)
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(crate) fn log(&self, line: impl FnOnce() -> String) {
        let at = self.started.elapsed();
        self.ledger().log(at, line);
    }

    /// Whether a fault happens now, which happens with probability `rate`.
    pub(crate) fn strikes(&self, fault: Fault, rate: f64) -> bool {
        let strikes = self.is_due(rate);
        if strikes {
            self.count(fault);
        }
        strikes
    }

    /// As [`Self::strikes`], for what may come to nothing.
    pub(crate) fn is_due(&self, rate: f64) -> bool {
        !self.is_over() && rate > 0.0 && self.random().f64() < rate
    }

    pub(crate) fn count(&self, fault: Fault) {
        *self.ledger().faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn millis(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random().u64(range))
    }

    pub(crate) fn end_the_storm(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A clock that is off by as much as clocks may be.
    pub(crate) fn clock(self: &Arc<Self>) -> Clock {
        let world = Arc::clone(self);
        let error = self.millis(0..2_001);
        let start = START - CLOCK_ERROR;
        Clock::new(move || start + error + world.started.elapsed())
    }

    pub(crate) fn ids(self: &Arc<Self>) -> Ids {
        let world = Arc::clone(self);
        Ids::new(move |_| {
            let bytes = world.random().u128(..).to_be_bytes();
            uuid::Builder::from_random_bytes(bytes).into_uuid()
        })
    }

    pub(crate) fn chance(self: &Arc<Self>) -> Random {
        let world = Arc::clone(self);
        Random::new(move || world.random().f64())
    }

    /// Sends a message, and sometimes a copy of it.
    pub(crate) fn send(&self, content: Content, delay: Duration) {
        let now = self.now();
        if self.strikes(Fault::Copy, self.climate.copy) {
            let later = self.millis(0..60_000);
            self.sqs().send(Queue::Source, content.clone(), delay + later, now);
        }
        let id = self.sqs().send(Queue::Source, content, delay, now);
        self.log(|| format!("{id} is in the queue"));
        self.news.notify_waiters();
    }

    /// Somebody who wants something; the world goes on until all have it.
    pub(crate) fn client(self: &Arc<Self>) -> Busy {
        Busy::begin(self, |world| &world.clients)
    }

    /// Something that may still have an effect.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        Busy::begin(self, |world| &world.busy)
    }

    /// Whether nothing can happen any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.clients.load(Ordering::Relaxed) == 0
            && self.busy.load(Ordering::Relaxed) == 0
            && self.sqs().messages(Queue::Source).is_empty()
    }

    /// Makes a call, which takes `effect` at some moment, or at none, or
    /// twice. The caller waits for `patience`; the effect does not care
    /// whether somebody still waits for it.
    pub(crate) async fn call<R, F>(
        self: &Arc<Self>,
        service: Service,
        operation: &'static str,
        patience: Duration,
        effect: impl Fn() -> F + Send + 'static,
    ) -> Result<R, CallError>
    where
        F: Future<Output = R> + Send,
        R: Send + 'static,
    {
        let fault = self.call_fault(service);
        let no_answer = || CallError::for_tests(operation, None);
        let way = self.millis(1..30);
        match fault {
            Some(Fault::Refused) => {
                sleep(way).await;
                return Err(CallError::for_tests(operation, Some("ThrottlingException")));
            }
            Some(Fault::RequestLost) => {
                sleep(if self.random().bool() { way } else { patience }).await;
                return Err(no_answer());
            }
            _ => {}
        }
        let way = if fault == Some(Fault::Slow) { self.millis(100..6_000) } else { way };
        let (way_back, again) = (self.millis(1..30), self.millis(1..3_000));
        let busy = self.busy();
        let request = tokio::spawn(async move {
            let _busy = busy;
            sleep(way).await;
            let mut answer = effect().await;
            if fault == Some(Fault::SentTwice) {
                sleep(again).await;
                answer = effect().await;
            }
            sleep(way_back).await;
            answer
        });
        let Ok(Ok(answer)) = timeout(patience, request).await else { return Err(no_answer()) };
        if fault == Some(Fault::AnswerLost) { Err(no_answer()) } else { Ok(answer) }
    }

    fn call_fault(&self, service: Service) -> Option<Fault> {
        let elapsed = self.started.elapsed();
        let is_away = self.outage.is_some_and(|(from, to)| (from..to).contains(&elapsed));
        if is_away && service == Service::Table && !self.is_over() {
            let fault = if self.random().bool() { Fault::Refused } else { Fault::RequestLost };
            self.count(fault);
            return Some(fault);
        }
        let faults = [
            Fault::Refused,
            Fault::RequestLost,
            Fault::AnswerLost,
            Fault::Slow,
            Fault::SentTwice,
            Fault::OldItemMissing,
        ];
        let position = self.random().usize(0..faults.len());
        let fault = *faults.get(position)?;
        self.strikes(fault, self.climate.call).then_some(fault)
    }

    /// Waits until nobody else changes an entry, so that what was there before
    /// can be told.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Whether a call with several messages leaves one of them out.
    pub(crate) fn refuses_one_of_several(&self) -> bool {
        self.strikes(Fault::Refused, self.climate.call / 6.0)
    }

    /// Whether a refusal leaves out the old item.
    pub(crate) fn forgets_old_item(&self) -> bool {
        self.strikes(Fault::OldItemMissing, self.climate.call / 6.0)
    }

    /// The entry of a job, as a reader finds it now.
    pub(crate) async fn entry(&self, id: shared::JobId) -> Option<shared::JobEntry> {
        self.entries.get(id).await.ok().flatten()
    }
}

/// Counts as long as it lives.
#[derive(Debug)]
pub(crate) struct Busy {
    world: Arc<World>,
    count: fn(&World) -> &AtomicUsize,
}

impl Busy {
    fn begin(world: &Arc<World>, count: fn(&World) -> &AtomicUsize) -> Self {
        count(world).fetch_add(1, Ordering::Relaxed);
        Self { world: Arc::clone(world), count }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        (self.count)(&self.world).fetch_sub(1, Ordering::Relaxed);
        self.world.news.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
