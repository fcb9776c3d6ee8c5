//! How a state changes: something is counted, time passes, and what makes no
//! difference any more is forgotten.

use shared::State as EntryState;

use super::Bounds;
use super::entry::{Entry, Millis, Settling};
use super::replay::{Call, Reply, Step};
use super::state::{Copy, Ledger, Left, Phase, Place, State, Worker};
use super::steps::{At, SKEW};

/// For how long after it was given up a call may take effect: longer than a
/// lease lasts.
const LATEST_EFFECT: Millis = 20_000;

/// A moment that is this long ago is as good as any earlier one.
const LONG_AGO: Millis = -2 * SKEW - 1;

/// When the copies of the message were sent: longer ago than anything takes
/// that happens in the model.
const LONG_BEFORE: Millis = -60 * 60 * 1000;

/// The token of a lease whose owner is gone.
const NOBODYS_TOKEN: u8 = 0;

impl Ledger {
    /// So many attempts begin that may have an effect. More than two are as
    /// bad as two.
    pub(crate) fn begin(&mut self, attempts: u8) {
        self.effects = (self.effects + attempts).min(2);
        self.open += attempts;
    }

    /// So many of them end without having stored a completion.
    pub(crate) fn end(&mut self, attempts: u8) {
        self.open -= attempts;
    }
}

impl Copy {
    const fn sent_at(sent_at: Millis) -> Self {
        Self { place: Place::Queue, visible_in: 0, receives: 0, sent_at, workers: Vec::new() }
    }

    pub(crate) fn bury(&mut self) {
        self.place = Place::DeadLetterQueue;
    }
}

impl State {
    pub(crate) fn worker(&self, (copy, place): At) -> Option<&Worker> {
        self.copies.get(copy)?.workers.get(place)
    }

    pub(crate) fn worker_mut(&mut self, (copy, place): At) -> Option<&mut Worker> {
        self.copies.get_mut(copy)?.workers.get_mut(place)
    }

    /// Something goes wrong with a worker.
    pub(crate) fn fault(&mut self, at: At) -> Option<()> {
        self.left.faults -= 1;
        let invocation = self.worker(at)?.invocation;
        self.ledger.last_receive_was_hit |= invocation.receive >= invocation.max_receive_count;
        Some(())
    }

    pub(crate) fn note_completion(&mut self, call: Call, reply: Reply) {
        let completes = matches!(call, Call::Settle { settlement: Settling::Complete, .. });
        self.ledger.is_completed |= completes && reply == Reply::Written;
    }

    /// A person sends a message again.
    pub(crate) fn redrive(&mut self) {
        self.left.redrives -= 1;
        self.ledger.has_failed_for_good = false;
        self.copies.push(Copy::sent_at(0));
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, millis: Millis) {
        self.entry = self.entry.map(|entry| entry.shifted(-millis));
        for copy in &mut self.copies {
            copy.visible_in -= millis;
            copy.sent_at = (copy.sent_at - millis).max(LONG_BEFORE);
            for worker in &mut copy.workers {
                worker.age += millis;
            }
        }
        for late in &mut self.late {
            late.call = late.call.shifted(-millis);
            late.age += millis;
        }
        self.late.retain(|late| late.age <= LATEST_EFFECT);
    }

    /// Drops what makes no difference any more.
    pub(crate) fn forget(&mut self, hold: bool) {
        for copy in &mut self.copies {
            if !hold {
                copy.sent_at = LONG_BEFORE;
            }
            copy.visible_in = copy.visible_in.max(0);
            if copy.place != Place::Queue {
                (copy.visible_in, copy.receives, copy.sent_at) = (0, 0, LONG_BEFORE);
            }
        }
        for worker in self.copies.iter_mut().flat_map(|copy| &mut copy.workers) {
            if matches!(worker.phase, Phase::Answering { .. }) {
                (worker.age, worker.answers, worker.skew) = (0, Vec::new(), 0);
                worker.invocation.step = Step::Succeed;
            }
        }
        let is_redriven = self.copies.iter().any(|copy| copy.sent_at > LONG_BEFORE);
        if !hold || !is_redriven && self.left.redrives == 0 {
            // Nobody asks, or whenever it failed was after every copy was sent.
            let failed_at = |entry: &mut Entry| entry.failed_at.as_mut().map(|moment| *moment = 0);
            self.entry.as_mut().and_then(failed_at);
        }
        let is_known = self
            .tokens_in_hand()
            .any(|token| self.entry.is_some_and(|entry| entry.token == Some(token)));
        if let Some(entry) = &mut self.entry {
            if !is_known {
                entry.token = entry.token.map(|_| NOBODYS_TOKEN);
            }
            entry.last_attempt &= entry.state == EntryState::Running;
            entry.lease_until = entry.lease_until.map(|until| until.max(LONG_AGO));
            entry.not_before = entry.not_before.filter(|until| *until > LONG_AGO);
        }
    }
}

/// The state in which the job was accepted and nothing else happened.
pub(crate) fn beginning(bounds: &Bounds, entry: Option<Entry>) -> State {
    State {
        entry,
        copies: vec![Copy::sent_at(LONG_BEFORE); bounds.copies],
        letters: 0,
        late: Vec::new(),
        left: Left { faults: bounds.faults, cancels: bounds.cancels, redrives: bounds.redrives },
        ledger: Ledger::default(),
    }
}
