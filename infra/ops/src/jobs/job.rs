//! A job as the API shows it.

use anyhow::{Context, Result};
use comfy_table::Cell;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::problem::Problem;
use crate::api::Answer;
use crate::output::{Color, Style};

/// Characters of a result that a table shows.
const SHOWN_RESULT: usize = 300;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Accepted, or waiting for its next attempt.
    Queued,
    /// An attempt is under way.
    Running,
    /// Done.
    Succeeded,
    /// Not done, and not tried again by itself.
    Failed,
    /// Cancelled before it was done.
    Cancelled,
}

impl State {
    /// Whether nothing more happens to the job by itself.
    pub(super) const fn is_end(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(super) const fn color(self) -> Color {
        match self {
            Self::Queued | Self::Running => Color::Yellow,
            Self::Succeeded => Color::Green,
            Self::Failed => Color::Red,
            Self::Cancelled => Color::Dim,
        }
    }
}

/// A job.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Job {
    pub(super) kind: String,
    pub(super) state: State,
    pub(super) attempt: u32,
    pub(super) updated_at: String,
    result: Option<Box<RawValue>>,
    #[serde(default)]
    result_omitted: bool,
    reason: Option<String>,
    error: Option<String>,
    /// When it is tried again, if that is known.
    #[serde(skip)]
    pub(super) next_try: Option<String>,
    /// All of it as the API wrote it, in one line.
    #[serde(skip)]
    pub(super) document: String,
}

/// What the API knows of an id.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// The job that it names.
    Job(Box<Job>),
    /// Why there is none, or none for us.
    Nothing(Problem),
}

impl Known {
    /// Reads the answer to a request for a job.
    pub(super) fn of(answer: &Answer) -> Result<Self> {
        if answer.status != 200 {
            return Ok(Self::Nothing(Problem::of(answer)));
        }
        let job = serde_json::from_str(&answer.raw);
        let mut job: Job = job.context("the API answered with something else than a job")?;
        // White space, since strings cannot hold line breaks in JSON.
        job.document = answer.raw.replace(['\n', '\r'], " ");
        Ok(Self::Job(Box::new(job)))
    }

    /// Whether asking again would tell nothing else.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Job(job) => job.state.is_end(),
            Self::Nothing(_) => true,
        }
    }

    /// Whether it is a job that succeeded.
    pub(super) fn succeeded(&self) -> bool {
        matches!(self, Self::Job(job) if job.state == State::Succeeded)
    }
}

impl Job {
    /// Whether it has had an attempt, and waits for another.
    pub(super) fn is_tried_again(&self) -> bool {
        self.state == State::Queued && self.attempt > 0
    }

    /// What came of it, as far as something has, or when it will be known.
    pub(super) fn outcome(&self) -> String {
        match (&self.result, self.result_omitted, &self.reason, &self.error) {
            (Some(result), ..) => shorten(result.get()),
            (None, true, ..) => "its result was too large to keep".to_owned(),
            (None, false, Some(reason), Some(error)) => format!("{reason}: {error}"),
            (None, false, Some(text), None) | (None, false, None, Some(text)) => text.clone(),
            (None, false, None, None) => self.next_try.clone().unwrap_or_default(),
        }
    }
}

/// A cell in a colour, where colours are shown.
pub(super) fn cell(style: Style, color: Color, text: impl Into<String>) -> Cell {
    let cell = Cell::new(text.into());
    match (style, color) {
        (Style::Plain | Style::Json, _) => cell,
        (Style::Colored, Color::Dim) => cell.fg(comfy_table::Color::DarkGrey),
        (Style::Colored, Color::Green) => cell.fg(comfy_table::Color::Green),
        (Style::Colored, Color::Yellow) => cell.fg(comfy_table::Color::Yellow),
        (Style::Colored, Color::Red) => cell.fg(comfy_table::Color::Red),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_RESULT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
