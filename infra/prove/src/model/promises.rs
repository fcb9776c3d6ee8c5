//! What must hold in every state, and what must be possible at all.
//!
//! Where a promise has an exception, the exception is a predicate with a name
//! and a reason; nothing else is excused.

use shared::State as EntryState;
use stateright::Property;

use super::Protocol;
use super::state::{Breach, State};

/// The promises, then what the model must be able to reach: a model in which
/// nothing happens would keep every promise.
pub(crate) fn properties() -> Vec<Property<Protocol>> {
    vec![
        Property::always("never two handlers at once", |_, state: &State| {
            state.workers().filter(|worker| worker.runs_handler()).count() <= 1
        }),
        Property::always("a handler that runs owns the entry", |_, state: &State| {
            state.workers().filter(|worker| worker.runs_handler()).all(|worker| {
                state.entry.is_some_and(|entry| {
                    entry.state == EntryState::Running
                        && entry.token == Some(worker.invocation.token)
                })
            })
        }),
        Property::always("no run after a completion", |_, state: &State| {
            state.ledger.breach != Some(Breach::RanAfterCompletion)
        }),
        Property::always("no run after a cancellation", |_, state: &State| {
            state.ledger.breach != Some(Breach::RanAfterCancellation)
        }),
        Property::always("what succeeded stays so", |_, state: &State| {
            !state.ledger.is_completed || state.entry_state() == Some(EntryState::Succeeded)
        }),
        Property::always(
            "a repeat only after an attempt that stored no completion",
            |_, state: &State| state.ledger.open <= 1,
        ),
        Property::always(
            "no repeat of a kind that is held",
            |protocol: &Protocol, state: &State| !protocol.steps.hold || state.ledger.effects <= 1,
        ),
        Property::always(
            "no run of a held kind that failed, without a person",
            |_, state: &State| state.ledger.breach != Some(Breach::RanAfterFailure),
        ),
        Property::always("nothing is acknowledged because it went wrong", |_, state: &State| {
            state.ledger.breach != Some(Breach::AcknowledgedForNothing)
        }),
        Property::always("no job is lost", |_, state: &State| {
            !state.is_at_rest() || has_ended(state)
        }),
        Property::sometimes("succeeds", |_, state: &State| ends_as(state, EntryState::Succeeded)),
        Property::sometimes("fails", |_, state: &State| ends_as(state, EntryState::Failed)),
        Property::sometimes("is cancelled", |protocol: &Protocol, state: &State| {
            protocol.steps.bounds.cancels == 0 || ends_as(state, EntryState::Cancelled)
        }),
        Property::sometimes("is held if its kind says so", |protocol: &Protocol, state: &State| {
            !protocol.steps.hold || ends_as(state, EntryState::Held)
        }),
        Property::sometimes(
            "runs twice unless its kind says not to",
            |protocol: &Protocol, state: &State| protocol.steps.hold || state.ledger.effects > 1,
        ),
        Property::sometimes("is redriven and succeeds", |protocol: &Protocol, state: &State| {
            protocol.steps.bounds.redrives == 0
                || state.left.redrives == 0 && ends_as(state, EntryState::Succeeded)
        }),
    ]
}

fn ends_as(state: &State, wanted: EntryState) -> bool {
    state.is_at_rest() && state.entry_state() == Some(wanted)
}

/// Promise 1, in a state where nothing more happens by itself.
fn has_ended(state: &State) -> bool {
    match state.entry_state() {
        Some(EntryState::Succeeded | EntryState::Cancelled) => true,
        Some(EntryState::Failed | EntryState::Held) => state.dead_letters() > 0,
        Some(EntryState::Queued | EntryState::Running) | None => {
            state.dead_letters() > 0
                && (last_receive_did_not_reach_the_table(state)
                    || a_late_claim_came_after_the_end(state))
        }
    }
}

/// The table was out of reach, or the process died, at a copy's last receive:
/// nobody could write that the job failed. The message is in the dead-letter
/// queue, where a person finds it.
const fn last_receive_did_not_reach_the_table(state: &State) -> bool {
    state.ledger.last_receive_was_hit
}

/// A claim that its invocation had given up took effect when the job, claimed
/// by another one meanwhile, had failed. The entry says `running` without an
/// owner; the message is in the dead-letter queue, where a person finds it.
const fn a_late_claim_came_after_the_end(state: &State) -> bool {
    state.ledger.had_late_effect
}
