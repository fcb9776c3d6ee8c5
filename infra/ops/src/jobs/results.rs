//! What became of jobs, in tables and as documents.

use comfy_table::{Cell, Table, presets};
use serde::Serialize;
use uuid::Uuid;

use super::job::{Known, cell};
use super::problem::Problem;
use crate::output::{self, Color, Style};

/// A job, or what is wrong with its id.
#[derive(Debug, Serialize)]
pub(super) struct Refused<'a> {
    pub(super) id: Uuid,
    pub(super) problem: &'a Problem,
}

/// A table whose rows stand close to one another.
pub(super) fn close_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = output::table(header);
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table
}

/// Headers of [`cells`].
pub(super) const HEADERS: [&str; 4] = ["Job", "State", "Attempt", "What came of it"];

/// The row of a job that was asked for.
pub(super) fn cells(style: Style, id: Uuid, known: Option<&Known>) -> [Cell; 4] {
    let id = Cell::new(id);
    let nothing = || Cell::new("");
    match known {
        Some(Known::Job(job)) => [
            id,
            cell(style, job.state.color(), job.state.name()),
            Cell::new(attempt(job.attempt)),
            Cell::new(job.outcome()),
        ],
        Some(Known::Nothing(problem)) => {
            [id, nothing(), nothing(), cell(style, Color::Red, problem.to_string())]
        }
        None => [id, nothing(), nothing(), cell(style, Color::Yellow, "not asked for in time")],
    }
}

/// A message may have been received, and given back, without an attempt at its job.
fn attempt(attempt: u32) -> String {
    if attempt == 0 { "none".to_owned() } else { attempt.to_string() }
}

/// The document of an id: the job as the API shows it, or what is wrong.
pub(super) fn document(id: Uuid, known: &Known) -> serde_json::Result<String> {
    match known {
        Known::Job(job) => Ok(job.document.clone()),
        Known::Nothing(problem) => serde_json::to_string(&Refused { id, problem }),
    }
}

/// Ids that name nothing, each with the reason, in one line.
pub(super) fn unknown<'a>(all: impl Iterator<Item = (Uuid, &'a Problem)>) -> Option<String> {
    let all = all.map(|(id, problem)| format!("{id}: {}", problem.to_string().replace('\n', ", ")));
    let all: Vec<_> = all.collect();
    (!all.is_empty()).then(|| all.join("; "))
}
