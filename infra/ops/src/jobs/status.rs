//! `cargo ops status`: what became of jobs.

use anyhow::{Result, bail};
use clap::Args;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::calls::Calls;
use super::follow::AT_ONCE;
use super::ids::Ids;
use super::job::Known;
use super::next_try::Entries;
use super::results::{HEADERS, cells, close_table, document, unknown};
use crate::output::{Format, Style, print, with_ids};
use crate::progress::Progress;
use crate::target::Target;
use crate::workspace::Workspace;

const HELP: &str = "\
Examples:
  cargo ops status 01a22d88-5297-7c42-8d92-706a06211937
  cargo ops status --json 01a22d88-5297-7c42-8d92-706a06211937 | jq .result

Of a job that waits for another attempt, the table says until when, and what went wrong,
if you may read the stack's table of entries.

JSON, one document an id:
  what GET /jobs/{id} answers, digit for digit: id, kind, state (queued, running,
  succeeded, failed, cancelled), attempt, created_at, updated_at, and as far as there
  is one result (or result_omitted), reason, error. Of an id that names no job of
  yours: id, problem (title, detail, status, type).

Exit codes: 0 all are shown, however they stand; 1 an id names no job of yours, or the
API could not be asked; 2 it was called wrongly, such as with an id that is no UUID.";

/// Shows what became of jobs.
///
/// Each job is asked for once, whatever its state; `watch` follows it.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = HELP)]
pub struct Status {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// Asks once for each job and shows them in the order of their ids.
///
/// # Errors
///
/// An id names no job, or the API did not answer.
pub async fn run(workspace: &Workspace, status: &Status, progress: Progress) -> Result<()> {
    let style = status.format.style();
    let stack = status.target.find(workspace, progress).await?;
    let entries = Entries::of(&stack);
    let calls = Calls::new(stack.api);
    let ids = status.ids.distinct();
    let ask = async |id| {
        let known = Known::of(&calls.job(id).await?)?;
        // The document is what the API answers, and nothing else.
        let is_explained = style != Style::Json;
        anyhow::Ok((id, if is_explained { entries.explain(id, known).await } else { known }))
    };
    let jobs: Vec<_> = stream::iter(ids).map(ask).buffered(AT_ONCE).try_collect().await?;
    let mut table = with_ids(0, close_table(HEADERS));
    for (id, known) in &jobs {
        match (style, known) {
            (Style::Json, _) => print(&document(*id, known)?)?,
            (Style::Colored | Style::Plain, Known::Job(_)) => {
                table.add_row(cells(style, *id, Some(known)));
            }
            // Said at the end.
            (Style::Colored | Style::Plain, Known::Nothing(_)) => {}
        }
    }
    if !table.is_empty() {
        print(&table.to_string())?;
    }
    let nothing = jobs.iter().filter_map(|(id, known)| match known {
        Known::Nothing(problem) => Some((*id, problem)),
        Known::Job(_) => None,
    });
    match unknown(nothing) {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}
