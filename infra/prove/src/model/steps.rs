//! What can happen in a state, and what it leads to.

use shared::State as EntryState;

use super::Bounds;
use super::entry::{Entry, Millis, Settling, cancel, execute};
use super::replay::{Call, Invocation, Next, Replays, Reply, Step, TIMEOUT, What};
use super::state::{Breach, Copy, Late, Ledger, Left, Phase, Place, State, Worker};

/// How long SQS hides a message that was received: six times the function's
/// timeout, as the template has it.
const VISIBILITY: Millis = 6 * TIMEOUT;

/// Clocks disagree by less than two seconds.
const SKEW: Millis = 1_999;

/// After its timeout, Lambda ends a process that stands still within this.
const LATE_KILL: Millis = 3_000;

/// How long one call lasts at most, as the consumer configures the SDK.
const LONGEST_CALL: Millis = 1_800;

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
    const fn takes_effect(self) -> bool {
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

impl Ledger {
    /// So many attempts begin that may have an effect. More than two are as
    /// bad as two.
    fn begin(&mut self, attempts: u8) {
        self.effects = (self.effects + attempts).min(2);
        self.open += attempts;
    }

    /// So many of them end without having stored a completion.
    fn end(&mut self, attempts: u8) {
        self.open -= attempts;
    }
}

impl Copy {
    const fn sent_at(sent_at: Millis) -> Self {
        Self { place: Place::Queue, visible_in: 0, receives: 0, sent_at, workers: Vec::new() }
    }

    fn bury(&mut self) {
        self.place = Place::DeadLetterQueue;
    }
}

impl State {
    fn worker(&self, (copy, place): At) -> Option<&Worker> {
        self.copies.get(copy)?.workers.get(place)
    }

    fn worker_mut(&mut self, (copy, place): At) -> Option<&mut Worker> {
        self.copies.get_mut(copy)?.workers.get_mut(place)
    }

    /// Something goes wrong with a worker.
    fn fault(&mut self, at: At) -> Option<()> {
        self.left.faults -= 1;
        let invocation = self.worker(at)?.invocation;
        self.ledger.last_receive_was_hit |= invocation.receive >= invocation.max_receive_count;
        Some(())
    }

    fn note_completion(&mut self, call: Call, reply: Reply) {
        let completes = matches!(call, Call::Settle { settlement: Settling::Complete, .. });
        self.ledger.is_completed |= completes && reply == Reply::Written;
    }

    /// A person sends a message again.
    fn redrive(&mut self) {
        self.left.redrives -= 1;
        self.ledger.has_failed_for_good = false;
        self.copies.push(Copy::sent_at(0));
    }

    /// Lets time pass.
    fn pass(&mut self, millis: Millis) {
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
    fn forget(&mut self, hold: bool) {
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
