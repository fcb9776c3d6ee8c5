//! A path of the model, for people to read.

use std::fmt::{self, Display, Formatter, Write};

use stateright::Path;

use super::entry::{Entry, Millis, Settling};
use super::replay::{Call, Step, What};
use super::state::{Phase, Place, State, Worker};
use super::steps::{Action, At, How};

/// The steps of `path`, each with what was there after it.
pub(crate) fn history(path: Path<State, Action>) -> String {
    let mut text = String::new();
    let mut now = 0;
    let steps = path.into_vec();
    for (position, (state, _)) in steps.iter().enumerate() {
        let step = position.checked_sub(1).and_then(|earlier| steps.get(earlier));
        if let Some((before, Some(action))) = step {
            if let Action::Wait { millis } = action {
                now += millis;
            }
            let told = Told { before, action: *action };
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{position:>3}. {} {told}", seconds(now));
        }
        let _ = writeln!(text, "     {state}");
    }
    text
}

fn seconds(millis: Millis) -> String {
    format!("{}.{:03} s", millis / 1000, (millis % 1000).abs())
}

/// An action, and the state in which it is taken.
struct Told<'a> {
    before: &'a State,
    action: Action,
}

impl Told<'_> {
    fn worker(&self, (copy, place): At) -> String {
        let worker = self.before.copies.get(copy).and_then(|copy| copy.workers.get(place));
        let token = worker.map_or(0, |worker| worker.invocation.token);
        format!("invocation {token} (copy {})", copy + 1)
    }

    fn call(&self, (copy, place): At) -> String {
        let worker = self.before.copies.get(copy).and_then(|copy| copy.workers.get(place));
        match worker.map(|worker| worker.phase) {
            Some(Phase::Calling { call, .. }) => name(call),
            _ => "nothing".to_owned(),
        }
    }
}

fn name(call: Call) -> String {
    match call {
        Call::Put { condition, .. } => format!("put ({condition:?})"),
        Call::Get => "get".to_owned(),
        Call::Settle { settlement: Settling::Release { .. }, .. } => "settle (Release)".to_owned(),
        Call::Settle { settlement, .. } => format!("settle ({settlement:?})"),
        Call::ChangeVisibility { seconds } => format!("change of visibility to {seconds} s"),
        Call::DeadLetter => "dead letter".to_owned(),
    }
}

impl Display for Told<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Deliver { copy, skew: 0 } => write!(f, "copy {} is delivered", copy + 1),
            Action::Deliver { copy, skew } => {
                write!(f, "copy {} is delivered, where the clock is {skew} ms ahead", copy + 1)
            }
            Action::Run { worker, step } => {
                write!(f, "{} starts its handler, which will {}", self.worker(worker), step.told())
            }
            Action::Bury { copy } => write!(f, "SQS moves copy {} to the DLQ", copy + 1),
            Action::Reply { worker, how } => {
                write!(f, "{}: {} {}", self.worker(worker), self.call(worker), how.told())
            }
            Action::Wake { worker } => write!(f, "{} goes on", self.worker(worker)),
            Action::Answer { worker } => write!(f, "{} answers Lambda", self.worker(worker)),
            Action::Crash { worker } => write!(f, "{} CRASHES", self.worker(worker)),
            Action::Stall { worker } => write!(f, "{} STANDS STILL", self.worker(worker)),
            Action::Kill { worker } => write!(f, "{} is killed", self.worker(worker)),
            Action::TakeEffect { late } => {
                let call =
                    self.before.late.get(late).map_or_else(String::new, |late| name(late.call));
                write!(f, "the {call} that was given up TAKES EFFECT")
            }
            Action::Cancel { .. } => write!(f, "the client cancels the job"),
            Action::Redrive { copy } => write!(f, "a person redrives copy {}", copy + 1),
            Action::RedriveLetter => write!(f, "a person redrives a dead letter"),
            Action::Wait { millis } => write!(f, "({} pass)", seconds(millis)),
        }
    }
}

impl Step {
    const fn told(self) -> &'static str {
        match self {
            Self::Succeed => "succeed",
            Self::Fail => "fail and may be retried",
            Self::FailForGood => "fail for good",
            Self::Panic => "panic",
            Self::Hang => "hang",
        }
    }
}

impl How {
    const fn told(self) -> &'static str {
        match self {
            Self::Answered => "is answered",
            Self::AnswerLost => "takes effect, its ANSWER IS LOST",
            Self::Throttled => "is THROTTLED",
            Self::Lost => "is LOST",
            Self::GivenUp => "gets NO ANSWER, and may yet take effect",
            Self::Hangs => "HANGS",
            Self::HangsAfterEffect => "takes effect and HANGS",
        }
    }
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.entry {
            Some(entry) => write!(f, "{entry}")?,
            None => write!(f, "no entry")?,
        }
        for (number, copy) in self.copies.iter().enumerate() {
            let number = number + 1;
            match copy.place {
                Place::Queue => write!(f, "; copy {number} received {} times", copy.receives)?,
                Place::DeadLetterQueue => write!(f, "; copy {number} in the DLQ")?,
                Place::Gone => write!(f, "; copy {number} gone")?,
            }
            if copy.visible_in > 0 {
                write!(f, ", visible in {}", seconds(copy.visible_in))?;
            }
            for worker in &copy.workers {
                write!(f, ", in hand: {worker}")?;
            }
        }
        write!(f, "; {} letters; {} effects", self.letters, self.ledger.effects)
    }
}

impl Display for Entry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}", self.state)?;
        if let Some(token) = self.token {
            write!(f, " by {token}")?;
        }
        if let Some(until) = self.lease_until {
            write!(f, " until {}", seconds(until))?;
        }
        if let Some(not_before) = self.not_before {
            write!(f, " not before {}", seconds(not_before))?;
        }
        Ok(())
    }
}

impl Display for Worker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "invocation {} ", self.invocation.token)?;
        match self.phase {
            Phase::Starting => write!(f, "is about to run its handler"),
            Phase::Busy { runs_handler: true, .. } => write!(f, "runs its handler"),
            Phase::Busy { then: What::Call(_) | What::Answer { .. }, .. } => write!(f, "waits"),
            Phase::Calling { call, .. } => write!(f, "calls {}", name(call)),
            Phase::Answering { acknowledges: true } => write!(f, "acknowledges"),
            Phase::Answering { acknowledges: false } => write!(f, "gives back"),
            Phase::Stalled { .. } => write!(f, "stands still"),
        }
    }
}
