//! `cargo ops submit`: sends jobs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use clap::Args;
use comfy_table::Cell;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::calls::Calls;
use super::chunk::{Chunk, Line};
use super::draft::{Fields, with_fields};
use super::follow::follow;
use super::input::{Document, Input};
use super::job::{State, cell};
use super::problem::Problem;
use super::results::{cells, close_table, document};
use super::send::{Accepted, Stopped, send};
use super::watch::ending;
use crate::ending::Ending;
use crate::output::{Color, Format, Style, print, print_json};
use crate::progress::{Progress, Step};
use crate::target::Target;
use crate::workspace::Workspace;

const HELP: &str = r#"Input:
  A first line that is a whole JSON document means NDJSON: one job a line, of any number,
  sent as they are read, 500 or 5 MiB at a time. Else the whole input is one job, written
  over several lines. Payloads are sent as they are written: 1.0 stays
  1.0, and large numbers keep all their digits.

  A job is {"kind":…, "payload":…}, with the optional fields delay_seconds, group and
  idempotency_key, which win over --delay, --group and --key.

Keys:
  Each job gets a key, so that a request whose answer is lost, or that meets an outage
  (429, 5xx), can be made again: four times here, with growing pauses, and nothing is
  done twice. Without --key the keys are new, and submitting the same file again makes
  new jobs. With it they are the same: one job has KEY itself, and of many the one on
  line N has KEY/N. So a submission that was interrupted is completed by the same
  command with the same --key; without one, the key that the progress names.

Examples:
  cargo ops submit events/requests/report.json
  cargo ops submit --wait --timeout 60 events/requests/report.json
  cargo ops submit --key import-48 --json jobs.ndjson > accepted.ndjson
  echo '{"title":"t","rows":[]}' | cargo ops submit --kind report -
  jq -c '.[]' all.json | cargo ops submit --group import -

JSON, one document a job, in the order of the input:
  line, id, kind, state of what was accepted (or known by its key before)
  line, problem (title, detail, status, type, errors with pointer and detail) of what
  was refused; without status and type where it was not sent at all
  With --wait, then one document for each job as it ends: `line` and the fields of
  `cargo ops status`.

Exit codes: 0 all were accepted, and with --wait succeeded; 1 one was refused, or the
API could not be asked; 2 it was called wrongly; 3 with --wait: not all succeeded, or had
ended when the time was over."#;

/// How long a line waits for others to be sent with it.
const FOR_MORE: Duration = Duration::from_secs(1);

/// Jobs that are followed at the same time.
const WINDOW: usize = 500;

/// Characters of a key, less what `/` and a line's number add.
const MAX_KEY: usize = 255 - 21;

/// Sends one job, or many.
///
/// Shows the id of each, or why it was refused; one that is refused costs the others
/// nothing.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = HELP)]
pub struct Submit {
    /// One job as JSON, or many with one a line (NDJSON); `-` is stdin.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Takes each document for the payload of a job of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Names the job, so that submitting it again does not do it again.
    #[arg(long, value_parser = read_key)]
    key: Option<String>,
    /// Lets the jobs start only after so many seconds, 900 at most.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(..=900))]
    delay: Option<u16>,
    /// Puts the jobs in a group of yours: groups share the queue fairly.
    #[arg(long)]
    group: Option<String>,
    /// Waits until all have ended, and shows what came of them.
    #[arg(long)]
    wait: bool,
    /// Gives up waiting after so many seconds; the jobs go on.
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    timeout: Option<u64>,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

fn read_key(text: &str) -> Result<String, String> {
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
    if text.trim().is_empty() || !text.bytes().all(is_printable) || text.len() > MAX_KEY {
        return Err(format!("a key has 1 to {MAX_KEY} printable ASCII characters"));
    }
    Ok(text.to_owned())
}

/// Sends all jobs and, if that is asked for, waits for them.
///
/// # Errors
///
/// One was refused, the input could not be read, or the API did not answer.
pub async fn run(workspace: &Workspace, submit: &Submit, progress: Progress) -> Result<Ending> {
    let mut input = Input::open(&submit.file)?;
    let first = input.next().await?;
    let first = first.with_context(|| format!("{} has no job", submit.file.display()))?;
    let second = input.next().await?;
    let api = submit.target.find(workspace, progress).await?.api;
    let mut sending = Sending::new(submit, Calls::new(api), second.is_some(), &input, progress);
    let sent = sending.all(first, second, &mut input).await;
    let Sending { calls, style, step, accepted, count, refused, .. } = sending;
    step.done(&format!("{} accepted, {refused} refused", count - refused));
    sent?;
    let mut ending = Ending::Done;
    if submit.wait {
        let timeout = submit.timeout.map(Duration::from_secs);
        ending = wait(&calls, &accepted, timeout, style, progress).await?;
    }
    if refused > 0 {
        bail!("{refused} of {count} jobs {} refused", if refused == 1 { "was" } else { "were" });
    }
    Ok(ending)
}

/// A line whose job was accepted.
#[derive(Clone, Copy, Debug)]
struct Sent {
    line: u64,
    id: Uuid,
}

/// What is told of a line.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Accepted { line: u64, id: Uuid, kind: &'a str, state: State },
    Refused { line: u64, problem: &'a Problem },
}

/// A submission under way.
struct Sending {
    calls: Calls,
    fields: Fields,
    key: String,
    are_many: bool,
    style: Style,
    step: Step,
    /// What is to be waited for.
    accepted: Vec<Sent>,
    keeps_accepted: bool,
    count: u64,
    refused: u64,
}

impl Sending {
    fn new(
        submit: &Submit,
        calls: Calls,
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
            accepted: Vec::new(),
            keeps_accepted: submit.wait,
            count: 0,
            refused: 0,
        }
    }

