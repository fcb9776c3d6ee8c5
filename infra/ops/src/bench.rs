//! `cargo ops bench`: what the functions need, measured on this machine.
//!
//! They are built as for AWS and run as plain processes. What they talk to is one
//! server in this process (`stand_in`), which answers after a set time and says
//! yes to everything. So the figures are of the functions alone, and of whatever a
//! handler does; compare them with others of the same machine and hour.

mod events;
mod function;
mod stand_in;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use self::events::{Events, Role};
use self::function::Function;
use self::stand_in::{Delays, StandIn};
use crate::functions::{self, Profile};
use crate::output;
use crate::progress::Progress;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// A request as clients send it; all jobs are like it.
    #[arg(long, default_value = "events/requests/report.json")]
    request: PathBuf,
    /// Records of a batch.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch_size: u32,
    /// Invocations that are measured, after a tenth as many that are not.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    invocations: u32,
    /// How long `DynamoDB` takes to answer, milliseconds.
    #[arg(long, default_value_t = 5)]
    dynamodb_ms: u64,
    /// How long SQS takes to answer, milliseconds.
    #[arg(long, default_value_t = 8)]
    sqs_ms: u64,
    /// A variable of both functions, such as `SMTP_URL=smtp://…`; may be repeated.
    #[arg(long = "env", value_name = "NAME=VALUE")]
    variables: Vec<String>,
}

/// What one function needed.
#[derive(Debug)]
struct Figures {
    role: Role,
    records: u32,
    /// From the start of the process until its first answer.
    cold: Duration,
    /// Of each invocation, shortest first.
    times: Vec<Duration>,
    /// CPU time of all of them.
    cpu: Duration,
    calls: BTreeMap<String, u64>,
    peak_kib: u64,
}

/// Measures both functions and prints what they need.
///
/// # Errors
///
/// They do not compile, or answered something else than that all went well.
pub async fn run(workspace: &Workspace, options: &Options, progress: Progress) -> Result<()> {
    let events = Events::read(workspace, &options.request)?;
    let tools = Tools::prepare(workspace, progress).await?;
    let folder = workspace.scratch().join("bench");
    functions::build(workspace, &tools, Profile::Release, &folder, progress).await?;
    for role in [Role::Producer, Role::Consumer] {
        let step =
            progress.step(&format!("{} events for the {}", options.invocations, role.name()));
        let bootstrap = folder.join(role.name()).join("bootstrap");
        let figures = measure(&bootstrap, role, &events, options).await?;
        step.done("measured");
        output::print(&figures.text())?;
    }
    Ok(())
}

async fn measure(
    bootstrap: &Path,
    role: Role,
    events: &Events,
    options: &Options,
) -> Result<Figures> {
    let records = if role == Role::Consumer { options.batch_size } else { 1 };
    let aws = StandIn::start(Delays {
        dynamodb: Duration::from_millis(options.dynamodb_ms),
        sqs: Duration::from_millis(options.sqs_ms),
    });
    let aws = aws.await?;
    let log = bootstrap.with_extension("log");
    let function = Function::start(bootstrap, &log, &aws.address, &options.variables)?;
    let mut run = Run { role, records, events, aws, function };
    let figures = run.all(options.invocations).await;
    figures.with_context(|| format!("the {} went wrong; its log is {}", role.name(), log.display()))
}

/// A function that gets events.
struct Run<'a> {
    role: Role,
    records: u32,
    events: &'a Events,
    aws: StandIn,
    function: Function,
}

