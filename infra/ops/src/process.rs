//! Child processes that do not outlive us.
//!
//! A build or an installation is a tree of processes. Each tree gets a process
//! group of its own, so that it can be ended as a whole: a terminal's Ctrl-C
//! reaches only us, and we end the rest.

use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;

/// A process and all that it starts; ended when this is dropped.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Fails when all of it has ended already, which is what we want.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// A command that runs when this is dropped, and also where we are killed before:
/// it waits for the end of a pipe, whose other end we hold, and the system closes.
#[derive(Debug)]
pub struct Watchdog(Child);

impl Watchdog {
    /// Starts the command, which has to read from its stdin before it does anything.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn start(command: &mut std::process::Command) -> std::io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A terminal's Ctrl-C is for us; it sees the pipe close.
            .process_group(0)
            .spawn()
            .map(Self)
    }

    /// Lets it do what it is there for, and waits until that is done.
    pub fn release(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.release();
    }
}

/// What a process did.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stdout, line by line.
    pub stdout: Vec<String>,
    /// What it wrote to stderr, line by line.
    pub stderr: Vec<String>,
}

impl Finished {
    /// Everything it wrote, for a log file.
    #[must_use]
    pub fn output(&self) -> String {
        [self.stderr.join("\n"), self.stdout.join("\n")].join("\n")
    }
}

/// Runs a command to its end and shows each line of stderr to `watch`.
///
/// # Errors
///
/// The command could not be started or read. A command that failed is not an
/// error here: look at its status.
pub async fn run(mut command: Command, mut watch: impl FnMut(&str)) -> Result<Finished> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("could not start {name}"))?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group(leader);
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let (stdout, stderr) = tokio::try_join!(lines(stdout, |_| ()), lines(stderr, &mut watch))
        .with_context(|| format!("could not read what {name} wrote"))?;
    let status = child.wait().await.with_context(|| format!("could not wait for {name}"))?;
    // Ended and reaped: its number may belong to somebody else from now on.
    group.0 = None;
    Ok(Finished { status, stdout, stderr })
}

async fn lines<R>(stream: Option<R>, mut watch: impl FnMut(&str)) -> std::io::Result<Vec<String>>
where
    R: AsyncRead + Unpin,
{
    let mut all = Vec::new();
    let Some(stream) = stream else { return Ok(all) };
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await? > 0 {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        watch(&text);
        all.push(text);
        line.clear();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn lines_are_shown_and_kept() {
        let mut seen = Vec::new();
        let finished = run(shell("echo out; echo one >&2; echo two >&2; exit 3"), |line| {
            seen.push(line.to_owned());
        })
        .await
        .unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(finished.stdout, ["out"]);
        assert_eq!(seen, ["one", "two"]);
    }

    #[tokio::test]
    async fn whoever_stops_waiting_ends_the_whole_tree() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alive");
        // The grandchild is what would survive if only the child was killed.
        let script =
            format!("(while :; do date +%N > {}; sleep 0.05; done) & wait", file.display());
        let waiting = tokio::time::timeout(Duration::from_millis(500), run(shell(&script), |_| ()));
        assert!(waiting.await.is_err(), "the script ends by itself");
        tokio::time::sleep(Duration::from_millis(200)).await;
        let before = std::fs::read(&file).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(std::fs::read(&file).unwrap(), before, "the grandchild still writes");
        }
    }
}
