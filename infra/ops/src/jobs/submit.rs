//! `cargo ops submit`: sends jobs.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::calls::Calls;
use super::input::Input;
use super::sending::Sending;
use super::waiting::wait;
use crate::ending::Ending;
use crate::output::Format;
use crate::progress::Progress;
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
    pub(super) kind: Option<String>,
    /// Names the job, so that submitting it again does not do it again.
    #[arg(long, value_parser = read_key)]
    pub(super) key: Option<String>,
    /// Lets the jobs start only after so many seconds, 900 at most.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(..=900))]
    pub(super) delay: Option<u16>,
    /// Puts the jobs in a group of yours: groups share the queue fairly.
    #[arg(long)]
    pub(super) group: Option<String>,
    /// Waits until all have ended, and shows what came of them.
    #[arg(long)]
    pub(super) wait: bool,
    /// Gives up waiting after so many seconds; the jobs go on.
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    timeout: Option<u64>,
    #[command(flatten)]
    pub(super) format: Format,
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
    let calls = Calls::new(submit.target.find(workspace, progress).await?.api);
    let mut sending = Sending::new(submit, &calls, second.is_some(), &input, progress);
    let sent = sending.all(first, second, &mut input).await;
    let submitted = sending.end(sent.is_ok());
    sent?;
    let mut ending = Ending::Done;
    if !submitted.accepted.is_empty() {
        let (style, seconds) = (submit.format.style(), submit.timeout);
        ending = wait(&calls, &submitted.accepted, seconds, style, progress).await?;
    }
    match (submitted.refused, submitted.count) {
        (0, _) => Ok(ending),
        (1, 1) => bail!("the job was refused"),
        (1, count) => bail!("1 of {count} jobs was refused"),
        (refused, count) => bail!("{refused} of {count} jobs were refused"),
    }
}
