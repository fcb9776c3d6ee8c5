//! `cargo ops dlq show`: one dead letter, whole.

use std::cell::RefCell;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use shared::{JobEntry, JobId, Timestamp};

use super::age::age;
use super::found::{Entries, Found, Summary};
use super::line::Content;
use super::scan::Scan;
use super::{Desk, Office, say_if_incomplete};
use crate::ending::Ending;
use crate::output::{Color, Format, Style, print, print_json};
use crate::target::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  cargo ops dlq show 5b6f1c64-2f6d-4b52-9f0e-0d6a1f6f8f0f
  cargo ops dlq show 01a22d88-5297-7c42-8d92-706a06211937 --json | jq -r .body";

/// Which one.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The letter's message id, or its job's id, as `dlq list` shows them.
    message: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// A letter as a machine reads it.
#[derive(Serialize)]
struct Document<'a> {
    letter: &'a Summary,
    group_id: &'a Option<String>,
    trace_header: &'a Option<String>,
    attributes: Value,
    body: &'a str,
    entry: Option<Value>,
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let (_, office) = desk.open(&args.target).await?;
    let found = office.scan(async |scan| find(&office, scan, &args.message).await).await?;
    let summary = found.summary(office.now());
    match args.format.style() {
        Style::Json => print_json(&document(&found, &summary))?,
        style => print(&text(&found, &summary, style))?,
    }
    Ok(Ending::Done)
}

/// The letter that is called `name`, or whose job is, with its job's entry.
///
/// # Errors
///
/// There is none, or something did not answer.
pub(super) async fn find(office: &Office, scan: &Scan<'_>, name: &str) -> Result<Found> {
    let step = office.progress.step("Looking for the dead letter");
    let (it, seen) = (RefCell::new(None), RefCell::new(0));
    let is_it = |found: &Found| {
        let is_job = |id: JobId| id.to_string().eq_ignore_ascii_case(name);
        found.letter.message_id == name || found.job_id().is_some_and(is_job)
    };
    let end = scan.walk(async |letters| {
        *seen.borrow_mut() += letters.len();
        step.at(format!("{} looked at", seen.borrow()));
        if let Some(found) = letters.into_iter().map(Found::new).find(is_it) {
            *it.borrow_mut() = Some(found.letter);
            scan.enough();
        }
        Ok(())
    });
    let end = end.await?;
    let seen = seen.into_inner();
    let letter = it.into_inner().into_iter().collect();
    let found = office.find_out(letter, Entries::All).await?.pop();
    let Some(found) = found else {
        say_if_incomplete(end, seen);
        bail!(
            "there is no dead letter called {name}, nor one of a job {name}: `cargo ops dlq list` \
             shows those that there are"
        );
    };
    step.done(&format!("one of {seen} looked at"));
    Ok(found)
}

fn document<'a>(found: &'a Found, letter: &'a Summary) -> Document<'a> {
    let Content { body, attributes, group_id, trace_header } = &found.letter.content;
    let attributes = json!(attributes);
    let entry = found.entry.as_ref().map(|entry| {
        json!(fields(entry).into_iter().collect::<std::collections::BTreeMap<_, _>>())
    });
    Document { letter, group_id, trace_header, attributes, body, entry }
}

/// What is known of a job, for people.
fn fields(entry: &JobEntry) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("state", entry.state.to_string()),
        ("attempt", entry.attempt.to_string()),
        ("principal", entry.principal.to_string()),
        ("created_at", entry.created_at.to_rfc3339()),
        ("updated_at", entry.updated_at.to_rfc3339()),
        ("expires_at", entry.expires_at.to_rfc3339()),
    ];
    let moment = |moment: Option<Timestamp>| moment.map(Timestamp::to_rfc3339);
    fields.extend(moment(entry.lease_until).map(|until| ("lease_until", until)));
    fields.extend(moment(entry.not_before).map(|moment| ("not_before", moment)));
    fields.extend(entry.reason.clone().map(|reason| ("reason", reason)));
    fields.extend(entry.error.clone().map(|error| ("error", error)));
    fields
}

fn text(found: &Found, letter: &Summary, style: Style) -> String {
    let content = &found.letter.content;
    let mut lines = Vec::new();
    let mut say = |name: &str, value: &str| {
        lines.push(format!("{} {value}", style.paint(Color::Dim, &format!("{name:>18}"))));
    };
    say("message", &letter.message_id);
    say("job", letter.job_id.as_deref().unwrap_or("none"));
    say("kind", letter.kind.as_deref().unwrap_or("none"));
    say("reason", &letter.reason);
    say("error", letter.error.as_deref().unwrap_or("none"));
    say("sent", &format!("{} ({} ago)", letter.sent_at, age(letter.age_seconds)));
    for (name, attribute) in &content.attributes {
        say(&format!("@{name}"), &attribute.value);
    }
    say("group", content.group_id.as_deref().unwrap_or("none"));
    say("trace", content.trace_header.as_deref().unwrap_or("none"));
    match &found.entry {
        Some(entry) => {
            for (name, value) in fields(entry) {
                say(&format!("entry.{name}"), &value);
            }
        }
        None => say("entry", "none"),
    }
    format!("{}\n\n{}", lines.join("\n"), content.body)
}
