//! The figures, as they are told.

use std::fmt::Write;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{
    DAYS_PER_MONTH, Dollars, Flow, Load, MILLION, Month, Usage, jobs_per_second, month, per_job,
    per_million,
};
use crate::output::{self, Style, print_json};

/// Write units that a new table takes each second, and that a table may at most
/// take before somebody asks AWS for more.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>
const TABLE_WRITES: (f64, f64) = (4_000.0, 40_000.0);

/// One flow of a report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What one job needs.
    pub per_job: Usage,
    /// What a million jobs cost.
    pub dollars_per_million: Dollars,
    /// What a month of the load costs, the stack itself included.
    pub dollars_per_month: f64,
    /// How many jobs there can be, with the template's concurrency.
    pub jobs_per_second: f64,
    /// How many jobs a second the table takes when it is new, and at most.
    pub table_bears: (f64, f64),
}

/// Everything that the command tells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was asked.
    pub load: Load,
    /// Jobs that come one by one.
    pub single: Line,
    /// Jobs that come by many.
    pub batch: Line,
    /// What a month costs besides.
    pub month: Month,
    /// The days of the oldest and of the newest price list that was used.
    pub prices_listed: (&'static str, &'static str),
}

impl Report {
    /// Computes it.
    #[must_use]
    pub fn of(load: Load) -> Self {
        let month = month(&load);
        let line = |flow| {
            let per_job = per_job(&load, flow);
            let dollars_per_million = per_million(&per_job, &load);
            let jobs = load.jobs_per_day * DAYS_PER_MONTH / MILLION;
            Line {
                per_job,
                dollars_per_million,
                dollars_per_month: jobs * dollars_per_million.total + month.total,
                jobs_per_second: jobs_per_second(&load, flow),
                table_bears: (
                    TABLE_WRITES.0 / per_job.write_units,
                    TABLE_WRITES.1 / per_job.write_units,
                ),
            }
        };
        let (single, batch) = (line(Flow::Single), line(Flow::Batch));
        Self { load, single, batch, month, prices_listed: load.region.prices().listed() }
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { load, single, batch, month, prices_listed: (oldest, newest) } = self;
        let row = |what: &str, digits: usize, of: fn(&Line) -> f64| {
            format!("{what:<34}{:>12.digits$}{:>12.digits$}\n", of(single), of(batch))
        };
        let mut text = format!("{:<34}{:>12}{:>12}\n", "One job needs", "one by one", "by many");
        text += &row("  HTTP API requests", 3, |line| line.per_job.api_requests);
        text += &row("  invocations", 3, |line| line.per_job.invocations);
        text += &row("  GB-seconds", 5, |line| line.per_job.gb_seconds);
        text += &row("  SQS requests", 3, |line| line.per_job.sqs_requests);
        text += &row("  DynamoDB write units", 0, |line| line.per_job.write_units);
        text += &row("  DynamoDB read units", 0, |line| line.per_job.read_units);
        text += &row("  log, KiB", 2, |line| line.per_job.log_kib);
        let region = load.region.name();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\nA million jobs cost, dollars ({region}, listed {oldest} to {newest})"
        );
        text += &row("  HTTP API", 2, |line| line.dollars_per_million.api);
        text += &row("  Lambda", 2, |line| line.dollars_per_million.lambda);
        text += &row("  SQS", 2, |line| line.dollars_per_million.sqs);
        text += &row("  DynamoDB", 2, |line| line.dollars_per_million.dynamodb);
        text += &row("  CloudWatch Logs", 2, |line| line.dollars_per_million.logs);
        text += &row("  together", 2, |line| line.dollars_per_million.total);
        text += "\nA month of the stack costs besides, dollars\n";
        for (what, dollars) in month.parts() {
            let _ = writeln!(text, "  {what:<32}{dollars:>12.2}");
        }
        text += "\n";
        text += &row("A month of this, dollars", 2, |line| line.dollars_per_month);
        let title = format!("Jobs/s, {} batches at a time", load.maximum_concurrency);
        text += &row(&title, 0, |line| line.jobs_per_second);
        text += &row("Jobs/s that a new table bears", 0, |line| line.table_bears.0);
        text += &row("Jobs/s that any table may bear", 0, |line| line.table_bears.1);
        text + &format!(
            "Jobs/s that come in, on average   {:>12.0}\n",
            load.jobs_per_day / 86_400.0,
        )
    }
}

/// Prints the report.
///
/// # Errors
///
/// A figure that cannot be computed with.
pub fn print(load: Load, style: Style) -> Result<()> {
    let Load { jobs_per_day, payload_kib, job_ms, .. } = load;
    let at_a_time = [load.batch_size, load.batch_concurrency, load.maximum_concurrency];
    ensure!(at_a_time.iter().all(|size| *size >= 1.0), "sizes begin at 1");
    ensure!(load.memory_mb >= 1.0 && load.kinds >= 1.0, "sizes begin at 1");
    let amounts = [jobs_per_day, payload_kib, job_ms, load.gets_per_job, load.result_kib];
    ensure!(amounts.iter().all(|amount| *amount >= 0.0), "amounts begin at 0");
    let report = Report::of(load);
    match style {
        Style::Json => print_json(&report),
        Style::Colored | Style::Plain => output::print(report.text().trim_end()),
    }
}
