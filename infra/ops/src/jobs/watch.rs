//! `cargo ops watch`: follows jobs until they have ended.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use tokio::time::Instant;
use uuid::Uuid;

use super::calls::Calls;
use super::follow::follow;
use super::ids::Ids;
use super::job::Known;
use super::next_try::Entries;
use super::results::{document, unknown};
use crate::ending::Ending;
use crate::output::{Color, Format, Style, print};
use crate::progress::Progress;
use crate::target::Target;
use crate::workspace::Workspace;

const HELP: &str = "\
Examples:
  cargo ops watch 01a22d88-5297-7c42-8d92-706a06211937
  cargo ops submit --json jobs.ndjson | jq -r .id | xargs cargo ops watch
  cargo ops watch --timeout 60 01a22d88-5297-7c42-8d92-706a06211937 && echo done

A job is asked for as often as the API says that there may be news (Retry-After), once a
second at most: what it was in between is not seen. Of one that waits for another
attempt it says until when, and what went wrong, if you may read the stack's table of
entries.

JSON, one document a change (the first is how a job stands at the beginning): as of
`cargo ops status`.

Exit codes: 0 all succeeded; 1 an id names no job of yours, or the API could not be
asked; 2 it was called wrongly; 3 not all succeeded, or had ended when the time was over.";

/// Follows jobs until all have ended, and shows each change.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = HELP)]
pub struct Watch {
    #[command(flatten)]
    ids: Ids,
    /// Gives up after so many seconds; the jobs go on.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// Follows the jobs.
///
/// # Errors
///
/// An id names no job, or the API did not answer.
pub async fn run(workspace: &Workspace, watch: &Watch, progress: Progress) -> Result<Ending> {
    let style = watch.format.style();
    let stack = watch.target.find(workspace, progress).await?;
    let entries = (style != Style::Json).then(|| Entries::of(&stack));
    let calls = Calls::new(stack.api);
    let ids = watch.ids.distinct();
    let until = watch.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let show = |position: usize, known: &Known| match ids.get(position) {
        Some(id) => print(&change(style, *id, known)?),
        None => Ok(()),
    };
    let jobs = follow(&calls, entries.as_ref(), &ids, until, show).await?;
    let nothing = std::iter::zip(&ids, &jobs).filter_map(|(id, known)| match known {
        Some(Known::Nothing(problem)) => Some((*id, problem)),
        Some(Known::Job(_)) | None => None,
    });
    if let Some(why) = unknown(nothing) {
        bail!("{why}");
    }
    Ok(ending(&jobs))
}

/// Well, if all jobs succeeded.
pub(super) fn ending(jobs: &[Option<Known>]) -> Ending {
    let succeeded = |known: &Option<Known>| known.as_ref().is_some_and(Known::succeeded);
    if jobs.iter().all(succeeded) { Ending::Done } else { Ending::NotAllSucceeded }
}

fn change(style: Style, id: Uuid, known: &Known) -> Result<String> {
    if style == Style::Json {
        return Ok(document(id, known)?);
    }
    let job = match known {
        Known::Job(job) => job,
        Known::Nothing(problem) => {
            let problem = problem.to_string();
            return Ok(format!("{id} {}", style.paint(Color::Red, &problem)));
        }
    };
    let time = style.paint(Color::Dim, &job.updated_at);
    let state = style.paint(job.state.color(), job.state.name());
    let attempt = match job.attempt {
        0 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let outcome = match job.outcome() {
        outcome if outcome.is_empty() => outcome,
        outcome => format!(": {outcome}"),
    };
    Ok(format!("{time} {id} {} {state}{attempt}{outcome}", job.kind))
}
