//! What a step leads to.

use shared::State as EntryState;

use super::entry::{Millis, Settling, cancel, execute};
use super::replay::{Call, Invocation, Next, Reply, Step, TIMEOUT, What};
use super::state::{Breach, Late, Phase, Place, State, Worker};
use super::steps::{Action, At, How, Steps};

/// How long SQS hides a message that was received: six times the function's
/// timeout, as the template has it.
const VISIBILITY: Millis = 6 * TIMEOUT;

impl Steps {
    /// The state after `action`.
    pub(crate) fn next(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        match action {
            Action::Deliver { copy, skew } => self.deliver(&mut state, copy, skew)?,
            Action::Bury { copy } => state.copies.get_mut(copy)?.bury(),
            Action::Reply { worker, how } => self.reply(&mut state, worker, how)?,
            Action::Run { worker, step } => self.run(&mut state, worker, step)?,
            Action::Wake { worker } => wake(&mut state, worker)?,
            Action::Answer { worker } => answer(&mut state, worker)?,
            Action::Crash { worker } => {
                state.fault(worker)?;
                end(&mut state, worker)?;
            }
            Action::Stall { worker } => {
                state.fault(worker)?;
                let worker = state.worker_mut(worker)?;
                worker.phase = Phase::Stalled { runs_handler: worker.runs_handler() };
            }
            Action::Kill { worker } => end(&mut state, worker)?,
            Action::TakeEffect { late } => {
                let late = state.late.remove(late);
                let (entry, reply) = execute(state.entry, late.call);
                state.ledger.had_late_effect |= reply == Reply::Written;
                state.note_completion(late.call, reply);
                state.entry = entry;
            }
            Action::Cancel { skew } => {
                state.left.cancels -= 1;
                state.entry = cancel(state.entry, skew);
            }
            Action::Redrive { copy } => {
                state.copies.get_mut(copy)?.place = Place::Gone;
                state.redrive();
            }
            Action::RedriveLetter => {
                state.letters -= 1;
                state.redrive();
            }
            Action::Wait { millis } => state.pass(millis),
        }
        state.forget(self.hold);
        Some(state)
    }

    fn deliver(&self, state: &mut State, copy: usize, skew: Millis) -> Option<()> {
        let token = state.unused_token();
        let copy = state.copies.get_mut(copy)?;
        copy.receives += 1;
        copy.visible_in = VISIBILITY;
        let invocation = Invocation {
            receive: copy.receives,
            max_receive_count: self.bounds.receives,
            step: Step::Succeed,
            hold: self.hold,
            token,
            sent_at: copy.sent_at - skew,
        };
        let next = self.replays.next(invocation, &[]);
        let mut worker = Worker {
            invocation,
            skew,
            age: 0,
            answers: Vec::new(),
            phase: Phase::Answering { acknowledges: false },
            has_effect: false,
            has_completed: false,
            has_sent_letter: false,
        };
        worker.phase = phase(&worker, next);
        copy.workers.push(worker);
        Some(())
    }

    /// Carries out a worker's call, and lets it go on with what it is answered.
    fn reply(&self, state: &mut State, at: At, how: How) -> Option<()> {
        if how != How::Answered {
            state.fault(at)?;
        }
        let worker = state.worker(at)?.clone();
        let Phase::Calling { call, .. } = worker.phase else { return None };
        let shift = worker.shift();
        let mut reply = Reply::Hangs;
        if how.takes_effect() {
            let entry;
            (entry, reply) = execute(state.entry, call.shifted(shift));
            state.entry = entry;
            state.note_completion(call, reply);
            take_effect(state, at, call, reply)?;
        }
        let reply = match how {
            How::Answered => reply.shifted(-shift),
            How::AnswerLost | How::Lost | How::GivenUp => Reply::Unanswered,
            How::Throttled => Reply::Throttled,
            How::Hangs | How::HangsAfterEffect => Reply::Hangs,
        };
        if how == How::GivenUp {
            state.late.push(Late { call: call.shifted(shift), age: 0 });
        }
        let had_run = self.replays.next(worker.invocation, &worker.answers).has_run;
        let worker = state.worker_mut(at)?;
        worker.answers.push((worker.age, reply));
        let next = self.replays.next(worker.invocation, &worker.answers);
        let starts = next.has_run && !had_run;
        worker.phase = if starts { Phase::Starting } else { phase(worker, next) };
        Some(())
    }

