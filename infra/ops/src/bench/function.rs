//! A function as a plain process, and what it has used so far.

use std::fs::{self, File};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::process::{Child, Command};

use crate::emulator::{ACCESS_KEY, REGION, SECRET_KEY};

/// What both functions are told, as the template would; their defaults are its own.
const VARIABLES: [(&str, &str); 11] = [
    ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
    ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ("AWS_REGION", REGION),
    ("AWS_LAMBDA_FUNCTION_NAME", "bench"),
    ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1769"),
    ("TABLE_NAME", "jobs"),
    ("MAX_MESSAGE_BYTES", "1048576"),
    ("MAX_RECEIVE_COUNT", "5"),
    ("FUNCTION_TIMEOUT_SECONDS", "30"),
    ("QUEUE_RETENTION_SECONDS", "345600"),
];

/// A process that is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Function {
    child: Child,
    started: Instant,
}

impl Function {
    /// Starts `bootstrap`, which finds Lambda and AWS at `address` and logs to
    /// `log`.
    pub(super) fn start(
        bootstrap: &Path,
        log: &Path,
        address: &str,
        more: &[String],
    ) -> Result<Self> {
        let log = File::create(log).context("could not create the function's log")?;
        let mut command = Command::new(bootstrap);
        command
            .env_clear()
            .envs(VARIABLES)
            .env("AWS_LAMBDA_RUNTIME_API", address)
            .env("AWS_ENDPOINT_URL", format!("http://{address}"))
            .env("QUEUE_URL", format!("http://{address}/000000000000/jobs"))
            .env("DEAD_LETTER_QUEUE_URL", format!("http://{address}/000000000000/dead-letters"))
            .envs(more.iter().filter_map(|variable| variable.split_once('=')))
            .stdin(Stdio::null())
            .stderr(log.try_clone().context("could not share the function's log")?)
            .stdout(log)
            .kill_on_drop(true);
        let started = Instant::now();
        let child = command.spawn().context("could not start the function")?;
        Ok(Self { child, started })
    }

    /// Returns when the process has ended by itself.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.context("could not wait for the function")
    }

    /// How long ago it was started.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The CPU time of all its threads.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(self.file("task")?).context("could not list its threads")? {
            let path = thread.context("could not list its threads")?.path().join("schedstat");
            // A thread may have ended meanwhile.
            let Ok(text) = fs::read_to_string(path) else { continue };
            let used = text.split_whitespace().next().and_then(|used| used.parse::<u64>().ok());
            nanoseconds += used.unwrap_or_default();
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// The most memory that it has had, KiB.
    pub(super) fn peak_kib(&self) -> Result<u64> {
        let status =
            fs::read_to_string(self.file("status")?).context("could not read its status")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok());
        peak.context("Linux does not tell its peak memory")
    }

    fn file(&self, name: &str) -> Result<String> {
        let id = self.child.id().context("the function has ended")?;
        Ok(format!("/proc/{id}/{name}"))
    }
}
