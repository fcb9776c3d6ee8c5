//! A submission: lines become jobs, go out in chunks, and are shown with what
//! became of them.

use std::time::Duration;

use anyhow::{Error, Result, bail};
use comfy_table::Cell;
use serde::Serialize;
use tokio::time::timeout;
use uuid::Uuid;

use super::calls::Calls;
use super::chunk::{Chunk, Line};
use super::draft::Fields;
use super::input::{Document, Input};
use super::job::{State, cell};
use super::problem::Problem;
use super::results::close_table;
use super::send::{Accepted, Stopped, send};
use super::submit::Submit;
use crate::output::{Color, Style, print, print_json, with_ids};
use crate::progress::{Progress, Step};

/// How long a line waits for others to be sent with it.
const FOR_MORE: Duration = Duration::from_secs(1);

/// A line whose job was accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) line: u64,
    pub(super) id: Uuid,
}

/// What came of it all.
#[derive(Debug, Default)]
pub(super) struct Submitted {
    /// What is to be waited for.
    pub(super) accepted: Vec<Sent>,
    /// Lines with a job, or with something else.
    pub(super) count: u64,
    pub(super) refused: u64,
}

/// What is told of a line.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Accepted { line: u64, id: Uuid, kind: &'a str, state: State },
    Refused { line: u64, problem: &'a Problem },
}

/// A submission under way.
pub(super) struct Sending<'a> {
    calls: &'a Calls,
    fields: Fields,
    key: String,
    are_many: bool,
    style: Style,
    step: Step,
    is_waited_for: bool,
    submitted: Submitted,
}

impl<'a> Sending<'a> {
    pub(super) fn new(
        submit: &Submit,
        calls: &'a Calls,
        are_many: bool,
        input: &Input,
        progress: Progress,
    ) -> Self {
        let key = submit.key.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let what = if are_many { format!("Jobs, with the key {key}") } else { "Job".to_owned() };
        let step = match input.size {
            Some(size) => progress.step_of(&what, size),
            None => progress.step(&what),
        };
        let Submit { kind, delay, group, .. } = submit.clone();
        Self {
            calls,
            fields: Fields { kind, delay, group },
            key,
            are_many,
            style: submit.format.style(),
            step,
            is_waited_for: submit.wait,
            submitted: Submitted::default(),
        }
    }

    /// Sends and shows everything, chunk by chunk.
    pub(super) async fn all(
        &mut self,
        first: Document,
        second: Option<Document>,
        input: &mut Input,
    ) -> Result<()> {
        let mut chunk = Chunk::default();
        let mut ready = vec![first];
        ready.extend(second);
        loop {
            for document in ready.drain(..) {
                let end = document.end;
                let line = self.draft(document);
                if chunk.is_full_for(&line) {
                    self.send(&std::mem::take(&mut chunk)).await?;
                }
                chunk.push(line);
                self.step.reached(end);
            }
            match timeout(FOR_MORE, input.next()).await {
                Ok(Ok(Some(document))) => ready.push(document),
                Ok(Ok(None)) => return self.send(&chunk).await,
                Ok(Err(error)) => return Err(error),
                // Whoever writes it takes time.
                Err(_) => self.send(&std::mem::take(&mut chunk)).await?,
            }
        }
    }

    /// Says what came of it, whether or not `all_sent`.
    pub(super) fn end(self, all_sent: bool) -> Submitted {
        let told = self.told();
        self.step.ended(all_sent && self.submitted.refused == 0, &told);
        self.submitted
    }

    fn told(&self) -> String {
        let Submitted { count, refused, .. } = self.submitted;
        format!("{} accepted, {refused} refused", count - refused)
    }

    fn draft(&self, document: Document) -> Line {
        let Document { line: number, text, .. } = document;
        let key = if self.are_many { format!("{}/{number}", self.key) } else { self.key.clone() };
        Line { number, job: text.and_then(|text| self.fields.job(&text, &key)) }
    }

    async fn send(&mut self, chunk: &Chunk) -> Result<()> {
        let jobs = chunk.lines.iter().filter_map(|line| line.job.as_deref().ok());
        let jobs: Vec<_> = jobs.collect();
        let sent = send(self.calls, &jobs).await.map_err(|stopped| self.stopped(stopped, chunk));
        let mut sent = sent?.into_iter();
        let mut outcomes = Vec::new();
        for line in &chunk.lines {
            let outcome = match &line.job {
                Err(problem) => Err(problem.clone()),
                // Each job that was sent has an answer.
                Ok(_) => match sent.next() {
                    Some(outcome) => outcome,
                    None => bail!("the API left out what became of line {}", line.number),
                },
            };
            self.count(line.number, &outcome);
            outcomes.push((line.number, outcome));
        }
        self.step.at(self.told());
        self.step.aside(|| show(self.style, &outcomes))
    }

    fn count(&mut self, line: u64, outcome: &Result<Accepted, Problem>) {
        let submitted = &mut self.submitted;
        submitted.count += 1;
        match outcome {
            Ok(accepted) if self.is_waited_for => {
                submitted.accepted.push(Sent { line, id: accepted.id });
            }
            Ok(_) => {}
            Err(_) => submitted.refused += 1,
        }
    }

    /// Where it ended, and how to go on.
    fn stopped(&self, stopped: Stopped, chunk: &Chunk) -> Error {
        match stopped {
            Stopped::Refused(error) => error,
            Stopped::Unclear(error) => {
                let numbers = || chunk.lines.iter().map(|line| line.number);
                let (from, to) = (numbers().min(), numbers().max());
                error.context(format!(
                    "stopped at lines {} to {}, which may have been accepted: submit the same \
                     again with --key {}, and nothing is done twice",
                    from.unwrap_or_default(),
                    to.unwrap_or_default(),
                    self.key
                ))
            }
        }
    }
}

fn show(style: Style, outcomes: &[(u64, Result<Accepted, Problem>)]) -> Result<()> {
    let mut table = with_ids(1, close_table(["Line", "Job", "Kind", "What came of it"]));
    for (line, outcome) in outcomes {
        match style {
            Style::Json => print_json(&document(*line, outcome))?,
            Style::Colored | Style::Plain => {
                table.add_row(row(style, *line, outcome));
            }
        }
    }
    if table.is_empty() { Ok(()) } else { print(&table.to_string()) }
}

fn document(line: u64, outcome: &Result<Accepted, Problem>) -> Told<'_> {
    match outcome {
        Ok(Accepted { id, kind, state }) => Told::Accepted { line, id: *id, kind, state: *state },
        Err(problem) => Told::Refused { line, problem },
    }
}

fn row(style: Style, line: u64, outcome: &Result<Accepted, Problem>) -> [Cell; 4] {
    let line = Cell::new(line);
    match outcome {
        Ok(Accepted { id, kind, state }) => {
            [line, Cell::new(id), Cell::new(kind), cell(style, state.color(), state.name())]
        }
        Err(problem) => {
            let problem = cell(style, Color::Red, problem.to_string());
            [line, Cell::new(""), Cell::new(""), problem]
        }
    }
}
