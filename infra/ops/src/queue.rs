//! `cargo ops queue`: how much waits, and how much is at work.
//!
//! It reads counts and settings and receives nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use aws_sdk_sqs::types::QueueAttributeName as Name;
use clap::Args;
use comfy_table::Table;
use serde::Serialize;
use serde_json::Value;

use crate::output::{Color, Format, Style, print, print_json, table};
use crate::progress::Progress;
use crate::queue_attributes::QueueAttributes;
use crate::stack::Stack;
use crate::target::Target;
use crate::workspace::Workspace;

const HELP: &str = "\
Examples:
  cargo ops queue
  cargo ops queue --follow --interval 10
  cargo ops queue --json | jq .dead_letters

SQS's counts are approximate, and for some seconds those of before. The age of the oldest
message and the concurrency in use are CloudWatch's latest figures of the last ten
minutes; where it has none, as in the emulator, they are unknown.

JSON, one document each time:
  queue, waiting, in_flight, delayed, oldest_age_seconds (null: unknown), dead_letters
  (in flight or not), consumer: enabled (whether the event source mapping delivers),
  maximum_concurrency and reserved_concurrency (null: none is set),
  concurrency_in_use (null: unknown)

Exit codes: 0 shown; 1 AWS did not answer; 2 it was called wrongly.";

/// How far back CloudWatch is asked, in seconds. Its figures come minutes late.
const METRICS_SINCE: u64 = 600;

/// Shows how much waits in the queue, and what may work on it.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = HELP)]
pub struct Queue {
    /// Shows it again and again, a line each time, until Ctrl-C.
    #[arg(long)]
    follow: bool,
    /// Seconds from one time to the next.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        requires = "follow",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    interval: u64,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// The queue at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Reading {
    queue: String,
    waiting: u64,
    in_flight: u64,
    delayed: u64,
    oldest_age_seconds: Option<u64>,
    dead_letters: u64,
    consumer: Consumer,
}

/// What receives from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Consumer {
    enabled: bool,
    maximum_concurrency: Option<u64>,
    reserved_concurrency: Option<u64>,
    concurrency_in_use: Option<u64>,
}

/// Shows the queue once, or until it is stopped.
///
/// # Errors
///
/// AWS did not answer.
pub async fn run(workspace: &Workspace, queue: &Queue, progress: Progress) -> Result<()> {
    let style = queue.format.style();
    let stack = queue.target.find(workspace, progress).await?;
    if !queue.follow {
        let reading = Reading::take(&stack).await?;
        return match style {
            Style::Json => print_json(&reading),
            Style::Colored | Style::Plain => print(&reading.table().to_string()),
        };
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(queue.interval));
    if style != Style::Json {
        print(&style.paint(Color::Dim, HEADER))?;
    }
    loop {
        ticks.tick().await;
        let reading = Reading::take(&stack).await?;
        match style {
            Style::Json => print_json(&reading)?,
            Style::Colored | Style::Plain => print(&reading.line(&now()))?,
        }
    }
}

/// The counts of one queue.
struct Counts {
    arn: String,
    visible: u64,
    in_flight: u64,
    delayed: u64,
}

impl Counts {
    async fn read(stack: &Stack, url: &str) -> Result<Self> {
        let queue = QueueAttributes::read(&stack.sqs, url).await?;
        Ok(Self {
            arn: queue.text(&Name::QueueArn)?.to_owned(),
            visible: queue.number(&Name::ApproximateNumberOfMessages)?,
            in_flight: queue.number(&Name::ApproximateNumberOfMessagesNotVisible)?,
            delayed: queue.number(&Name::ApproximateNumberOfMessagesDelayed)?,
        })
    }
}

impl Consumer {
    /// Why it runs nothing, if that is so.
    const fn idle(&self) -> Option<&'static str> {
        match (self.enabled, self.reserved_concurrency) {
            (false, _) => Some("receives nothing: its event source mapping is not enabled"),
            (true, Some(0)) => Some("runs nothing: its reserved concurrency is 0"),
            (true, Some(_) | None) => None,
        }
    }

    /// The lower of the two limits, as far as they are set.
    fn most_batches(&self) -> Option<u64> {
        [self.maximum_concurrency, self.reserved_concurrency].into_iter().flatten().min()
    }
}

