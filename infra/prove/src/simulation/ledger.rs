//! Everything that happened in a world, held against the promises.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use consumer::jobs::probe::runs;
use shared::job::Interrupted;
use shared::message::Message;
use shared::table::{PutIf, Settlement};
use shared::{JobEntry, JobId, State, Timestamp};
use uuid::Uuid;

use super::faults::{Counts, Fault};
use super::jobs::Spec;
use super::world::{CLOCK_ERROR, TIMEOUT};

/// How long a thread goes on here whose process was killed: threads of this
/// process stand for those of the world's, and cannot be killed with them. They
/// end while the job's lease still holds.
const ORPHAN: Duration = TIMEOUT.saturating_add(Duration::from_secs(10));

/// What was asked of the table.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Put(PutIf),
    Settle(Uuid, Settlement),
    Cancel,
}

/// What is known of a job.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// What was sent to the queue for it.
    pub(crate) bodies: HashSet<String>,
    /// What its client asked for, once that was accepted.
    pub(crate) accepted: Option<Spec>,
    /// Whether it is held when it is interrupted.
    holds: bool,
    claims: usize,
    /// A person sent a dead letter of it again.
    was_redriven: bool,
    /// Runs that had begun when it succeeded, or when its client was told
    /// that it is cancelled: the last ones.
    last_run: Option<usize>,
    /// When a process was killed that had it in hand.
    killed_at: Option<Timestamp>,
}

/// The book of a world.
#[derive(Debug)]
pub(crate) struct Ledger {
    keeps_history: bool,
    pub(crate) history: Vec<String>,
    pub(crate) faults: Counts,
    pub(crate) violations: Vec<String>,
    /// Messages that were handed to functions.
    pub(crate) deliveries: u64,
    /// Times that a promise was looked at.
    pub(crate) checks: u64,
    pub(crate) jobs: BTreeMap<JobId, Known>,
    pub(crate) strays: Vec<String>,
    /// Bodies that functions sent to the dead letters, by the message they came in.
    letters: HashSet<(String, String)>,
    /// The jobs of invocations under way.
    under_way: HashMap<u64, Vec<JobId>>,
}

impl Ledger {
    pub(crate) fn new(keeps_history: bool) -> Self {
        Self {
            keeps_history,
            history: Vec::new(),
            faults: Counts::new(),
            violations: Vec::new(),
            deliveries: 0,
            checks: 0,
            jobs: BTreeMap::new(),
            strays: Vec::new(),
            letters: HashSet::new(),
            under_way: HashMap::new(),
        }
    }

    pub(crate) fn log(&mut self, at: Duration, line: impl FnOnce() -> String) {
        if self.keeps_history {
            self.history.push(format!("{:>12.3} s  {}", at.as_secs_f64(), line()));
        }
    }

    /// Notes that a promise was looked at, and what was found to be wrong.
    pub(crate) fn check(&mut self, holds: bool, violation: impl FnOnce() -> String) {
        self.checks += 1;
        if !holds {
            let violation = violation();
            if self.keeps_history {
                self.history.push(format!("                VIOLATION: {violation}"));
            }
            self.violations.push(violation);
        }
    }

    pub(crate) fn known(&self, id: JobId) -> Option<&Known> {
        self.jobs.get(&id)
    }

    /// Accepted jobs that have a key or an intent.
    pub(crate) fn named(&self) -> Vec<(JobId, Spec)> {
        let accepted =
            self.jobs.iter().filter_map(|(id, known)| Some((*id, known.accepted.clone()?)));
        accepted.filter(|(_, spec)| spec.is_named()).collect()
    }

    /// The body of some job's message.
    pub(crate) fn any_body(&self) -> Option<String> {
        let bodies = self.jobs.values().filter_map(|known| known.bodies.iter().min());
        bodies.max().cloned()
    }

    fn job(&mut self, id: JobId) -> &mut Known {
        self.jobs.entry(id).or_default()
    }

    /// The message of a job was sent.
    pub(crate) fn sent(&mut self, body: &str) {
        let Ok(message) = Message::decode(body) else { return };
        let known = self.job(message.id);
        known.holds = message.job.interrupted() == Interrupted::Hold;
        known.bodies.insert(body.to_owned());
    }

    /// A client was told 202.
    pub(crate) fn accepted(&mut self, id: JobId, spec: &Spec) {
        self.job(id).accepted = Some(spec.clone());
    }

    /// A client was told that its job is cancelled.
    pub(crate) fn cancelled(&mut self, id: JobId) {
        self.job(id).last_run = Some(runs(id).started);
    }

    pub(crate) fn redriven(&mut self, id: JobId) {
        self.job(id).was_redriven = true;
    }

    /// The job's entry has expired: its name stands for a new job.
    pub(crate) fn expired(&mut self, id: JobId) {
        self.job(id).last_run = None;
    }

