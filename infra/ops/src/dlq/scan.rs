//! Looks at all dead letters without taking them off their queue.
//!
//! Each is hidden while the scan goes on, so that it is seen once, and shown
//! again when the scan ends: also when it fails, or somebody stops it. Where
//! even that fails, SQS shows it again after [`Bounds::hidden_for`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::{BoxFuture, Shared, join_all};
use futures::{StreamExt, stream};
use tokio::time::{sleep, timeout};

use super::dead_letters;
use super::letter::Letter;
use super::queues::{Queues, Refused};
use crate::messages::MOST_ENTRIES;
use crate::output::say;

/// Calls that are made side by side.
const CALLS: usize = 8;

/// How long whoever has stopped us waits for what is under way, and then for
/// what is hidden to be shown again.
const END_WITHIN: Duration = Duration::from_secs(15);

/// What a scan is bound by.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many messages of a queue SQS lets be in flight.
    pub in_flight: usize,
    /// How long a dead letter stays hidden without another word. With half of it
    /// left, the time is prolonged.
    pub hidden_for: Duration,
}

impl Bounds {
    /// Those of SQS, and a time that a slow call does not use up.
    ///
    /// Source: Amazon SQS message quotas.
    pub const DEFAULT: Self = Self { in_flight: 120_000, hidden_for: Duration::from_mins(3) };
}

/// Resolves when somebody wants us to stop.
pub type Stop = Shared<BoxFuture<'static, ()>>;

/// A scan that is under way.
#[derive(Debug)]
pub struct Scan<'a> {
    queues: &'a Queues,
    stop: Stop,
    hidden_for: Duration,
    /// How many dead letters may be hidden at once.
    room: usize,
    hidden: RefCell<HashMap<String, Hidden>>,
    ended: Cell<Option<End>>,
}

#[derive(Clone, Debug)]
struct Hidden {
    receipt: String,
    until: Instant,
}

/// Why a walk through the dead letters ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that were visible have been seen.
    Complete,
    /// What was looked for is found.
    Found,
    /// SQS hides no more of them.
    Full,
    /// Somebody wants us to stop.
    Stopped,
    /// A call failed.
    Failed,
}

