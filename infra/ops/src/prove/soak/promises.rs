//! Holds what happened against what is promised, from outside only.

use std::collections::{BTreeMap, HashMap};

use super::load::Asked;
use super::proxy::Sent;
use super::runs::{Delivery, Micros, Run, Stories, Story, micros};
use super::wanted::Nature;

/// A run that no end is known of holds a lease for as long as this at least,
/// counted from its start: it starts in the first five seconds of its
/// invocation, and its lease lasts five seconds longer than that invocation's
/// ten.
const LEASE_LEFT: Micros = 10_000_000;

/// All that could be seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) asked: Vec<Asked>,
    /// `state` of `GET /jobs/{id}`.
    pub(super) states: HashMap<String, String>,
    /// `state` of the entries in the table.
    pub(super) entries: HashMap<String, String>,
    /// The bodies of dead letters, by the ids in them.
    pub(super) letters: HashMap<String, Vec<String>>,
    /// The messages that the producer sent, by the ids in them.
    pub(super) sent: Sent,
    pub(super) stories: Stories,
    pub(super) is_redriven: bool,
}

/// What came of holding one against the other.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// How often each promise was looked at.
    pub(super) checked: BTreeMap<&'static str, u64>,
    /// What was broken, with the history of its job.
    pub(super) violations: Vec<String>,
}

/// Looks at every promise for every job.
pub(super) fn check(seen: &Seen) -> Verdict {
    let mut verdict = Verdict::default();
    for asked in &seen.asked {
        for (promise, holds) in seen.of_job(asked) {
            verdict.note(promise, holds, || seen.history(asked));
        }
    }
    let ids = seen.stories.by_job.keys();
    for (id, story) in ids.filter_map(|id| Some((id, seen.stories.by_job.get(id)?))) {
        let history = || format!("job {id}\n{}", story.lines.join("\n"));
        verdict.note("no two runs of a job at once", is_one_at_a_time(&story.runs), history);
        verdict.note("no run after success", is_final(story), history);
    }
    for (id, letters) in &seen.letters {
        for letter in letters {
            let holds = seen.was_sent(id, letter);
            verdict.note("dead letters are as they were sent", holds, || letter.clone());
        }
    }
    verdict
}

impl Verdict {
    fn note(&mut self, promise: &'static str, holds: bool, history: impl FnOnce() -> String) {
        *self.checked.entry(promise).or_default() += 1;
        if !holds {
            self.violations.push(format!("broken: {promise}\n{}", history()));
        }
    }

    /// Both verdicts as one.
    pub(super) fn and(mut self, other: Self) -> Self {
        for (promise, count) in other.checked {
            *self.checked.entry(promise).or_default() += count;
        }
        self.violations.extend(other.violations);
        self
    }
}

impl Seen {
    fn of_job(&self, asked: &Asked) -> Vec<(&'static str, bool)> {
        let id = asked.ids.first().map(String::as_str).unwrap_or_default();
        let state = self.states.get(id).map(String::as_str).unwrap_or_default();
        let is_dead = self.letters.contains_key(id);
        let is_end = matches!(state, "succeeded" | "failed" | "cancelled") || is_dead;
        let none = Story::default();
        let story = self.stories.by_job.get(id).unwrap_or(&none);
        let mut found = vec![
            ("one id, however often it is asked for", asked.ids.len() == 1),
            // Where the last receive could not reach the table, the entry says
            // what was before, and the message is a dead letter.
            ("what got 202 has ended", is_end),
            ("what failed is a dead letter", state != "failed" || is_dead),
            ("what is cancelled was asked to be", state != "cancelled" || asked.wanted.cancel),
        ];
        if let Some(at) = asked.cancelled_at.as_deref().and_then(micros) {
            // The answer's moment is cut to milliseconds.
            let is_over = story.runs.iter().all(|run| run.started < at + 1_000);
            found.push(("what was cancelled does not run", is_over && state == "cancelled"));
        }
        match asked.wanted.nature {
            Nature::Succeeds => {}
            Nature::Fails => {
                found.push(("what cannot succeed does not", state != "succeeded"));
            }
            Nature::Mends if !self.is_redriven => {
                found.push(("what cannot succeed does not", state != "succeeded"));
            }
            Nature::Mends => {
                let is_done = state == "succeeded" || state == "cancelled" || is_dead;
                found.push(("a redrive runs what was mended", is_done));
            }
            Nature::Holds => found.push(("what is held runs once", story.runs.len() <= 1)),
        }
        found
    }

    /// Whether the producer sent this very message.
    fn was_sent(&self, id: &str, letter: &str) -> bool {
        self.sent.values().any(|by_id| by_id.get(id).is_some_and(|bodies| bodies.contains(letter)))
    }

    fn history(&self, asked: &Asked) -> String {
        let mut told = vec![format!("{:?}", asked.wanted)];
        told.extend(asked.answers.iter().cloned());
        for id in &asked.ids {
            told.push(format!("GET /jobs/{id}: {:?}", self.states.get(id)));
            told.push(format!("its entry: {:?}", self.entries.get(id)));
            told.push(format!("its dead letters: {:?}", self.letters.get(id)));
            let story = self.stories.by_job.get(id);
            // They begin with their moments.
            let mut lines = story.map(|story| story.lines.clone()).unwrap_or_default();
            lines.sort_unstable();
            told.extend(lines);
        }
        told.join("\n")
    }
}

/// Whether each run began after the one before had ended.
fn is_one_at_a_time(runs: &[Run]) -> bool {
    let mut runs: Vec<_> = runs.iter().collect();
    runs.sort_by_key(|run| run.started);
    runs.windows(2).all(|pair| match pair {
        [one, next] => next.started >= one.ended.unwrap_or(one.started + LEASE_LEFT),
        _ => true,
    })
}

/// Whether nothing ran after the first delivery that found the job done.
fn is_final(story: &Story) -> bool {
    let is_done = |delivery: &&Delivery| matches!(&*delivery.outcome, "completed" | "duplicate");
    let done = story.deliveries.iter().filter(is_done).map(|delivery| delivery.at).min();
    done.is_none_or(|done| story.runs.iter().all(|run| run.started <= done))
}
