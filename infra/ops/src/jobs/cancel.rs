//! `cargo ops cancel`: cancels jobs that nobody has in hand.

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::Cell;
use serde::Serialize;
use uuid::Uuid;

use super::calls::Calls;
use super::ids::Ids;
use super::job::{Known, State, cell};
use super::problem::Problem;
use super::results::close_table;
use crate::output::{Color, Format, Style, print, print_json, with_ids};
use crate::progress::Progress;
use crate::target::Target;
use crate::workspace::Workspace;

const HELP: &str = "\
Examples:
  cargo ops cancel 01a22d88-5297-7c42-8d92-706a06211937
  cargo ops submit --json --delay 900 jobs.ndjson | jq -r .id | xargs cargo ops cancel

A job can be cancelled while it is queued, before its first attempt or between two; to
cancel it twice is to cancel it once. One that runs, or has ended, stays as it is.

JSON, one document an id:
  id, state (cancelled, or where the job stands that could not be); problem (title,
  detail, status, type) if it could not be.

Exit codes: 0 all are cancelled; 1 one could not be, or the API could not be asked;
2 it was called wrongly.";

/// Cancels jobs that are queued.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = HELP)]
pub struct Cancel {
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// What came of one id.
#[derive(Debug, Serialize)]
struct Cancelled {
    id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// Cancels each job, one after the other.
///
/// # Errors
///
/// One could not be cancelled, or the API did not answer.
pub async fn run(workspace: &Workspace, cancel: &Cancel, progress: Progress) -> Result<()> {
    let style = cancel.format.style();
    let calls = Calls::new(cancel.target.find(workspace, progress).await?.api);
    let ids = cancel.ids.distinct();
    let (mut told, mut left) = (Vec::new(), 0);
    for id in &ids {
        match cancel_one(&calls, *id).await {
            Ok(cancelled) => {
                left += usize::from(cancelled.problem.is_some());
                told.push(cancelled);
            }
            // What was done is not to be lost.
            Err(error) => {
                show(style, &told)?;
                return Err(error);
            }
        }
    }
    show(style, &told)?;
    match left {
        0 => Ok(()),
        _ => bail!("{left} of {} jobs could not be cancelled", ids.len()),
    }
}

async fn cancel_one(calls: &Calls, id: Uuid) -> Result<Cancelled> {
    Ok(match Known::of(&calls.cancel(id).await?)? {
        Known::Job(job) => Cancelled { id, state: Some(job.state), problem: None },
        Known::Nothing(problem) => Cancelled { id, state: problem.state, problem: Some(problem) },
    })
}

fn show(style: Style, told: &[Cancelled]) -> Result<()> {
    let mut table = with_ids(0, close_table(["Job", "State", "What came of it"]));
    for cancelled in told {
        if style == Style::Json {
            print_json(cancelled)?;
            continue;
        }
        let state = match cancelled.state {
            Some(state) => cell(style, state.color(), state.name()),
            None => Cell::new(""),
        };
        let outcome = match &cancelled.problem {
            Some(problem) => cell(style, Color::Red, problem.to_string()),
            None => Cell::new("cancelled"),
        };
        table.add_row([Cell::new(cancelled.id), state, outcome]);
    }
    if table.is_empty() { Ok(()) } else { print(&table.to_string()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fake::api;
    use super::*;

    #[tokio::test]
    async fn a_job_that_runs_is_said_to_run() {
        let problem = json!({ "title": "Job cannot be cancelled", "status": 409, "detail": "It runs.",
            "state": "running" });
        let reply = Some((409, "application/problem+json", problem.to_string()));
        let (calls, seen) = api(vec![reply]).await;
        let cancelled = cancel_one(&calls, Uuid::nil()).await.unwrap();
        assert_eq!(cancelled.state, Some(State::Running));
        let problem = cancelled.problem.unwrap().to_string();
        assert_eq!(problem, "409 Job cannot be cancelled: It runs.");
        assert_eq!(seen.lock().unwrap().len(), 1);
    }
}
