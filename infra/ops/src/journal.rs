//! `cargo ops logs`: what both functions have logged, of one job or of all.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use shared::Timestamp;
use tokio::time::sleep;
use uuid::Uuid;

use crate::ending::Ending;
use crate::jobs::ids::read as read_id;
use crate::log_line;
use crate::logs::Tail;
use crate::output::{Color, Format, Style, print};
use crate::progress::Progress;
use crate::stack::{Entry, Stack};
use crate::target::Target;
use crate::workspace::Workspace;

/// How often the logs are looked at.
const POLL: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  cargo ops logs --follow
  cargo ops logs --job 01a22d88-5297-7c42-8d92-706a06211937
  cargo ops logs --since 12h --json | jq -r 'select(.level == \"ERROR\").error'
  cargo ops logs --stack relevo --since 7d --job 01a22d88-5297-7c42-8d92-706a06211937";

/// What it is called with.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Journal {
    /// Only what happened to this job.
    #[arg(long, value_name = "ID", value_parser = read_id)]
    job: Option<Uuid>,
    /// How far to look back, such as 90s, 10m, 12h or 7d.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = how_long)]
    since: Duration,
    /// Goes on with what comes, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// Shows the lines of both functions in the order of their times.
///
/// # Errors
///
/// There is no stack, or its logs did not answer.
pub async fn run(workspace: &Workspace, journal: &Journal, progress: Progress) -> Result<Ending> {
    let stack = journal.target.find(workspace, progress).await?;
    let style = journal.format.style();
    let id = journal.job.map(|id| id.to_string());
    let since = milliseconds_ago(journal.since);
    let mut functions = [
        ("producer", &stack.outputs.producer, Tail::new(since, id.clone())),
        ("consumer", &stack.outputs.consumer, Tail::new(since, id.clone())),
    ];
    loop {
        let mut lines = Vec::new();
        for (name, function, tail) in &mut functions {
            let new = tail.next(&stack.logs, function).await?;
            lines.extend(new.into_iter().map(|line| (*name, line)));
        }
        // Stable: what one function logged in one millisecond keeps its order.
        lines.sort_by_key(|(_, line)| line.timestamp);
        for (name, line) in &lines {
            if let Some(line) = log_line::show(style, name, line) {
                print(&line)?;
            }
        }
        if !journal.follow {
            if let (Some(id), Style::Colored | Style::Plain) = (&id, style) {
                print(&now(&stack, id, style).await?)?;
            }
            return Ok(Ending::Done);
        }
        sleep(POLL).await;
    }
}

/// What the table says of the job, below what the logs said.
async fn now(stack: &Stack, id: &str, style: Style) -> Result<String> {
    let entry = stack.entry(id).await?;
    let told = entry.map_or_else(|| "there is no entry of this job".to_owned(), |it| describe(&it));
    Ok(format!("{} {told}", style.paint(Color::Dim, "now      entry   ")))
}

fn describe(entry: &Entry) -> String {
    let text = |name: &str| {
        let value = entry.get(name)?;
        value.as_s().or_else(|_| value.as_n()).ok()
    };
    let state = text("state").map_or("?", String::as_str);
    let mut told = format!("state={state}");
    for name in ["attempt", "reason", "error"] {
        // It is 0 until a first attempt, however often the message was received.
        if let Some(value) = text(name).filter(|value| name != "attempt" || *value != "0") {
            told = format!("{told} {name}={}", value.escape_debug());
        }
    }
    let not_before = text("not_before").filter(|_| state == "queued");
    if let Some(until) = not_before.and_then(|until| until.parse().ok()) {
        let until = Timestamp::from_millis(until).to_rfc3339();
        told = format!("{told} not_before={until}");
    }
    if matches!(state, "failed" | "held") {
        // Whether it still is there, only a scan of that queue could tell.
        told.push_str(
            " (its message went to the dead-letter queue; `cargo ops dlq show ID` tells whether it \
             is still there)",
        );
    }
    told
}

fn milliseconds_ago(time: Duration) -> i64 {
    let then = SystemTime::now().checked_sub(time).unwrap_or(UNIX_EPOCH);
    let then = then.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(then.as_millis()).unwrap_or_default()
}

fn how_long(text: &str) -> Result<Duration> {
    const WANTED: &str = "a number and s, m, h or d, such as 10m";
    let split = text.len().checked_sub(1).filter(|&end| text.is_char_boundary(end));
    let (number, unit) = text.split_at(split.context(WANTED)?);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => anyhow::bail!(WANTED),
    };
    let number: u64 = number.parse().ok().context(WANTED)?;
    number.checked_mul(seconds).map(Duration::from_secs).context("too long ago")
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("12h", 43_200), ("7d", 604_800)] {
            assert_eq!(how_long(text).unwrap().as_secs(), seconds);
        }
        for text in ["", "10", "m", "-1m", "1.5h", "10 m", "1w", "9999999999999999999d", "1é"] {
            assert!(how_long(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_entry_is_one_line_whatever_the_error_says() {
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let entry = Entry::from([
            ("state".to_owned(), text("failed")),
            ("attempt".to_owned(), AttributeValue::N("5".to_owned())),
            ("reason".to_owned(), text("permanent")),
            ("error".to_owned(), text("line\nbreak")),
        ]);
        assert_eq!(
            describe(&entry),
            "state=failed attempt=5 reason=permanent error=line\\nbreak \
             (its message went to the dead-letter queue; `cargo ops dlq show ID` tells whether it \
             is still there)"
        );
        let entry = Entry::from([("state".to_owned(), text("succeeded"))]);
        assert_eq!(describe(&entry), "state=succeeded");
        let number = |value: &str| AttributeValue::N(value.to_owned());
        let untouched = Entry::from([
            ("state".to_owned(), text("queued")),
            ("attempt".to_owned(), number("0")),
        ]);
        assert_eq!(describe(&untouched), "state=queued");
        let waiting = Entry::from([
            ("state".to_owned(), text("queued")),
            ("attempt".to_owned(), number("1")),
            ("not_before".to_owned(), number("1700000000123")),
        ]);
        assert_eq!(
            describe(&waiting),
            "state=queued attempt=1 not_before=2023-11-14T22:13:20.123Z"
        );
    }
}