impl Reading {
    async fn take(stack: &Stack) -> Result<Self> {
        let outputs = &stack.outputs;
        let (counts, letters) = tokio::try_join!(
            Counts::read(stack, &outputs.queue_url),
            Counts::read(stack, &outputs.dead_letter_queue_url),
        )?;
        let queue = counts.arn.rsplit(':').next().unwrap_or_default().to_owned();
        let function = outputs.consumer.as_str();
        let age = ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", queue.as_str());
        let in_use = ("AWS/Lambda", "ConcurrentExecutions", "FunctionName", function);
        let concurrency = ["lambda", "get-function-concurrency", "--function-name", function];
        let (mapping, reserved, oldest_age_seconds, concurrency_in_use) = tokio::try_join!(
            mapping(stack, &counts.arn),
            stack.aws.json(&concurrency),
            latest(stack, age),
            latest(stack, in_use),
        )?;
        let number = |value: &Value, pointer| value.pointer(pointer).and_then(Value::as_u64);
        Ok(Self {
            queue,
            waiting: counts.visible,
            in_flight: counts.in_flight,
            delayed: counts.delayed,
            oldest_age_seconds,
            dead_letters: letters.visible + letters.in_flight + letters.delayed,
            consumer: Consumer {
                enabled: mapping.get("State").and_then(Value::as_str) == Some("Enabled"),
                maximum_concurrency: number(&mapping, "/ScalingConfig/MaximumConcurrency"),
                reserved_concurrency: number(&reserved, "/ReservedConcurrentExecutions"),
                concurrency_in_use,
            },
        })
    }

    fn table(&self) -> Table {
        let mut table = table(["Queue", &self.queue]);
        let consumer = &self.consumer;
        let work = match (consumer.idle(), consumer.most_batches()) {
            (Some(why), _) => why.to_owned(),
            (None, Some(most)) => format!("{most} batches at a time, at most"),
            (None, None) => "as many batches at a time as Lambda has pollers for".to_owned(),
        };
        let reserved = consumer.reserved_concurrency.map_or("none".to_owned(), |n| n.to_string());
        let age = match self.oldest_age_seconds {
            Some(seconds) => format!("{seconds} s"),
            None => UNKNOWN.to_owned(),
        };
        for (name, value) in [
            ("Waiting", self.waiting.to_string()),
            ("In flight", self.in_flight.to_string()),
            ("Delayed", self.delayed.to_string()),
            ("Age of the oldest", age),
            ("Dead letters", self.dead_letters.to_string()),
            ("Consumer", work),
            ("Concurrency in use", or_unknown(consumer.concurrency_in_use)),
            ("Reserved concurrency", reserved),
        ] {
            table.add_row([name.to_owned(), value]);
        }
        table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
        table
    }

    /// As [`HEADER`] names them.
    fn line(&self, time: &str) -> String {
        let age = or_unknown(self.oldest_age_seconds);
        let in_use = or_unknown(self.consumer.concurrency_in_use);
        let idle = self.consumer.idle();
        let note = idle.map_or(String::new(), |why| format!("  (the consumer {why})"));
        format!(
            "{time:<8} {:>9} {:>9} {:>9} {age:>9} {:>9} {in_use:>9}{note}",
            self.waiting, self.in_flight, self.delayed, self.dead_letters
        )
    }
}

const HEADER: &str = "Time UTC   Waiting In flight   Delayed  Oldest s      Dead    In use";

const UNKNOWN: &str = "unknown";

fn or_unknown(value: Option<u64>) -> String {
    value.map_or(UNKNOWN.to_owned(), |value| value.to_string())
}

/// The mapping that delivers from the queue; `null` if there is none.
async fn mapping(stack: &Stack, queue: &str) -> Result<Value> {
    // Not by the function: the mapping may lead to an alias of it.
    let arguments = ["lambda", "list-event-source-mappings", "--event-source-arn", queue];
    let mappings = stack.aws.json(&arguments).await?;
    Ok(mappings.pointer("/EventSourceMappings/0").cloned().unwrap_or_default())
}