    pub(crate) fn dead_letter(&mut self, message_id: &str, body: &str) {
        self.letters.insert((message_id.to_owned(), body.to_owned()));
    }

    pub(crate) fn has_letter(&self, message_id: &str, body: &str) -> bool {
        self.letters.contains(&(message_id.to_owned(), body.to_owned()))
    }

    pub(crate) fn begun(&mut self, invocation: u64, jobs: Vec<JobId>) {
        self.under_way.insert(invocation, jobs);
    }

    /// An invocation was killed, or its process ended itself.
    pub(crate) fn killed(&mut self, invocation: u64, now: Timestamp) {
        for id in self.under_way.remove(&invocation).unwrap_or_default() {
            self.job(id).killed_at = Some(now);
        }
    }

    /// An invocation has answered: Lambda freezes its process, so nothing of
    /// it may be at work any more.
    pub(crate) fn answered(&mut self, invocation: u64, now: Timestamp) {
        for id in self.under_way.remove(&invocation).unwrap_or_default() {
            let elsewhere = self.under_way.values().any(|jobs| jobs.contains(&id));
            let orphan = self.job(id).killed_at.is_some_and(|at| now.since(at) < ORPHAN);
            let is_alive = runs(id).running > 0 && !elsewhere && !orphan;
            self.check(!is_alive, || {
                format!("{id}: an invocation answered while its handler was at work")
            });
        }
    }

    /// An entry was changed as `action` says.
    pub(crate) fn changed(
        &mut self,
        id: JobId,
        action: &Action,
        before: Option<&JobEntry>,
        now: Timestamp,
    ) {
        // By the clock that is ahead of all.
        let latest = now + CLOCK_ERROR;
        let before = before.filter(|entry| !entry.is_expired(latest));
        let problem = match action {
            Action::Put(PutIf::Claimable { .. }) => {
                let known = self.job(id);
                known.claims += 1;
                claim_problem(before, known, latest)
            }
            Action::Put(PutIf::Absent) => before.map(|_| "an entry was put over another one"),
            Action::Put(PutIf::Unclaimed { .. }) => before
                .is_some_and(|entry| entry.state != State::Queued)
                .then_some("a job was failed by somebody who had not claimed it"),
            Action::Settle(token, _) => {
                let is_ours = before.is_some_and(|entry| {
                    entry.state == State::Running && entry.lease_token == Some(*token)
                });
                (!is_ours).then_some("a claim was settled by somebody who did not hold it")
            }
            Action::Cancel => {
                let is_owned = before.is_none_or(|entry| match entry.state {
                    State::Queued => false,
                    State::Running => is_leased(entry, latest),
                    _ => true,
                });
                is_owned.then_some("a job was cancelled that somebody had in hand")
            }
        };
        self.check(problem.is_none(), || {
            let state = before.map_or("absent".to_owned(), |entry| entry.state.to_string());
            format!("{id}: {} (it was {state})", problem.unwrap_or_default())
        });
        match action {
            Action::Settle(_, Settlement::Complete { .. }) => {
                self.job(id).last_run = Some(runs(id).started);
            }
            Action::Settle(..) => *self.faults.entry(Fault::Handler).or_default() += 1,
            Action::Put(_) | Action::Cancel => {}
        }
    }

    /// What must hold of a job at any time.
    pub(crate) fn check_runs(&mut self) {
        let ids: Vec<_> = self.jobs.keys().copied().collect();
        for id in ids {
            let runs = runs(id);
            let (claims, last_run) = (self.job(id).claims, self.job(id).last_run);
            self.check(runs.most_at_once <= 1, || format!("{id}: ran twice at the same time"));
            self.check(runs.started <= claims, || format!("{id}: ran without a claim"));
            self.check(last_run.is_none_or(|last| runs.started <= last), || {
                format!("{id}: ran after it had succeeded, or was cancelled")
            });
        }
    }
}

fn is_leased(entry: &JobEntry, latest: Timestamp) -> bool {
    entry.lease_until.is_some_and(|until| until > latest)
}

/// What is wrong with a claim that took the place of `before`.
fn claim_problem(
    before: Option<&JobEntry>,
    known: &Known,
    latest: Timestamp,
) -> Option<&'static str> {
    let before = before?;
    let is_person_needed = known.holds && !known.was_redriven;
    match before.state {
        State::Queued if before.not_before.is_some_and(|moment| moment > latest) => {
            Some("a job was claimed before its time")
        }
        State::Running if is_leased(before, latest) => Some("a job was claimed that is in hand"),
        State::Running if known.holds => Some("a job was claimed that must be held"),
        State::Failed if is_person_needed => {
            Some("a job that is never repeated by itself was claimed after it had failed")
        }
        State::Queued | State::Running | State::Failed => None,
        State::Succeeded => Some("a job was claimed that had succeeded"),
        State::Held => Some("a job was claimed that is held"),
        State::Cancelled => Some("a job was claimed that was cancelled"),
    }
}
