//! `cargo ops dlq export`: writes dead letters as lines of JSON, and leaves them
//! where they are.

use std::cell::RefCell;

use anyhow::{Context, Result};

use super::filter::Filter;
use super::found::Entries;
use super::scan::End;
use super::{Desk, ending, line, say_if_incomplete};
use crate::ending::Ending;
use crate::output::print;
use crate::target::Target;

pub(super) const EXAMPLES: &str = "\
Examples:
  cargo ops dlq export --all > letters.ndjson
  cargo ops dlq export --kind webhook | jq -r .body

A line has the body byte for byte, the attributes, the group and the trace;
`cargo ops dlq import` reads it.";

/// Which letters to write.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let (_, office) = desk.open(&args.target).await?;
    let step = office.progress.step("Dead letters, written");
    let (seen, written) = (RefCell::new(0), RefCell::new(Vec::new()));
    let end = office.scan(async |scan| {
        scan.walk(async |letters| {
            let now = office.now();
            for found in office.find_out(letters, Entries::WhereNeeded).await? {
                *seen.borrow_mut() += 1;
                let summary = found.summary(now);
                if args.filter.matches(&summary) {
                    let (content, sent_at) = (&found.letter.content, summary.sent_at.clone());
                    let line = line::write(content, &summary.message_id, sent_at);
                    print(&line.context("could not write a letter as JSON")?)?;
                    written.borrow_mut().push(summary);
                }
            }
            step.at(format!("{} of {}", written.borrow().len(), seen.borrow()));
            Ok(())
        })
        .await
    });
    let end = end.await?;
    let (seen, written) = (seen.into_inner(), written.into_inner());
    step.done(&format!("{} of {seen} looked at", written.len()));
    say_if_incomplete(end, seen);
    if end == End::Complete {
        args.filter.check_found(&written)?;
    }
    Ok(ending(end))
}