impl Run<'_> {
    async fn all(&mut self, invocations: u32) -> Result<Figures> {
        self.invoke().await?;
        let cold = self.function.age();
        for _ in 0..invocations / 10 {
            self.invoke().await?;
        }
        let (cpu_before, calls_before) = (self.function.cpu()?, self.aws.calls());
        let mut times = Vec::new();
        for _ in 0..invocations {
            times.push(self.invoke().await?);
        }
        let cpu = self.function.cpu()?.saturating_sub(cpu_before);
        times.sort_unstable();
        let mut calls = self.aws.calls();
        for (call, count) in calls_before {
            calls.entry(call).and_modify(|all| *all -= count);
        }
        calls.retain(|_, count| *count > 0);
        let Self { role, records, .. } = *self;
        Ok(Figures { role, records, cold, times, cpu, calls, peak_kib: self.function.peak_kib()? })
    }

    async fn invoke(&mut self) -> Result<Duration> {
        let event = self.events.next(self.role, self.records)?;
        let invoked = tokio::select! {
            invoked = self.aws.invoke(event) => invoked?,
            ended = self.function.ended() => bail!("it ended: {}", ended?),
        };
        check(self.role, &invoked.answer)?;
        Ok(invoked.took)
    }
}

/// Anything but success would be another figure than the one that is asked for.
fn check(role: Role, answer: &Value) -> Result<()> {
    let is_good = match role {
        Role::Producer => answer.get("statusCode") == Some(&json!(202)),
        Role::Consumer => {
            answer.get("batchItemFailures").and_then(Value::as_array).is_some_and(Vec::is_empty)
        }
    };
    ensure!(is_good, "it answered {answer}");
    Ok(())
}

impl Figures {
    /// The time that this part of the invocations did not exceed.
    fn within(&self, percent: usize) -> f64 {
        let place = (self.times.len() * percent).div_ceil(100).saturating_sub(1);
        self.times.get(place).map_or(0.0, millis)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]
    fn text(&self) -> String {
        let invocations = self.times.len();
        let all = invocations as f64 * f64::from(self.records);
        let mut text = format!(
            "\n{}, {} in each of {invocations} events\n",
            self.role.name(),
            if self.records == 1 { "1 job".to_owned() } else { format!("{} jobs", self.records) }
        );
        let mut row = |what: &str, value: f64, unit: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {what:<34}{value:>10.2} {unit}");
        };
        row("start to first answer", millis(&self.cold), "ms");
        for percent in [50, 90, 99, 100] {
            row(&format!("invocation, {percent} % within"), self.within(percent), "ms");
        }
        row("CPU per job", millis(&self.cpu) / all, "ms");
        row("CPU per event", millis(&self.cpu) / invocations as f64, "ms");
        for (call, count) in &self.calls {
            row(&format!("{call} per job"), *count as f64 / all, "calls");
        }
        row("peak memory", self.peak_kib as f64 / 1024.0, "MB");
        text
    }
}

fn millis(duration: &Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_one_job_each() {
        let figures = Figures {
            role: Role::Consumer,
            records: 10,
            cold: Duration::from_millis(30),
            times: (1..=200).map(Duration::from_millis).collect(),
            cpu: Duration::from_secs(1),
            calls: BTreeMap::from([("PutItem".to_owned(), 2_000)]),
            peak_kib: 15 * 1024,
        };
        let text = figures.text();
        for line in [
            "consumer, 10 jobs in each of 200 events",
            "start to first answer                  30.00 ms",
            "invocation, 50 % within               100.00 ms",
            "invocation, 99 % within               198.00 ms",
            "invocation, 100 % within              200.00 ms",
            "CPU per job                             0.50 ms",
            "CPU per event                           5.00 ms",
            "PutItem per job                         1.00 calls",
            "peak memory                            15.00 MB",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn only_success_is_measured() {
        check(Role::Producer, &json!({ "statusCode": 202 })).unwrap();
        check(Role::Producer, &json!({ "statusCode": 503 })).unwrap_err();
        check(Role::Consumer, &json!({ "batchItemFailures": [] })).unwrap();
        check(Role::Consumer, &json!({ "batchItemFailures": [{ "itemIdentifier": "m" }] }))
            .unwrap_err();
        check(Role::Consumer, &json!({ "errorMessage": "panicked" })).unwrap_err();
    }
}
