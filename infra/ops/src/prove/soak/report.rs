//! The figures of a soak.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use comfy_table::{Table, presets};

use super::Soak;
use super::promises::{Seen, Verdict};

/// What a soak was, and what came of it.
#[derive(Debug)]
pub struct Report {
    rows: Vec<(String, String)>,
    violations: Vec<String>,
}

impl Report {
    pub(super) fn new(soak: &Soak, seen: &Seen, verdict: Verdict, redriven: usize) -> Self {
        let stories = || seen.stories.by_job.values();
        let mut rows = Vec::new();
        let mut row = |what: &str, count: String| rows.push((what.to_owned(), count));
        row("seed", soak.plan.seed.to_string());
        row("time", format!("{} s", soak.began.elapsed().as_secs()));
        row("jobs accepted", seen.asked.len().to_string());
        for (state, count) in counts(seen.states.values().map(String::as_str)) {
            row(&format!("  {state}"), count.to_string());
        }
        row("entries in the table", seen.entries.len().to_string());
        row("dead letters redriven", redriven.to_string());
        row(
            "dead letters after that",
            seen.letters.values().map(Vec::len).sum::<usize>().to_string(),
        );
        row("handlers started", stories().map(|story| story.runs.len()).sum::<usize>().to_string());
        let deliveries = || stories().flat_map(|story| &story.deliveries);
        row("deliveries settled", deliveries().count().to_string());
        for (outcome, count) in counts(deliveries().map(|delivery| &*delivery.outcome)) {
            row(&format!("  {outcome}"), count.to_string());
        }
        row("processes killed", soak.killed.load(Ordering::Relaxed).to_string());
        row("calls to AWS", soak.proxy.calls().to_string());
        let faults = soak.proxy.faults();
        row("  with a fault", faults.values().sum::<u64>().to_string());
        for (fault, count) in faults {
            row(&format!("    {}", fault.as_str()), count.to_string());
        }
        row("promises checked", verdict.checked.values().sum::<u64>().to_string());
        for (promise, count) in &verdict.checked {
            row(&format!("  {promise}"), count.to_string());
        }
        row("violations", verdict.violations.len().to_string());
        Self { rows, violations: verdict.violations }
    }

    /// What was broken, each with its history.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The figures as a table for a terminal.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        for (what, count) in &self.rows {
            table.add_row([what, count]);
        }
        table
    }
}

fn counts<'a>(all: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}
