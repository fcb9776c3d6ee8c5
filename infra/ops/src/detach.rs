//! `cargo ops up --detach`: the same command once more, in the background.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::progress::Progress;
use crate::running::{Ready, Running, UP_ALREADY};
use crate::workspace::Workspace;

/// How often we look whether it is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Runs `cargo ops up` in the background, and returns when its stack is ready.
///
/// # Errors
///
/// As of `cargo ops up`. Nothing is left running then.
pub(crate) async fn run(
    workspace: &Workspace,
    port: Option<u16>,
    progress: Progress,
) -> Result<Ready> {
    let mut up = Command::new(std::env::current_exe().context("could not find cargo ops")?);
    up.arg("up").args(port.map(|port| format!("--port={port}")));
    until_ready(workspace, up, progress).await
}

/// Starts a command that announces a stack, and waits until it does.
///
/// # Errors
///
/// It ended before, for the reason that it gave.
pub async fn until_ready(
    workspace: &Workspace,
    mut command: Command,
    progress: Progress,
) -> Result<Ready> {
    // Before its log is written anew.
    ensure!(Running::find(workspace)?.is_none(), UP_ALREADY);
    let step = progress.step("In the background");
    let log = Log::create(workspace)?;
    let mut started = Started::start(&mut command, &log)?;
    loop {
        if started.child.try_wait().context("could not watch a process")?.is_some() {
            let said = log.last_line().unwrap_or_else(|| "it ended without a word".to_owned());
            let said = said.trim_start_matches("error: ");
            bail!("{said}; all that it said is in {}", log.path.display());
        }
        if let Some(ready) = started.ready(workspace) {
            started.is_ready = true;
            step.done(&format!("ready, and its log is {}", log.path.display()));
            return Ok(ready);
        }
        step.at(log.last_line().unwrap_or_default().trim());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The command; ended when it is dropped before it is ready.
struct Started {
    child: Child,
    is_ready: bool,
}

impl Started {
    fn start(command: &mut Command, log: &Log) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(log.append()?).stderr(log.append()?);
        // Neither Ctrl-C nor closing the terminal reaches it.
        command.process_group(0);
        let child = command.spawn().context("could not start it in the background")?;
        Ok(Self { child, is_ready: false })
    }

    fn ready(&self, workspace: &Workspace) -> Option<Ready> {
        // What cannot be read yet can be soon. It is there, being our child, so there
        // is no need to look at the lock, which could be in its way.
        let running = Running::told(workspace).ok()?;
        running.ready.filter(|_| u32::try_from(running.process) == Ok(self.child.id()))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The process id of one that was seen to have ended may be somebody else's.
        if self.is_ready || !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // Fails when it has just ended, which is what we want.
        let _ = process.map(|process| kill_process(process, Signal::TERM));
        let _ = self.child.wait();
    }
}

/// What the command writes, to stdout and stderr.
struct Log {
    path: PathBuf,
}

impl Log {
    fn create(workspace: &Workspace) -> Result<Self> {
        let path = workspace.scratch().join("up.log");
        fs::create_dir_all(workspace.scratch())
            .and_then(|()| File::create(&path).map(drop))
            .with_context(|| format!("could not write {}", path.display()))?;
        Ok(Self { path })
    }

    fn last_line(&self) -> Option<String> {
        let said = fs::read_to_string(&self.path).unwrap_or_default();
        said.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
    }

    fn append(&self) -> Result<File> {
        let file = File::options().append(true).open(&self.path);
        file.with_context(|| format!("could not write {}", self.path.display()))
    }
}
