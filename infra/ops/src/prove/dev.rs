//! `cargo ops prove dev`: a change is what the next job runs, while `cargo ops dev`
//! goes on.
//!
//! It changes a copy of the repository, which shares this one's tools and compiled
//! dependencies.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::api::Answer;
use crate::dev::{Dev, InnerLoop};
use crate::emulator;
use crate::output::{Style, print};
use crate::process;
use crate::progress::Progress;
use crate::stack::{Stack, eventually};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// Compiling both functions and all that they depend on, on a machine that is busy.
const COMPILING: Duration = Duration::from_mins(20);

/// An answer from what is compiled. A request that the old process had in hand when
/// it was replaced is never answered, and is made again.
const ANSWERING: Duration = Duration::from_secs(5);

/// What is changed: the handler no longer passes on the title that it was given.
const HANDLER: &str = "consumer/src/jobs/report.rs";
const BEFORE: &str = "title: &report.title,";
const AFTER: &str = "title: \"Changed while it ran\",";

/// Posts a job, changes its handler, and posts until the change shows.
///
/// # Errors
///
/// The change did not show, or something was left running.
pub(super) async fn run(workspace: &Workspace, progress: Progress) -> Result<()> {
    Tools::prepare(workspace, progress).await?;
    let folder = tempfile::tempdir().context("could not create a temporary folder")?;
    let copy = Workspace::at(folder.path());
    copy_to(workspace, &copy).await?;
    let port = emulator::choose(None)?;
    let dev = Dev { port: None, watch_port: port };
    let mut inner_loop = InnerLoop::start(&copy, dev, Style::Plain, progress).await?;
    let stack = inner_loop.local.stack.clone();
    let told = tokio::select! {
        ended = inner_loop.follow(Style::Plain) => bail!("the inner loop ended: {ended:?}"),
        told = change(&stack, &copy) => told?,
    };
    drop(inner_loop);
    let left = left_behind(port);
    ensure!(left.is_empty(), "still running: {}", left.join(", "));
    print(&format!("\n{told}\nNothing was left running."))
}

async fn change(stack: &Stack, copy: &Workspace) -> Result<String> {
    let request = fs::read_to_string(copy.path("events/requests/report.json"))
        .context("could not read events/requests/report.json")?;
    let start = Instant::now();
    let before = title(stack, &request, COMPILING).await?;
    let first = start.elapsed();
    ensure!(before != "Changed while it ran", "it is changed already");

    let handler = copy.path(HANDLER);
    let code = fs::read_to_string(&handler).context("could not read the handler")?;
    ensure!(code.contains(BEFORE), "{HANDLER} no longer has `{BEFORE}`");
    fs::write(&handler, code.replace(BEFORE, AFTER)).context("could not change the handler")?;
    let start = Instant::now();
    eventually(COMPILING, "the change shows", async || {
        let title = title(stack, &request, ANSWERING).await?;
        Ok((title == "Changed while it ran").then_some(()))
    })
    .await?;
    Ok(format!(
        "The first job, compiling included: {} s, title {before:?}.\n\
         {HANDLER} changed: {} s later a job had the title \"Changed while it ran\".",
        first.as_secs(),
        start.elapsed().as_secs()
    ))
}

/// The title in the result of a job; `patience` is for each answer.
async fn title(stack: &Stack, request: &str, patience: Duration) -> Result<String> {
    let id = eventually(COMPILING, "a job is accepted", async || {
        let answer = within(patience, stack.api.post_job(request, None)).await;
        Ok(answer.filter(|it| it.status == 202).map(|it| it.id().map(str::to_owned)))
    })
    .await??;
    let job = eventually(COMPILING, "the job has ended", async || {
        let answer = within(ANSWERING, stack.api.job(&id)).await;
        Ok(answer.filter(|it| it.text("/state") == "succeeded"))
    })
    .await?;
    let title = job.body.pointer("/result/title").and_then(Value::as_str);
    Ok(title.context("the report has no title")?.to_owned())
}

async fn within(patience: Duration, call: impl Future<Output = Result<Answer>>) -> Option<Answer> {
    timeout(patience, call).await.ok()?.ok()
}

/// What git knows of, as it is on disk.
async fn copy_to(workspace: &Workspace, copy: &Workspace) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["ls-files"]).current_dir(workspace.path("."));
    let listed = process::run(command, |_| ()).await?;
    ensure!(listed.status.success(), "`git ls-files` failed: {}", listed.output());
    for file in listed.stdout {
        let (from, to) = (workspace.path(&file), copy.path(&file));
        fs::create_dir_all(to.parent().unwrap_or(Path::new("/")))
            .and_then(|()| fs::copy(from, &to))
            .with_context(|| format!("could not copy {file}"))?;
    }
    symlink(workspace.venv(), copy.venv()).context("could not share .venv")?;
    let config = copy.path(".cargo/config.toml");
    let text = fs::read_to_string(&config).context("could not read .cargo/config.toml")?;
    let target = workspace.path("target");
    let text = format!("{text}\n[build]\ntarget-dir = \"{}\"\n", target.display());
    fs::write(&config, text).context("could not write .cargo/config.toml")
}

/// Processes that were told to ask for work at `port`.
fn left_behind(port: u16) -> Vec<String> {
    let wanted = format!("AWS_LAMBDA_RUNTIME_API=http://127.0.0.1:{port}");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| {
            let variables = fs::read(process.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&variables).contains(&wanted)
        })
        .map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}