    /// Sends and shows everything, chunk by chunk.
    async fn all(
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

    fn draft(&self, document: Document) -> Line {
        let Document { line: number, text, .. } = document;
        let key = if self.are_many { format!("{}/{number}", self.key) } else { self.key.clone() };
        Line { number, job: text.and_then(|text| self.fields.job(&text, &key)) }
    }

    async fn send(&mut self, chunk: &Chunk) -> Result<()> {
        let jobs = chunk.lines.iter().filter_map(|line| line.job.as_deref().ok());
        let jobs: Vec<_> = jobs.collect();
        let sent = send(&self.calls, &jobs).await.map_err(|stopped| self.stopped(stopped, chunk));
        let mut sent = sent?.into_iter();
        let mut table = close_table(["Line", "Job", "Kind", "What came of it"]);
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
            match self.style {
                Style::Json => print_json(&told(line.number, &outcome))?,
                Style::Colored | Style::Plain => {
                    table.add_row(row(self.style, line.number, &outcome));
                }
            }
        }
        self.step.at(format!("{} accepted, {} refused", self.count - self.refused, self.refused));
        if table.is_empty() { Ok(()) } else { print(&table.to_string()) }
    }

    fn count(&mut self, line: u64, outcome: &Result<Accepted, Problem>) {
        self.count += 1;
        match outcome {
            Ok(accepted) if self.keeps_accepted => {
                self.accepted.push(Sent { line, id: accepted.id });
            }
            Ok(_) => {}
            Err(_) => self.refused += 1,
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

fn told(line: u64, outcome: &Result<Accepted, Problem>) -> Told<'_> {
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

/// Follows jobs until they have ended or the time is over, and shows them.
async fn wait(
    calls: &Calls,
    sent: &[Sent],
    timeout: Option<Duration>,
    style: Style,
    progress: Progress,
) -> Result<Ending> {
    let until = timeout.map(|timeout| Instant::now() + timeout);
    let step = progress.step_of("Waiting for them", sent.len() as u64);
    let (mut ended, mut succeeded, mut all) = (0, 0, Ending::Done);
    for window in sent.chunks(WINDOW) {
        let ids: Vec<_> = window.iter().map(|sent| sent.id).collect();
        let jobs = follow(calls, &ids, until, |position, known| {
            if known.is_final() {
                ended += 1;
                succeeded += u64::from(known.succeeded());
                step.reached(ended);
                step.at(format!("{ended} of {} ended", sent.len()));
            }
            match window.get(position) {
                Some(Sent { line, id }) if style == Style::Json && known.is_final() => {
                    print(&with_fields(&document(*id, known)?, &[("line", json!(line))]))
                }
                Some(_) | None => Ok(()),
            }
        });
        let jobs = jobs.await?;
        let mut table = close_table(["Line", "Job", "State", "Attempt", "What came of it"]);
        for (Sent { line, id }, known) in std::iter::zip(window, &jobs) {
            let cells = cells(style, *id, known.as_ref());
            table.add_row(std::iter::once(Cell::new(line)).chain(cells));
        }
        if style != Style::Json {
            print(&table.to_string())?;
        }
        if ending(&jobs) == Ending::NotAllSucceeded {
            all = Ending::NotAllSucceeded;
        }
    }
    let failed = ended - succeeded;
    let left = sent.len() as u64 - ended;
    step.done(&format!("{succeeded} succeeded, {failed} did not, {left} had no end in time"));
    Ok(all)
}
