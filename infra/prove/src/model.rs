//! Checks the claim protocol in every order of events, within bounds.
//!
//! The code under check is the real one: [`consumer::Consumer::handle`], run
//! anew for every step (`replay`), over the transitions of the in-memory job
//! table (`entry`). What surrounds it is modelled: SQS, Lambda, clients and
//! operators, clocks that disagree, calls and processes that fail (`steps`, and
//! what they lead to: `effects`, `changes`).
//!
//! Left out: several records in one invocation, entries that expire or are
//! deleted, and messages of another payload.

mod changes;
mod effects;
mod entry;
mod promises;
mod replay;
mod script;
mod state;
mod steps;
mod trace;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use self::changes::beginning;
use self::entry::Entry;
use self::replay::Replays;
use self::state::State;
use self::steps::{Action, Steps};

/// How far the check goes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Copies of the message that are sent.
    #[arg(long, default_value_t = 2)]
    pub(crate) copies: usize,
    /// Invocations at the same time.
    #[arg(long, default_value_t = 2)]
    pub(crate) workers: usize,
    /// Receives of each copy.
    #[arg(long, default_value_t = 2)]
    pub(crate) receives: u32,
    /// Things that go wrong, of any kind.
    #[arg(long, default_value_t = 2)]
    pub(crate) faults: u8,
    /// Cancellations by the client.
    #[arg(long, default_value_t = 1)]
    pub(crate) cancels: u8,
    /// Redrives by a person.
    #[arg(long, default_value_t = 1)]
    pub(crate) redrives: u8,
    /// Lets clocks disagree by up to two seconds.
    #[arg(long)]
    pub(crate) skew: bool,
    /// Lets other things happen while a call is on its way, for as long as a
    /// call may last.
    #[arg(long)]
    pub(crate) slow_calls: bool,
    /// Threads that search. With one, the history of a broken promise is the
    /// shortest that there is.
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,
}

/// The protocol for one kind of job.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) steps: Steps,
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// The producer wrote the entry; or it could not, and only the message
    /// decided.
    fn init_states(&self) -> Vec<State> {
        [Some(Entry::QUEUED), None].map(|entry| beginning(&self.steps.bounds, entry)).into()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.steps.actions(state));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.steps.next(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}

/// What a check found.
#[derive(Debug)]
pub(crate) struct Report {
    states: usize,
    transitions: usize,
    depth: usize,
    replays: usize,
    took: Duration,
    /// The promises that do not hold, each with the history that shows it; and
    /// what could not be reached.
    problems: Vec<String>,
}

fn is_promise(name: &str) -> bool {
    let mut properties = promises::properties().into_iter();
    properties.any(|property| {
        property.name == name && matches!(property.expectation, Expectation::Always)
    })
}

/// Checks one kind of job.
pub(crate) fn check(bounds: Bounds, hold: bool) -> Report {
    replay::hush();
    let began = Instant::now();
    let steps = Steps { bounds, hold, replays: Replays::default() };
    let checker = Protocol { steps }
        .checker()
        .threads(bounds.threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let mut found = checker.discoveries();
    // A search that found something ended early.
    let is_complete = found.keys().all(|name| !is_promise(name));
    let problems = promises::properties().into_iter().filter_map(|property| {
        match (property.expectation, found.remove(property.name)) {
            (Expectation::Sometimes, None) if is_complete => {
                Some(format!("never reached: {}", property.name))
            }
            (Expectation::Sometimes, _) | (_, None) => None,
            (_, Some(path)) => Some(format!("BROKEN: {}\n{}", property.name, trace::history(path))),
        }
    });
    Report {
        problems: problems.collect(),
        states: checker.unique_state_count(),
        transitions: checker.state_count(),
        depth: checker.max_depth(),
        replays: checker.model().steps.replays.count(),
        took: began.elapsed(),
    }
}

/// Checks kinds that are retried and kinds that are held, and says what came
/// of it.
///
/// # Errors
///
/// A promise does not hold.
#[expect(clippy::print_stdout, reason = "the figures are what the command is for")]
pub(crate) fn run(bounds: Bounds) -> Result<()> {
    println!("{bounds:?}");
    let mut problems = 0;
    for (name, hold) in [("retried", false), ("held", true)] {
        let report = check(bounds, hold);
        println!(
            "kinds that are {name} when interrupted: {} states, {} transitions, {} steps deep, \
             {} replays of the consumer, {:.1} s",
            report.states,
            report.transitions,
            report.depth,
            report.replays,
            report.took.as_secs_f64(),
        );
        for problem in &report.problems {
            println!("{problem}");
        }
        problems += report.problems.len();
    }
    if problems > 0 {
        bail!("{problems} problems");
    }
    println!("every promise holds in every one of these states");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        copies: 2,
        workers: 2,
        receives: 2,
        faults: 1,
        cancels: 0,
        redrives: 0,
        skew: false,
        slow_calls: false,
        threads: 2,
    };

    fn check_promises(hold: bool) {
        let report = check(BOUNDS, hold);
        assert_eq!(report.problems, Vec::<String>::new());
    }

    #[test]
    fn every_order_keeps_the_promises_for_kinds_that_are_retried() {
        check_promises(false);
    }

    #[test]
    fn every_order_keeps_the_promises_for_kinds_that_are_held() {
        check_promises(true);
    }
}
