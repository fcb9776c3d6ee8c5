//! `cargo ops up --detach`: the same command once more, in the background.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::output::say;
use crate::progress::{Progress, Step};
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
    let mut log = Log::create(workspace)?;
    let step = progress.step(&format!("In the background, with its log in {}", log.path.display()));
    let mut started = Started::start(&mut command, &log)?;
    loop {
        if started.child.try_wait().context("could not watch a process")?.is_some() {
            let said = log.last_line().unwrap_or_else(|| "it ended without a word".to_owned());
            let said = said.trim_start_matches("error: ");
            bail!("{said}; all that it said is in {}", log.path.display());
        }
        if let Some(ready) = started.ready(workspace) {
            started.is_ready = true;
            log.show_steps(progress, &step)?;
            step.done("ready");
            return Ok(ready);
        }
        log.show_steps(progress, &step)?;
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
    /// Bytes whose steps have been shown.
    shown: usize,
}

impl Log {
    fn create(workspace: &Workspace) -> Result<Self> {
        let path = workspace.scratch().join("up.log");
        fs::create_dir_all(workspace.scratch())
            .and_then(|()| File::create(&path).map(drop))
            .with_context(|| format!("could not write {}", path.display()))?;
        Ok(Self { path, shown: 0 })
    }

    /// Shows what the command has said of its steps since the last time.
    fn show_steps(&mut self, progress: Progress, step: &Step) -> Result<()> {
        let path = &self.path;
        let said = fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
        let new = said.get(self.shown..).unwrap_or_default();
        // A line that is being written is for the next time.
        let end = new.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let (lines, _) = new.split_at(end);
        for line in String::from_utf8_lossy(lines).lines() {
            if is_shown(progress, line) {
                step.aside(|| say(line));
            }
        }
        self.shown += end;
        Ok(())
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

/// Whether the line is about a step, and not about what is deployed. A spinner has what
/// has just begun at its side.
fn is_shown(progress: Progress, line: &str) -> bool {
    let has_begun = line.starts_with("     ") && line.ends_with(" …");
    line.starts_with("  ✓  ") || (has_begun && progress == Progress::Lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_shown_and_nothing_else_of_the_log() {
        for (line, spinner, lines) in [
            ("     Emulator …", false, true),
            ("  ✓  Emulator: http://127.0.0.1:4566 (1.2 s)", true, true),
            ("  API    http://127.0.0.1:4566", false, false),
            ("    curl -i http://127.0.0.1:4566/jobs/<id>", false, false),
            ("", false, false),
        ] {
            assert_eq!(is_shown(Progress::Spinner, line), spinner, "{line}");
            assert_eq!(is_shown(Progress::Lines, line), lines, "{line}");
        }
    }
}
