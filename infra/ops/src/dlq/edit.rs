//! `cargo ops dlq edit`: another job instead of one whose payload was wrong.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use shared::State;
use shared::reason::INTERRUPTED;
use tokio::process::Command;

use super::found::Found;
use super::indent::indent;
use super::scan::Scan;
use super::{Desk, Office, show};
use crate::api::{Answer, Api};
use crate::ending::Ending;
use crate::output::{Format, Style, print, print_json};
use crate::target::Target;
use crate::workspace::editor;

pub(super) const EXAMPLES: &str = "\
Examples:
  EDITOR='code --wait' cargo ops dlq edit 01a22d88-5297-7c42-8d92-706a06211937
  cargo ops dlq edit --force 01a22d88-5297-7c42-8d92-706a06211937

The job is sent through the API: it is yours, not that of whoever sent the first
one, and in no group. Its idempotency key is made of the letter's message id, so
that saying this twice with one payload makes one job.

Of a job that was interrupted nobody knows whether its effect happened, and the new
one has an id that no receiver knows: find that out first, then purge or redrive the
letter, or edit it with --force.";

/// Which letter.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The letter's message id, or its job's id, as `dlq list` shows them.
    message: String,
    /// Also edits the letter of a job that was interrupted, whose effect may have
    /// happened.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// What a message says, as far as it can be changed.
#[derive(Deserialize)]
struct Wire<'a> {
    kind: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// What the API is asked for.
#[derive(Serialize)]
struct Request<'a> {
    kind: &'a str,
    payload: &'a RawValue,
}

pub(super) async fn run(desk: &Desk<'_>, args: Args) -> Result<Ending> {
    let (stack, office) = desk.open(&args.target).await?;
    office.scan(async |scan| edit(&office, scan, &stack.api, &args).await).await
}

async fn edit(office: &Office, scan: &Scan<'_>, api: &Api, args: &Args) -> Result<Ending> {
    let found = show::find(office, scan, &args.message).await?;
    ensure!(
        args.force || !was_interrupted(&found),
        "nothing was sent: the job was interrupted, and its effect may have happened; when you \
         know whether it has, purge or redrive the letter, or edit it with --force"
    );
    let (letter, old) = (&found.letter, found.job_id().map(|id| id.to_string()));
    let wire: Wire<'_> = serde_json::from_str(&letter.content.body)
        .with_context(|| not_a_job(&letter.message_id))?;
    // A letter that comes back is another message, with a key of its own.
    let key = format!("dlq-edit-{}", letter.message_id);
    let (payload, file) = edited(&indent(wire.payload.get())).await?;
    let kept = |file: tempfile::NamedTempFile| match file.keep() {
        Ok((_, path)) => format!("; what you wrote is in {}", path.display()),
        Err(_) => String::new(),
    };
    let payload: Box<RawValue> = match serde_json::from_str(&payload) {
        Ok(payload) => payload,
        Err(error) => bail!("nothing was sent: the payload is no JSON ({error}){}", kept(file)),
    };
    let request = json_of(&Request { kind: &wire.kind, payload: &payload })?;
    let answer = api.post_job(request, Some(&key)).await?;
    if !(200..300).contains(&answer.status) {
        bail!("nothing was sent: {}{}", problem(&answer), kept(file));
    }
    let new = answer.id()?.to_owned();
    if old.as_ref() == Some(&new) {
        bail!(
            "nothing was sent: the job's kind takes every payload with this intent for the same \
             job, {new}{}; `cargo ops dlq redrive --id {new}` runs it as it was",
            kept(file)
        );
    }
    let deleted = scan.delete(std::slice::from_ref(&letter.message_id)).await;
    show_jobs(old.as_deref(), &new, args.format.style())?;
    let outcome = deleted.with_context(|| still_here(&new))?.pop();
    ensure!(matches!(outcome, Some(Ok(()))), still_here(&new));
    Ok(Ending::Done)
}

/// Whether nobody knows what its last attempt has done.
fn was_interrupted(found: &Found) -> bool {
    found.own_entry().is_some_and(|entry| entry.state == State::Held)
        || found.why().0 == INTERRUPTED
}

