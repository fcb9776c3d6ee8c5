//! `cargo lambda watch`: compiles the functions, runs them, and does both again
//! whenever a file changes. Gone when we are.
//!
//! It puts each function into a process group of its own, so that ending its group
//! would leave them behind. It gets a session of its own instead, and a watchdog
//! like the emulator's, which ends what is left in that session.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;

use crate::functions::FUNCTIONS;
use crate::log_line;
use crate::logs::Line;
use crate::output::Style;
use crate::process::Watchdog;
use crate::stack::eventually;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// Until it listens; it compiles later, when a function is first called.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Makes a session, then becomes what its arguments say. (`setsid` would do the
/// same, where there is one.)
const IN_A_SESSION: &str = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])";

/// Asks the session's leader to end, and ends what is left of the session after
/// three seconds. The fields after a process's name are its state, parent, group
/// and session.
const WATCHDOG: &str = r#"
members() {
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        set -- ${line##*) }
        [ "$4" = "$session" ] && [ "$1" != Z ] && echo "$stat" | cut -d/ -f3
    done
}
patiently() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        [ -z "$(members)" ] && exit
        sleep 0.2
    done
}
session=$1
read -r _
kill -TERM "$session" 2>/dev/null
patiently
kill -KILL $(members)
patiently
"#;

/// The functions, watched; ended when dropped.
#[derive(Debug)]
pub struct Watch {
    /// Where it answers.
    pub url: String,
    address: SocketAddr,
    server: Child,
    watchdog: Watchdog,
    lines: Lines<BufReader<pipe::Receiver>>,
}

impl Watch {
    /// Starts it on `port`, with the variables that the functions need, and waits
    /// until it answers.
    ///
    /// # Errors
    ///
    /// It could not be started, or did not answer.
    pub async fn start(
        workspace: &Workspace,
        tools: &Tools,
        port: u16,
        variables: &BTreeMap<String, String>,
        style: Style,
    ) -> Result<Self> {
        let (reader, writer) = std::io::pipe().context("could not make a pipe")?;
        let server = serve(workspace, tools, port, variables, style, writer.into())
            .context("could not start cargo lambda watch")?;
        let watchdog = guard(&server).context("could not start a watchdog")?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))
            .context("could not read from a pipe")?;
        let lines = BufReader::new(reader).lines();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let url = format!("http://{address}");
        let mut watch = Self { url, address, server, watchdog, lines };
        watch.wait_until_ready().await?;
        Ok(watch)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let Self { address, server, .. } = self;
        let ready = eventually(START_TIMEOUT, "cargo lambda watch answers", async || {
            if let Some(status) = server.try_wait().context("could not watch a process")? {
                return Ok(Some(Err(status)));
            }
            // No request: it answers one that calls no function with an error in its log.
            Ok(TcpStream::connect(*address).await.is_ok().then_some(Ok(())))
        });
        if let Err(status) = ready.await? {
            let mut said = String::new();
            while let Ok(Some(line)) = self.lines.next_line().await {
                said = line;
            }
            bail!("cargo lambda watch ended at its start ({status}): {said}");
        }
        Ok(())
    }

    /// Its next line, or the functions'.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub async fn next_line(&mut self) -> Result<String> {
        let line = self.lines.next_line().await.context("could not read from a pipe")?;
        line.context("cargo lambda watch has ended")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchdog.release();
        let _ = self.server.wait();
    }
}

fn serve(
    workspace: &Workspace,
    tools: &Tools,
    port: u16,
    variables: &BTreeMap<String, String>,
    style: Style,
    output: OwnedFd,
) -> Result<Child> {
    let mut command: Command = tools.command("python").into_std();
    command
        .args(["-c", IN_A_SESSION])
        .arg(tools.path("cargo-lambda"))
        .args(["lambda", "watch", "--invoke-address", "127.0.0.1"])
        .args(["--invoke-port", &port.to_string()])
        .args(["--color", if style == Style::Colored { "always" } else { "never" }])
        .current_dir(workspace.path("."))
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    Ok(command.spawn()?)
}

fn guard(server: &Child) -> std::io::Result<Watchdog> {
    let mut command = Command::new("sh");
    command.args(["-c", WATCHDOG, "watchdog"]).arg(server.id().to_string());
    Watchdog::start(&mut command)
}

/// What is shown of a line: of a function's log, or of the compiler and its like.
#[must_use]
pub fn show(style: Style, line: String) -> Option<String> {
    // None of CloudWatch's, which only has the same text.
    let line = Line { log_stream_name: String::new(), event_id: None, timestamp: 0, message: line };
    let Some(event) = line.event() else {
        return (!line.message.trim().is_empty()).then(|| format!("watch    {}", line.message));
    };
    // The code's module, of which the crate is the first part.
    let target = event.get("target").and_then(Value::as_str).unwrap_or_default();
    let function = target.split("::").next().filter(|name| FUNCTIONS.contains(name));
    log_line::show(style, function.unwrap_or("watch"), &line)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_function_is_told_by_the_code_that_logs() {
        let shown = |line: &str| show(Style::Plain, line.to_owned());
        let line = r#"{"timestamp":"2026-11-30T17:53:01.511Z","level":"INFO","message":"job started","target":"consumer::attempt"}"#;
        assert_eq!(shown(line).unwrap(), "17:53:01.511 consumer INFO  job started");
        assert_eq!(shown("   Compiling shared").unwrap(), "watch       Compiling shared");
        assert_eq!(shown(r#"{"_aws":{},"BatchSize":1}"#), None);
        assert_eq!(shown(""), None);
    }

    /// The children have groups of their own, as the functions do; one of them does
    /// not listen to SIGTERM.
    #[test]
    fn the_watchdog_ends_the_session_when_the_pipe_closes() {
        const FAMILY: &str = "
import subprocess
first = subprocess.Popen(['sleep', '61'], process_group=0)
subprocess.Popen(['sh', '-c', 'trap \"\" TERM; sleep 61'], process_group=0)
first.wait()
";
        let python = Command::new("python3")
            .args(["-c", IN_A_SESSION, "/usr/bin/env", "python3", "-c", FAMILY])
            .spawn();
        let mut server = python.unwrap();
        let session = server.id().to_string();
        let watchdog = guard(&server).unwrap();
        let members = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let stats = all.filter_map(|one| std::fs::read_to_string(one.path().join("stat")).ok());
            stats
                .filter(|stat| {
                    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
                    fields[3] == session && fields[0] != "Z"
                })
                .count()
        };
        let start = Instant::now();
        while members() < 3 {
            assert!(start.elapsed() < Duration::from_secs(20), "{} processes", members());
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(watchdog);
        server.wait().unwrap();
        assert_eq!(members(), 0);
    }
}
