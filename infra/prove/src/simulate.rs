//! Many simulated worlds, side by side, and what came of them.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use comfy_table::{Cell, CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

use crate::simulation::{self, Counts, Options, Report, TableKind};

/// Seeds with violations after which nobody needs more.
const ENOUGH: usize = 10;

/// Runs the real functions through simulated worlds full of faults.
#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// How many worlds
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Jobs of each world
    #[arg(long, default_value_t = 10)]
    jobs: usize,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs this seed alone and tells everything that happens
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// Where job entries are
    #[arg(long, value_enum, default_value_t = TableKind::Memory)]
    table: TableKind,
    /// Worlds at the same time; one for each processor if left out
    #[arg(long)]
    threads: Option<NonZero<usize>>,
}

impl Simulate {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        hide_expected_panics();
        let options = Options { jobs: self.jobs, table: self.table, keeps_history: false };
        if let Some(seed) = self.replay {
            return replay(seed, options);
        }
        let threads = match self.threads {
            Some(threads) => threads,
            None => thread::available_parallelism().context("could not count the processors")?,
        };
        let started = Instant::now();
        let total = run_all(self.from..self.from + self.seeds, options, threads)?;
        print(&total, started.elapsed());
        let Some((seed, violations)) = total.violations.first_key_value() else { return Ok(()) };
        for violation in violations {
            eprintln!("seed {seed}: {violation}");
        }
        bail!(
            "promises were broken in {} worlds; everything that happens in the first: \
             cargo ops prove simulation --jobs {} --table {} --replay {seed}",
            total.violations.len(),
            self.jobs,
            self.table.name(),
        );
    }
}

/// What came of many worlds.
#[derive(Debug, Default)]
pub(crate) struct Total {
    worlds: u64,
    jobs: u64,
    deliveries: u64,
    checks: u64,
    faults: Counts,
    /// By seed.
    pub(crate) violations: BTreeMap<u64, Vec<String>>,
}

impl Total {
    fn add(&mut self, seed: u64, report: Report) {
        self.worlds += 1;
        self.jobs += report.jobs;
        self.deliveries += report.deliveries;
        self.checks += report.checks;
        for (fault, count) in report.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        if !report.violations.is_empty() {
            self.violations.insert(seed, report.violations);
        }
    }
}

/// Runs `seeds` on some threads. Stops early where promises are broken.
pub(crate) fn run_all(
    seeds: std::ops::Range<u64>,
    options: Options,
    threads: NonZero<usize>,
) -> anyhow::Result<Total> {
    let bar = ProgressBar::new(seeds.end - seeds.start);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} worlds, {eta} left")?);
    let next = AtomicU64::new(seeds.start);
    let (sender, reports) = mpsc::channel();
    let mut total = Total::default();
    thread::scope(|scope| {
        for _ in 0..threads.get() {
            let (next, sender, end) = (&next, sender.clone(), seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more: enough was seen.
                    if seed >= end || sender.send((seed, simulation::run(seed, options))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (seed, report) in &reports {
            total.add(seed, report?);
            bar.inc(1);
            if total.violations.len() >= ENOUGH {
                break;
            }
        }
        drop(reports);
        anyhow::Ok(())
    })?;
    bar.finish_and_clear();
    Ok(total)
}

fn replay(seed: u64, options: Options) -> anyhow::Result<()> {
    let report = simulation::run(seed, Options { keeps_history: true, ..options })?;
    for line in &report.history {
        println!("{line}");
    }
    if report.violations.is_empty() {
        println!("no promise was broken");
        return Ok(());
    }
    bail!("{} violations", report.violations.len());
}

fn print(total: &Total, took: Duration) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut row = |name: &str, count: u64| {
        let count = Cell::new(count).set_alignment(CellAlignment::Right);
        table.add_row([Cell::new(name), count]);
    };
    row("worlds", total.worlds);
    row("jobs", total.jobs);
    row("deliveries", total.deliveries);
    row("faults", total.faults.values().sum());
    for (fault, count) in &total.faults {
        row(&format!("  {fault}"), *count);
    }
    row("promises checked", total.checks);
    row("worlds with violations", total.violations.len() as u64);
    row("seconds", took.as_secs());
    println!("{table}");
}

/// Handlers panic by the thousand, because they are asked to. Everything else
/// that panics is a bug and says so.
pub(crate) fn hide_expected_panics() {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some("panicked as asked") {
            show(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: TableKind, seeds: u64) {
        hide_expected_panics();
        let options = Options { jobs: 8, table, keeps_history: false };
        let threads = NonZero::new(2).unwrap();
        let total = run_all(0..seeds, options, threads).unwrap();
        assert!(total.violations.is_empty(), "{:#?}", total.violations);
        assert!(total.faults.len() > 15, "hardly anything went wrong: {:?}", total.faults);
    }

    #[test]
    fn promises_hold_in_worlds_full_of_faults() {
        check(TableKind::Memory, 300);
    }

    #[test]
    fn promises_hold_with_the_real_expressions_on_a_dynamodb_engine() {
        check(TableKind::Dynamodb, 30);
    }
}
