//! What can happen in a state.

use super::Bounds;
use super::entry::{Millis, cancel};
use super::replay::{Call, Replays, Reply, Step, TIMEOUT};
use super::state::{Copy, Phase, Place, State, Worker};

/// Clocks disagree by less than two seconds.
pub(crate) const SKEW: Millis = 1_999;

/// After its timeout, Lambda ends a process that stands still within this.
const LATE_KILL: Millis = 3_000;

/// How long one call lasts at most, as the consumer configures the SDK.
const LONGEST_CALL: Millis = 1_800;

/// The number of a copy, and of one of its workers.
pub(crate) type At = (usize, usize);

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// SQS delivers a copy to a new invocation.
    Deliver { copy: usize, skew: Millis },
    /// SQS moves a copy whose receives are used up.
    Bury { copy: usize },
    /// A call is carried out or not, and answered or not.
    Reply { worker: At, how: How },
    /// A handler starts, and will do this.
    Run { worker: At, step: Step },
    /// A handler ends, or a wait.
    Wake { worker: At },
    /// Lambda gets the invocation's answer.
    Answer { worker: At },
    /// The process ends.
    Crash { worker: At },
    /// The process stands still.
    Stall { worker: At },
    /// Lambda ends a process that stands still.
    Kill { worker: At },
    /// A call takes effect that its caller gave up.
    TakeEffect { late: usize },
    /// The client cancels the job.
    Cancel { skew: Millis },
    /// A person redrives a message that SQS moved.
    Redrive { copy: usize },
    /// A person redrives a dead letter that a consumer sent.
    RedriveLetter,
    /// Nothing happens until the next moment that matters.
    Wait { millis: Millis },
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Answered,
    /// It takes effect, and its answer is lost.
    AnswerLost,
    /// It is refused for load.
    Throttled,
    /// It is lost.
    Lost,
    /// Its caller gives it up, and it may take effect later.
    GivenUp,
    /// It neither takes effect nor ends.
    Hangs,
    /// It takes effect, and never ends.
    HangsAfterEffect,
}

impl How {
    pub(crate) const fn takes_effect(self) -> bool {
        matches!(self, Self::Answered | Self::AnswerLost | Self::HangsAfterEffect)
    }
}

/// The model's transitions.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) bounds: Bounds,
    pub(crate) hold: bool,
    pub(crate) replays: Replays,
}

impl Steps {
    /// Everything that can happen in `state`.
    pub(crate) fn actions(&self, state: &State) -> Vec<Action> {
        let urgent = self.urgent(state);
        if !urgent.is_empty() {
            return urgent;
        }
        let mut actions = Vec::new();
        for (number, copy) in state.copies.iter().enumerate() {
            self.of_copy(state, number, copy, &mut actions);
            for (place, worker) in copy.workers.iter().enumerate() {
                of_worker(state, (number, place), worker, &mut actions);
            }
        }
        actions.extend((0..state.late.len()).map(|late| Action::TakeEffect { late }));
        if state.left.cancels > 0 && cancel(state.entry, 0) != state.entry {
            actions.push(Action::Cancel { skew: 0 });
        } else if state.left.cancels > 0 && cancel(state.entry, self.skew()) != state.entry {
            actions.push(Action::Cancel { skew: self.skew() });
        }
        if state.left.redrives > 0 && state.letters > 0 {
            actions.push(Action::RedriveLetter);
        }
        actions.extend(self.wait(state).map(|millis| Action::Wait { millis }));
        actions
    }

    /// What may as well happen at once, because it makes no difference to
    /// anybody else when it does: their other orders are left out.
    fn urgent(&self, state: &State) -> Vec<Action> {
        for (number, copy) in state.copies.iter().enumerate() {
            let is_visible = copy.place == Place::Queue && copy.visible_in <= 0;
            if is_visible && copy.receives >= self.bounds.receives {
                return vec![Action::Bury { copy: number }];
            }
            for (place, worker) in copy.workers.iter().enumerate() {
                let worker_at = (number, place);
                match worker.phase {
                    Phase::Starting => {
                        return Step::ALL
                            .map(|step| Action::Run { worker: worker_at, step })
                            .into();
                    }
                    Phase::Answering { .. } => {
                        let crash = Action::Crash { worker: worker_at };
                        let crash = (state.left.faults > 0).then_some(crash);
                        return [Action::Answer { worker: worker_at }]
                            .into_iter()
                            .chain(crash)
                            .collect();
                    }
                    Phase::Busy { .. } | Phase::Calling { .. } | Phase::Stalled { .. } => {}
                }
            }
        }
        Vec::new()
    }