    /// Starts a handler that will do `step`.
    fn run(&self, state: &mut State, at: At, step: Step) -> Option<()> {
        if state.ledger.is_completed {
            state.ledger.breach = Some(Breach::RanAfterCompletion);
        } else if state.entry_state() == Some(EntryState::Cancelled) {
            state.ledger.breach = Some(Breach::RanAfterCancellation);
        } else if self.hold && state.ledger.has_failed_for_good {
            state.ledger.breach = Some(Breach::RanAfterFailure);
        }
        let worker = state.worker_mut(at)?;
        worker.invocation.step = step;
        let next = self.replays.next(worker.invocation, &worker.answers);
        worker.phase = Phase::Busy { until: next.at, then: next.what, runs_handler: true };
        worker.has_effect = !step.is_without_effect();
        state.ledger.begin(u8::from(!step.is_without_effect()));
        Some(())
    }
}

/// What a call does beside the entry.
fn take_effect(state: &mut State, at: At, call: Call, reply: Reply) -> Option<()> {
    match call {
        Call::ChangeVisibility { seconds } => {
            state.copies.get_mut(at.0)?.visible_in = Millis::try_from(seconds).ok()? * 1000;
        }
        Call::DeadLetter => {
            state.letters += 1;
            state.worker_mut(at)?.has_sent_letter = true;
        }
        Call::Settle { settlement: Settling::Complete, .. } => {
            state.worker_mut(at)?.has_completed |= reply == Reply::Written;
        }
        Call::Put { .. } | Call::Get | Call::Settle { .. } => {}
    }
    Some(())
}

/// What a worker is at that will do `next`.
fn phase(worker: &Worker, next: Next) -> Phase {
    if next.at > worker.age {
        return Phase::Busy { until: next.at, then: next.what, runs_handler: false };
    }
    phase_of(next.what, worker.age)
}

fn phase_of(what: What, since: Millis) -> Phase {
    match what {
        What::Call(call) => Phase::Calling { call, since },
        What::Answer { acknowledges } => Phase::Answering { acknowledges },
    }
}

/// A handler's run, or a wait, is over.
fn wake(state: &mut State, at: At) -> Option<()> {
    let worker = state.worker_mut(at)?;
    let Phase::Busy { then, runs_handler, .. } = worker.phase else { return None };
    worker.phase = phase_of(then, worker.age);
    let has_failed = runs_handler && worker.invocation.step == Step::FailForGood;
    // A handler that did not say that it was done stores no completion.
    let is_over = runs_handler && worker.has_effect && worker.invocation.step != Step::Succeed;
    if is_over {
        worker.has_effect = false;
        state.ledger.end(1);
    }
    state.ledger.has_failed_for_good |= has_failed;
    Some(())
}

/// Lambda gets the answer, and deletes the message or leaves it.
fn answer(state: &mut State, at: At) -> Option<()> {
    let worker = state.worker(at)?;
    let Phase::Answering { acknowledges } = worker.phase else { return None };
    if acknowledges {
        let is_done =
            matches!(state.entry_state(), Some(EntryState::Succeeded | EntryState::Cancelled));
        if !is_done && !worker.has_sent_letter {
            state.ledger.breach = Some(Breach::AcknowledgedForNothing);
        }
        let copy = state.copies.get_mut(at.0)?;
        if copy.place == Place::Queue {
            copy.place = Place::Gone;
        }
    }
    end(state, at)
}

/// A worker is no more, and with it what it knew.
fn end(state: &mut State, (copy, place): At) -> Option<()> {
    let workers = &mut state.copies.get_mut(copy)?.workers;
    let worker = (place < workers.len()).then(|| workers.remove(place))?;
    // A handler that would have said that nothing happened did not get to say it.
    let was_cut_short = worker.runs_handler() && !worker.has_effect;
    state.ledger.begin(u8::from(was_cut_short));
    let has_effect = worker.has_effect || was_cut_short;
    state.ledger.end(u8::from(has_effect && !worker.has_completed));
    Some(())
}
