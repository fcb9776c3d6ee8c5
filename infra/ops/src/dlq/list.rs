//! `cargo ops dlq list`: which dead letters there are, and why.

use std::cell::RefCell;

use anyhow::Result;
use comfy_table::Table;

use super::age::age;
use super::found::{Entries, Summary};
use super::group::{self, Groups};
use super::scan::End;
use super::{Desk, Office, ending, say_if_incomplete};
use crate::ending::Ending;
use crate::output::{Format, Style, print, print_json, table, with_ids};
use crate::target::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  cargo ops dlq list                  every dead letter, the oldest first
  cargo ops dlq list --group          what went wrong, and how often
  cargo ops dlq list --stack relevo --json | jq -r 'select(.kind == \"webhook\").job_id'

The letters are hidden from others while they are looked at, and shown again when
that has ended: also by Ctrl-C. Age counts from when SQS got the letter; after 14
days SQS deletes it.";

/// What to list, and how.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Puts letters together that have the same reason, kind and error.
    #[arg(long)]
    group: bool,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let (_, office) = desk.open(&args.target).await?;
    let style = args.format.style();
    if args.group {
        let groups = RefCell::new(Groups::default());
        let (end, seen) = look(&office, |letter| groups.borrow_mut().add(&letter)).await?;
        group::show(&groups.into_inner(), style)?;
        say_if_incomplete(end, seen);
        return Ok(ending(end));
    }
    let letters = RefCell::new(Vec::new());
    let (end, seen) = look(&office, |letter| letters.borrow_mut().push(letter)).await?;
    let mut letters = letters.into_inner();
    letters.sort_by(|a, b| (&a.sent_at, &a.message_id).cmp(&(&b.sent_at, &b.message_id)));
    show(&letters, style)?;
    say_if_incomplete(end, seen);
    Ok(ending(end))
}

/// Takes all dead letters to `visit`; why it ended, and how many there were.
async fn look(office: &Office, visit: impl Fn(Summary)) -> Result<(End, usize)> {
    let step = office.progress.step("Dead letters");
    let seen = RefCell::new(0);
    let end = office.scan(async |scan| {
        scan.walk(async |letters| {
            let found = office.find_out(letters, Entries::WhereNeeded).await?;
            *seen.borrow_mut() += found.len();
            step.at(format!("{} so far", seen.borrow()));
            let now = office.now();
            for found in &found {
                visit(found.summary(now));
            }
            Ok(())
        })
        .await
    });
    let end = end.await?;
    let seen = seen.into_inner();
    step.done(&format!("{seen} looked at"));
    Ok((end, seen))
}

/// Shows letters, each with all that is told of it.
pub(super) fn show(letters: &[Summary], style: Style) -> Result<()> {
    match style {
        Style::Json => letters.iter().try_for_each(print_json),
        Style::Colored | Style::Plain if letters.is_empty() => print("there are no dead letters"),
        Style::Colored | Style::Plain => print(&rows(letters).to_string()),
    }
}

fn rows(letters: &[Summary]) -> Table {
    let mut rows = with_ids(2, table(["Age", "Why", "Job, message", "Error"]));
    for letter in letters {
        let attempts = match letter.attempts {
            Some(1) => "\n1 attempt".to_owned(),
            Some(attempts) => format!("\n{attempts} attempts"),
            None => String::new(),
        };
        let why =
            format!("{}\n{}{attempts}", letter.reason, letter.kind.as_deref().unwrap_or("no kind"));
        let names =
            format!("{}\n{}", letter.job_id.as_deref().unwrap_or("no job"), letter.message_id);
        let error = letter.error.as_deref().unwrap_or_default();
        rows.add_row([age(letter.age_seconds).as_str(), &why, &names, error]);
    }
    rows
}
