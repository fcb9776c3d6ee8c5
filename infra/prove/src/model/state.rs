//! A state of the model: the entry, the copies of its message, and whoever
//! has one of them in hand.
//!
//! Every time is counted from the present, so that states which differ only
//! in when they are reached count as one.

use std::hash::{DefaultHasher, Hash, Hasher};

use shared::State as EntryState;

use super::entry::{Entry, Millis};
use super::replay::{Answer, Call, Invocation, What};

/// Everything that decides what can happen next, and what was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) entry: Option<Entry>,
    pub(crate) copies: Vec<Copy>,
    /// Dead letters that consumers sent and nobody redrove.
    pub(crate) letters: u8,
    /// Calls that were given up and may still take effect.
    pub(crate) late: Vec<Late>,
    pub(crate) left: Left,
    pub(crate) ledger: Ledger,
}

/// One copy of the job's message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Copy {
    pub(crate) place: Place,
    /// When the queue shows it (again).
    pub(crate) visible_in: Millis,
    pub(crate) receives: u32,
    pub(crate) sent_at: Millis,
    pub(crate) workers: Vec<Worker>,
}

/// Where a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Queue,
    DeadLetterQueue,
    /// It was acknowledged, or redriven as another message.
    Gone,
}

/// An invocation that has a copy in hand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) invocation: Invocation,
    /// By how much its clock is ahead.
    pub(crate) skew: Millis,
    /// How long ago it began.
    pub(crate) age: Millis,
    pub(crate) answers: Vec<Answer>,
    pub(crate) phase: Phase,
    /// Whether its handler may have had its effect.
    pub(crate) has_effect: bool,
    /// Whether it wrote `succeeded`.
    pub(crate) has_completed: bool,
    /// Whether it put the message into the dead-letter queue.
    pub(crate) has_sent_letter: bool,
}

/// What a worker is at. Moments are counted from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It is about to start its handler.
    Starting,
    /// It runs its handler, or waits.
    Busy { until: Millis, then: What, runs_handler: bool },
    /// It made a call that was neither executed nor answered yet.
    Calling { call: Call, since: Millis },
    /// It is about to answer Lambda.
    Answering { acknowledges: bool },
    /// Its process stands still; Lambda will kill it.
    Stalled { runs_handler: bool },
}

/// A call whose caller does not wait for it any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Late {
    pub(crate) call: Call,
    pub(crate) age: Millis,
}

/// How much may still go wrong, or be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) faults: u8,
    pub(crate) cancels: u8,
    pub(crate) redrives: u8,
}

/// What happened, as far as a promise speaks of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Ledger {
    /// Attempts that may have had their effect; two stand for any more.
    pub(crate) effects: u8,
    /// Of these, attempts that stored their completion or still may.
    pub(crate) open: u8,
    /// A completion was stored.
    pub(crate) is_completed: bool,
    /// A fault hit an invocation that had a copy's last receive.
    pub(crate) last_receive_was_hit: bool,
    /// A handler said that no retry can help, and nobody redrove the job since.
    pub(crate) has_failed_for_good: bool,
    /// A call took effect after its caller had given it up.
    pub(crate) had_late_effect: bool,
    pub(crate) breach: Option<Breach>,
}

/// A promise that a step broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    RanAfterCompletion,
    RanAfterCancellation,
    RanAfterFailure,
    AcknowledgedForNothing,
}

impl Worker {
    pub(crate) fn runs_handler(&self) -> bool {
        match self.phase {
            Phase::Busy { runs_handler, .. } | Phase::Stalled { runs_handler } => runs_handler,
            Phase::Starting => true,
            Phase::Calling { .. } | Phase::Answering { .. } => false,
        }
    }

    /// From times of the invocation to times of the model.
    pub(crate) fn shift(&self) -> Millis {
        self.skew - self.age
    }
}

impl State {
    pub(crate) fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.copies.iter().flat_map(|copy| &copy.workers)
    }

    pub(crate) fn entry_state(&self) -> Option<EntryState> {
        self.entry.map(|entry| entry.state)
    }

    /// Whether nothing more happens by itself.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_queued = |copy: &Copy| copy.place == Place::Queue;
        !self.copies.iter().any(is_queued) && self.workers().next().is_none()
    }

    /// Messages in the dead-letter queue.
    pub(crate) fn dead_letters(&self) -> usize {
        let is_dead = |copy: &&Copy| copy.place == Place::DeadLetterQueue;
        usize::from(self.letters) + self.copies.iter().filter(is_dead).count()
    }

    /// The smallest token that means nothing yet.
    pub(crate) fn unused_token(&self) -> u8 {
        let in_entry = self.entry.and_then(|entry| entry.token);
        let in_use: Vec<_> = self.tokens_in_hand().chain(in_entry).collect();
        (1..u8::MAX).find(|token| !in_use.contains(token)).unwrap_or(u8::MAX)
    }

    /// The tokens that somebody may still write, or compare.
    pub(crate) fn tokens_in_hand(&self) -> impl Iterator<Item = u8> {
        let late = self.late.iter().filter_map(|late| match late.call {
            Call::Put { entry, .. } => entry.token,
            Call::Settle { token, .. } => Some(token),
            Call::Get | Call::ChangeVisibility { .. } | Call::DeadLetter => None,
        });
        let seen = self.workers().flat_map(|worker| &worker.answers).filter_map(seen_token);
        self.workers().map(|worker| worker.invocation.token).chain(late).chain(seen)
    }
}

fn seen_token((_, reply): &Answer) -> Option<u8> {
    use super::replay::Reply;
    match reply {
        Reply::Refused(entry) | Reply::Entry(entry) => entry.and_then(|entry| entry.token),
        Reply::Written | Reply::Done | Reply::Throttled | Reply::Unanswered | Reply::Hangs => None,
    }
}

/// The copies have no order: states in which two of them have changed places
/// count as one.
impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { entry, copies, letters, late, left, ledger } = self;
        let mut copies: Vec<_> = copies.iter().map(hash_of).collect();
        copies.sort_unstable();
        (entry, copies, letters, late, left, ledger).hash(state);
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