/// How to go on with a letter that has no payload to edit.
fn not_a_job(message: &str) -> String {
    format!(
        "the letter is no job with a kind and a payload: `cargo ops dlq export --message \
         {message} > letter.ndjson`, mend the body there, `cargo ops dlq import letter.ndjson`, \
         redrive the new letter, and purge this one"
    )
}

fn still_here(new: &str) -> String {
    format!("job {new} was sent, but its dead letter is still here: purge it by its message id")
}

/// What the editor leaves of `text`, and the file that it is in.
async fn edited(text: &str) -> Result<(String, tempfile::NamedTempFile)> {
    const WHAT: &str = "could not write a file for the editor";
    let mut file =
        tempfile::Builder::new().prefix("payload-").suffix(".json").tempfile().context(WHAT)?;
    writeln!(file, "{text}").context(WHAT)?;
    open_editor(file.path()).await?;
    // Read by its name: editors may write another file and rename it.
    let edited = std::fs::read_to_string(file.path()).context("could not read what was edited")?;
    ensure!(edited.trim_end() != text.trim_end(), "nothing was changed, and nothing was sent");
    Ok((edited, file))
}

async fn open_editor(path: &Path) -> Result<()> {
    let editor = editor();
    let told = editor.to_string_lossy().into_owned();
    // By a shell, since the variable may hold arguments as well.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{told} \"$1\"")).arg("sh").arg(path);
    let status = command.status().await.context("could not start a shell for the editor")?;
    ensure!(
        status.success(),
        "nothing was sent: the editor `{told}` ended with {status}; EDITOR names another one"
    );
    Ok(())
}

fn json_of(request: &Request<'_>) -> Result<String> {
    serde_json::to_string(request).context("could not write the request")
}

/// What the API says is wrong, field by field.
fn problem(answer: &Answer) -> String {
    let errors = answer.body.get("errors").and_then(serde_json::Value::as_array);
    let mut told = format!("{} {}", answer.text("/title"), answer.text("/detail"));
    for error in errors.into_iter().flatten() {
        let field = |name| error.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        told = format!("{told}\n  {}: {}", field("pointer"), field("detail"));
    }
    let told = told.trim();
    let logs = if answer.status >= 500 { " (`cargo ops logs` says why)" } else { "" };
    format!("the API answered {}: {told}{logs}", answer.status)
}

fn show_jobs(old: Option<&str>, new: &str, style: Style) -> Result<()> {
    match style {
        Style::Json => print_json(&json!({ "old_job_id": old, "new_job_id": new })),
        Style::Colored | Style::Plain => {
            print(&format!("job {new} instead of {}", old.unwrap_or("one without an id")))
        }
    }
}

#[cfg(test)]
mod tests {
    use shared::{Fingerprint, JobEntry};

    use super::super::found::tests::{email, entry, letter, report, written};
    use super::*;

    #[test]
    fn a_job_whose_effect_may_have_happened_is_told_from_one_that_failed() {
        let of = |body: &str, reason: &str, entry: Option<JobEntry>| {
            was_interrupted(&Found { entry, ..Found::new(letter(body, &written(reason))) })
        };
        assert!(of(&email(), "interrupted", Some(entry(State::Held))));
        assert!(of(&email(), "interrupted", None));
        // A copy of a job that is held.
        assert!(of(&email(), "failed-before", Some(entry(State::Held))));
        assert!(!of(&email(), "permanent", Some(entry(State::Failed))));
        assert!(!of(&report(), "permanent", Some(entry(State::Failed))));
        let others = JobEntry { fingerprint: Fingerprint::from_text("g"), ..entry(State::Held) };
        assert!(!of(&report(), "fingerprint-mismatch", Some(others)));
        // SQS moved it after an attempt that ended without a word.
        let letter = Found::new(letter(&report(), &[]));
        assert!(was_interrupted(&Found { entry: Some(entry(State::Running)), ..letter }));
    }
}