    fn of_copy(&self, state: &State, number: usize, copy: &Copy, actions: &mut Vec<Action>) {
        match copy.place {
            Place::Queue if copy.visible_in > 0 => {}
            Place::Queue if state.workers().count() < self.bounds.workers => {
                actions.extend(self.skews().map(|skew| Action::Deliver { copy: number, skew }));
            }
            Place::DeadLetterQueue if state.left.redrives > 0 => {
                actions.push(Action::Redrive { copy: number });
            }
            Place::Queue | Place::DeadLetterQueue | Place::Gone => {}
        }
    }

    fn skew(&self) -> Millis {
        if self.bounds.skew { SKEW } else { 0 }
    }

    fn skews(&self) -> impl Iterator<Item = Millis> + use<> {
        [Some(0), (self.skew() > 0).then_some(self.skew())].into_iter().flatten()
    }

    /// How long nothing may happen; `None` if something must happen first.
    fn wait(&self, state: &State) -> Option<Millis> {
        let mut moments = Vec::new();
        for copy in &state.copies {
            moments.extend(
                (copy.place == Place::Queue && copy.visible_in > 0).then_some(copy.visible_in),
            );
        }
        for worker in state.workers() {
            let due = self.due(worker)? - worker.age;
            if due <= 0 {
                return None;
            }
            moments.push(due);
        }
        if state.is_at_rest() {
            return None;
        }
        let is_seen = |copy: &Copy| copy.place == Place::Queue && copy.visible_in <= 0;
        if state.left.cancels == 0 && state.late.is_empty() && !state.copies.iter().any(is_seen) {
            // Nobody looks at the entry at its own moments.
            return moments.into_iter().min();
        }
        for skew in self.skews() {
            let entry = state.entry;
            let lease_over =
                entry.and_then(|entry| entry.lease_until).map(|until| until + 1 - skew);
            let wait_over = entry.and_then(|entry| entry.not_before).map(|until| until - skew);
            moments.extend(lease_over.into_iter().chain(wait_over).filter(|moment| *moment > 0));
        }
        moments.into_iter().min()
    }

    /// Until which moment of its own a worker may be left alone; `None` if it
    /// must do something now.
    fn due(&self, worker: &Worker) -> Option<Millis> {
        match worker.phase {
            Phase::Busy { until, .. } => Some(until),
            Phase::Calling { since, .. } => {
                if !self.bounds.slow_calls {
                    return None;
                }
                let answers = with(&worker.answers, (worker.age, Reply::Hangs));
                let gives_up_at = self.replays.next(worker.invocation, &answers).at;
                Some(gives_up_at.min(since + LONGEST_CALL))
            }
            Phase::Starting | Phase::Answering { .. } => None,
            Phase::Stalled { .. } => Some(TIMEOUT + LATE_KILL),
        }
    }
}

fn of_worker(state: &State, at: At, worker: &Worker, actions: &mut Vec<Action>) {
    let may_fail = state.left.faults > 0;
    match worker.phase {
        Phase::Busy { until, .. } if until <= worker.age => {
            actions.push(Action::Wake { worker: at });
        }
        Phase::Starting | Phase::Busy { .. } | Phase::Answering { .. } => {}
        Phase::Calling { call, .. } => {
            let faults = faults(call).iter().filter(|_| may_fail);
            let hows = [How::Answered].into_iter().chain(faults.copied());
            actions.extend(hows.map(|how| Action::Reply { worker: at, how }));
        }
        Phase::Stalled { .. } => {
            actions
                .extend((worker.age >= TIMEOUT + LATE_KILL).then_some(Action::Kill { worker: at }));
            return;
        }
    }
    if may_fail {
        actions.push(Action::Crash { worker: at });
        // A process that is stopped while it runs no handler does no more than
        // one that ended.
        actions.extend(worker.runs_handler().then_some(Action::Stall { worker: at }));
    }
}

/// What can go wrong with a call; what makes no difference to the code is left
/// out.
const fn faults(call: Call) -> &'static [How] {
    match call {
        Call::Put { .. } | Call::Settle { .. } => &[
            How::AnswerLost,
            How::Throttled,
            How::Lost,
            How::GivenUp,
            How::Hangs,
            How::HangsAfterEffect,
        ],
        Call::DeadLetter => &[How::AnswerLost, How::Throttled, How::Hangs],
        Call::Get | Call::ChangeVisibility { .. } => &[How::Throttled],
    }
}

fn with(answers: &[(Millis, Reply)], last: (Millis, Reply)) -> Vec<(Millis, Reply)> {
    answers.iter().copied().chain([last]).collect()
}