/// The latest maximum of a metric: its namespace and name, and the name and value
/// of its dimension.
async fn latest(stack: &Stack, metric: (&str, &str, &str, &str)) -> Result<Option<u64>> {
    let (namespace, name, dimension, value) = metric;
    let now = seconds_since_1970();
    let (start, end) = ((now - METRICS_SINCE).to_string(), now.to_string());
    let dimension = format!("Name={dimension},Value={value}");
    let mut arguments = vec!["cloudwatch", "get-metric-statistics", "--namespace", namespace];
    arguments.extend(["--metric-name", name, "--dimensions", &dimension]);
    arguments.extend(["--start-time", &start, "--end-time", &end]);
    arguments.extend(["--period", "60", "--statistics", "Maximum"]);
    let answer = stack.aws.json(&arguments).await?;
    Ok(newest(&answer))
}

/// Of figures in no order.
fn newest(answer: &Value) -> Option<u64> {
    let figures = answer.get("Datapoints")?.as_array()?.iter();
    // All in the same form, in which later times are greater texts.
    let newest = figures.max_by_key(|figure| figure.get("Timestamp").and_then(Value::as_str))?;
    let maximum = newest.get("Maximum")?.as_f64()?;
    // Seconds and counts, which CloudWatch has as floats.
    format!("{maximum:.0}").parse().ok()
}

fn seconds_since_1970() -> u64 {
    // A clock before 1970 would fail at every signature before this.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn now() -> String {
    let seconds = seconds_since_1970() % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_figure_counts_wherever_it_stands() {
        let figure = |minute: u32, maximum: f64| json!({ "Timestamp": format!("2026-11-30T17:{minute:02}:00Z"), "Maximum": maximum });
        let answer = json!({ "Datapoints": [figure(1, 5.0), figure(9, 7.0), figure(4, 90.0)] });
        assert_eq!(newest(&answer), Some(7));
        assert_eq!(newest(&json!({ "Datapoints": [] })), None);
        assert_eq!(newest(&Value::Null), None);
    }

    fn reading(enabled: bool, maximum: Option<u64>, reserved: Option<u64>) -> Reading {
        let consumer = Consumer {
            enabled,
            maximum_concurrency: maximum,
            reserved_concurrency: reserved,
            concurrency_in_use: Some(3),
        };
        Reading {
            queue: "q".to_owned(),
            waiting: 1_234_567,
            in_flight: 120_000,
            delayed: 5,
            oldest_age_seconds: None,
            dead_letters: 0,
            consumer,
        }
    }

    #[test]
    fn a_line_stands_under_its_header() {
        let reading = reading(false, None, None);
        insta::assert_snapshot!(format!("{HEADER}\n{}", reading.line("17:09:03")), @r"
        Time UTC   Waiting In flight   Delayed  Oldest s      Dead    In use
        17:09:03   1234567    120000         5   unknown         0         3  (the consumer receives nothing: its event source mapping is not enabled)
        ");
    }

    #[test]
    fn what_the_consumer_may_do_is_the_least_that_any_setting_allows() {
        for (enabled, maximum, reserved, expected) in [
            (true, Some(10), None, "10 batches at a time, at most"),
            (true, Some(10), Some(20), "10 batches at a time, at most"),
            (true, Some(10), Some(4), "4 batches at a time, at most"),
            (true, None, Some(4), "4 batches at a time, at most"),
            (true, None, None, "as many batches at a time as Lambda has pollers for"),
            (true, Some(10), Some(0), "runs nothing: its reserved concurrency is 0"),
            (false, Some(10), Some(0), "receives nothing: its event source mapping"),
        ] {
            let shown = reading(enabled, maximum, reserved).table().to_string();
            assert!(shown.contains(expected), "{expected} in {shown}");
        }
        let line = reading(true, Some(10), Some(0)).line("17:09:03");
        assert!(line.ends_with("(the consumer runs nothing: its reserved concurrency is 0)"));
    }
}
