//! `cargo ops dlq purge`: deletes dead letters for good.

use std::cell::RefCell;

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::ask::ask;
use super::filter::Filter;
use super::found::{Entries, Summary};
use super::group::{self, Groups};
use super::scan::{End, Scan};
use super::{Desk, Office, dead_letters, ending, say_if_incomplete};
use crate::ending::Ending;
use crate::messages::MOST_ENTRIES;
use crate::output::{Format, Style, print, print_json, say};
use crate::target::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  cargo ops dlq export --reason undecodable > undecodable.ndjson     keep them first
  cargo ops dlq purge --reason undecodable
  cargo ops dlq purge --all --yes

It deletes the letters that it has shown, and none that came later. Their jobs'
entries stay as they are.";

/// Deleting calls that are made side by side.
const CALLS: usize = 8;

/// Which letters to delete.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Does not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let (_, office) = desk.open(&args.target).await?;
    let style = args.format.style();
    office
        .scan(async |scan| {
            let (end, seen, letters) = choose(&office, scan, &args.filter).await?;
            say_if_incomplete(end, seen);
            if end == End::Stopped {
                return Ok(Ending::Interrupted);
            }
            if end == End::Complete {
                args.filter.check_found(&letters)?;
            }
            if letters.is_empty() {
                show(0, style)?;
                return Ok(Ending::Done);
            }
            if !args.yes && !is_confirmed(scan, &letters).await? {
                return Ok(Ending::Interrupted);
            }
            let deleted = delete(&office, scan, &letters).await?;
            show(deleted, style)?;
            let left = letters.len() - deleted;
            ensure!(
                left == 0,
                "{} still here, after having been looked at for too long: say the same again",
                dead_letters(left)
            );
            Ok(ending(end))
        })
        .await
}

/// The letters that match, all of them hidden.
async fn choose(
    office: &Office,
    scan: &Scan<'_>,
    filter: &Filter,
) -> Result<(End, usize, Vec<Summary>)> {
    let step = office.progress.step("Dead letters");
    let (seen, matched) = (RefCell::new(0), RefCell::new(Vec::new()));
    let end = scan.walk(async |letters| {
        let found = office.find_out(letters, Entries::WhereNeeded).await?;
        *seen.borrow_mut() += found.len();
        let now = office.now();
        let summaries = found.iter().map(|found| found.summary(now));
        matched.borrow_mut().extend(summaries.filter(|letter| filter.matches(letter)));
        step.at(format!("{} of {}", matched.borrow().len(), seen.borrow()));
        Ok(())
    });
    let end = end.await?;
    let (seen, matched) = (seen.into_inner(), matched.into_inner());
    step.done(&format!("{} of {seen} looked at", matched.len()));
    Ok((end, seen, matched))
}

/// Whether a person says so, having seen what it is about; not if we are stopped.
async fn is_confirmed(scan: &Scan<'_>, letters: &[Summary]) -> Result<bool> {
    let mut groups = Groups::default();
    for letter in letters {
        groups.add(letter);
    }
    say(&group::rows(&groups).to_string());
    let wanted = format!("purge {}", letters.len());
    let question = format!("These will be gone for good. Type \"{wanted}\" to delete them:");
    let answer = tokio::select! {
        answer = ask(&question) => answer.context("nothing was deleted")?,
        () = scan.stopped() => return Ok(false),
    };
    match answer {
        Some(answer) if answer == wanted => Ok(true),
        Some(_) => bail!("nothing was deleted"),
        None => bail!("nothing was deleted: add --yes where there is nobody to ask"),
    }
}

/// How many of them were deleted.
async fn delete(office: &Office, scan: &Scan<'_>, letters: &[Summary]) -> Result<usize> {
    let step = office.progress.step("Deleting");
    let deleted = RefCell::new(0);
    let calls = letters.chunks(MOST_ENTRIES).map(async |some| {
        let ids: Vec<_> = some.iter().map(|letter| letter.message_id.clone()).collect();
        let answers = scan.delete(&ids).await?;
        *deleted.borrow_mut() += answers.iter().filter(|answer| answer.is_ok()).count();
        step.at(format!("{} of {}", deleted.borrow(), letters.len()));
        anyhow::Ok(())
    });
    let all: Result<Vec<()>> = stream::iter(calls).buffer_unordered(CALLS).try_collect().await;
    let deleted = deleted.into_inner();
    step.ended(deleted == letters.len(), &format!("{deleted} of {}", letters.len()));
    all?;
    Ok(deleted)
}

fn show(deleted: usize, style: Style) -> Result<()> {
    match style {
        Style::Json => print_json(&json!({ "deleted": deleted })),
        Style::Colored | Style::Plain => print(&format!("{} deleted", dead_letters(deleted))),
    }
}