/// Opens a scan for `work`, which can take as long as it likes, and shows what
/// is hidden again when it has ended.
///
/// # Errors
///
/// That of `work`, or the queue did not answer.
pub async fn scan<T>(
    queues: &Queues,
    bounds: Bounds,
    stop: Stop,
    work: impl AsyncFnOnce(&Scan<'_>) -> Result<T>,
) -> Result<T> {
    let others = queues.in_flight().await?;
    if others > 0 {
        say(&format!(
            "{} hidden just now, by somebody who looks at them or by a command that was cut off: \
             not among these",
            dead_letters(others)
        ));
    }
    let Bounds { in_flight, hidden_for } = bounds;
    let room = in_flight.saturating_sub(others);
    let (hidden, ended) = (RefCell::default(), Cell::default());
    let scan = Scan { queues, stop, hidden_for, room, hidden, ended };
    let result = tokio::select! {
        result = work(&scan) => result,
        never = scan.keep_hidden() => match never {},
    };
    scan.show_again().await;
    result
}

impl Scan<'_> {
    /// Takes `visit` through all dead letters, ten at a time and several times
    /// side by side. What it does not delete stays hidden until the scan ends.
    ///
    /// # Errors
    ///
    /// That of `visit`, or the queue did not answer.
    pub async fn walk(&self, visit: impl AsyncFn(Vec<Letter>) -> Result<()>) -> Result<End> {
        let walks = join_all((0..CALLS).map(|_| self.walk_alone(&visit)));
        tokio::pin!(walks);
        let ends = tokio::select! {
            ends = &mut walks => Some(ends),
            () = self.stop.clone() => {
                self.ended.set(Some(End::Stopped));
                // What is half done gets its time, unless nobody answers.
                timeout(END_WITHIN, walks).await.ok()
            }
        };
        ends.into_iter().flatten().collect::<Result<()>>()?;
        Ok(self.ended.get().unwrap_or(End::Complete))
    }

    async fn walk_alone(&self, visit: &impl AsyncFn(Vec<Letter>) -> Result<()>) -> Result<()> {
        let walk = async {
            while self.ended.get().is_none() {
                // Each of the others may be about to receive ten.
                if self.hidden.borrow().len() + CALLS * MOST_ENTRIES > self.room {
                    self.ended.set(Some(End::Full));
                    break;
                }
                let until = Instant::now() + self.hidden_for;
                let letters = self.queues.receive(self.hidden_for).await?;
                if letters.is_empty() {
                    break;
                }
                visit(self.note(letters, until)).await?;
            }
            Ok(())
        };
        let result = walk.await;
        if result.is_err() {
            // The others finish what they are at, and no more.
            self.ended.set(Some(End::Failed));
        }
        result
    }

    /// Ends the walk early: what was looked for is found.
    pub fn enough(&self) {
        self.ended.set(Some(End::Found));
    }

    /// Resolves when somebody wants us to stop.
    pub fn stopped(&self) -> Stop {
        self.stop.clone()
    }

    /// Notes what is hidden now; those of them that were not seen before.
    fn note(&self, letters: Vec<Letter>, until: Instant) -> Vec<Letter> {
        let mut hidden = self.hidden.borrow_mut();
        let is_new = |letter: &Letter| {
            let (name, receipt) = (letter.message_id.clone(), letter.receipt.clone());
            hidden.insert(name, Hidden { receipt, until }).is_none()
        };
        letters.into_iter().filter(is_new).collect()
    }

    /// Deletes dead letters of this scan, for good. What came of each.
    ///
    /// # Errors
    ///
    /// The queue did not answer. Those of the call may be deleted or not.
    pub async fn delete(&self, message_ids: &[String]) -> Result<Vec<Result<(), Refused>>> {
        let mut outcomes = Vec::new();
        for some in message_ids.chunks(MOST_ENTRIES) {
            let receipts: Vec<_> = {
                let hidden = self.hidden.borrow();
                let receipt = |id: &String| hidden.get(id).map(|it| it.receipt.clone());
                some.iter().map(|id| receipt(id).unwrap_or_default()).collect()
            };
            let receipts: Vec<_> = receipts.iter().map(String::as_str).collect();
            let answers = self.queues.delete(&receipts).await?;
            for (id, answer) in some.iter().zip(&answers) {
                if answer.is_ok() {
                    self.hidden.borrow_mut().remove(id);
                }
            }
            outcomes.extend(answers);
        }
        Ok(outcomes)
    }

    /// Prolongs what would be shown before the scan ends.
    async fn keep_hidden(&self) -> std::convert::Infallible {
        loop {
            sleep(self.hidden_for / 10).await;
            let soon = Instant::now() + self.hidden_for / 2;
            let due: Vec<_> = {
                let hidden = self.hidden.borrow();
                let due = hidden.iter().filter(|(_, hidden)| hidden.until < soon);
                due.map(|(id, hidden)| (id.clone(), hidden.receipt.clone())).collect()
            };
            let until = Instant::now() + self.hidden_for;
            for id in self.change(due, self.hidden_for).await {
                if let Some(hidden) = self.hidden.borrow_mut().get_mut(&id) {
                    hidden.until = until;
                }
            }
        }
    }

    /// Shows all that is hidden, as far as can be.
    async fn show_again(&self) {
        let all: Vec<_> = self.hidden.borrow_mut().drain().collect();
        let count = all.len();
        let all = all.into_iter().map(|(id, hidden)| (id, hidden.receipt)).collect();
        let patience = async {
            self.stop.clone().await;
            sleep(END_WITHIN).await;
        };
        let shown = tokio::select! {
            shown = self.change(all, Duration::ZERO) => shown.len(),
            () = patience => 0,
        };
        let left = count - shown;
        if left > 0 {
            say(&format!(
                "up to {} could not be given back at once; nothing is lost, and SQS shows them \
                 again within {} s",
                dead_letters(left),
                self.hidden_for.as_secs()
            ));
        }
    }

    /// Changes for how long letters are hidden; the ids of those where it worked.
    /// Where it does not, a letter is shown too early or too late, and no harm
    /// is done.
    async fn change(&self, letters: Vec<(String, String)>, hidden_for: Duration) -> Vec<String> {
        let calls = letters.chunks(MOST_ENTRIES).map(async |some| {
            let receipts: Vec<_> = some.iter().map(|(_, receipt)| receipt.as_str()).collect();
            let answers = self.queues.hide(&receipts, hidden_for).await.unwrap_or_default();
            let done = some.iter().zip(answers).filter(|(_, answer)| answer.is_ok());
            done.map(|((id, _), _)| id.clone()).collect::<Vec<_>>()
        });
        stream::iter(calls).buffer_unordered(CALLS).concat().await
    }
}
