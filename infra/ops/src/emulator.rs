//! The AWS emulator (ministack): one process group on one port, gone when we are.
//!
//! Two processes are started. The emulator runs the functions as its children,
//! in its own process group. The watchdog is a shell that reads from a pipe
//! whose other end we hold: whatever ends us, be it a return, a panic, Ctrl-C
//! or SIGKILL, the pipe closes and the shell ends that group.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::Watchdog;
use crate::tools::Tools;

/// What every stack of the emulator lies in.
pub const REGION: &str = "us-east-1";

/// The emulator's root credentials. The functions get their own roles'.
pub const ACCESS_KEY: &str = "test";
/// Goes with [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "test";

/// A start takes one to four seconds; this is for a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Ends the emulator's group, then removes what it left.
const WATCHDOG: &str = r#"read -r _; kill -KILL "-$1" 2>/dev/null; rm -rf -- "$2""#;

/// Starts the emulator's server. The queues refuse requests that are not encrypted
/// (`aws:SecureTransport`) and the emulator enforces that, but on the loopback
/// address there is only plain HTTP: here it counts as encrypted, so that the
/// template needs no exception.
const LAUNCH: &str = "
from ministack import app
pin = app.pin_request_origin
app.pin_request_origin = lambda address, encrypted: pin(address, True)
app.main()
";

/// A running emulator; ended when dropped.
#[derive(Debug)]
pub struct Emulator {
    port: u16,
    state: PathBuf,
    server: Child,
    watchdog: Watchdog,
}

impl Emulator {
    /// Starts the emulator on `port`, or on a free one, and waits until it answers.
    /// Its functions find AWS at `functions_endpoint`, or there as well, and trust
    /// this `authority` (PEM) alone, or what they trust by themselves.
    ///
    /// # Errors
    ///
    /// The port is taken, or the emulator ended or did not answer.
    pub async fn start(
        tools: &Tools,
        port: Option<u16>,
        functions_endpoint: Option<&str>,
        authority: Option<&str>,
    ) -> Result<Self> {
        let port = choose(port)?;
        let functions_endpoint =
            functions_endpoint.map_or_else(|| endpoint(port), ToOwned::to_owned);
        let state = tempfile::Builder::new()
            .prefix("relevo-")
            .tempdir()
            .context("could not create a temporary folder")?
            .keep(); // from here on the watchdog's to remove
        let mut server = match serve(tools, port, &functions_endpoint, authority, &state) {
            Ok(server) => server,
            Err(error) => {
                let _ = fs::remove_dir_all(&state);
                return Err(error).context("could not start the emulator");
            }
        };
        let watchdog = match watch(&server, &state) {
            Ok(watchdog) => watchdog,
            Err(error) => {
                let _ = server.kill();
                return Err(error).context("could not start the emulator's watchdog");
            }
        };
        let mut emulator = Self { port, state, server, watchdog };
        emulator.wait_until_ready().await?;
        Ok(emulator)
    }

    /// Where the emulator answers.
    #[must_use]
    pub fn endpoint(&self) -> String {
        endpoint(self.port)
    }

    /// A folder that lives as long as the emulator.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// What the emulator has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(log_file(&self.state)).unwrap_or_default()
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let url = format!("{}/_ministack/ready", self.endpoint());
        let client = reqwest::Client::new();
        let start = Instant::now();
        while start.elapsed() < START_TIMEOUT {
            if let Some(status) = self.server.try_wait().context("could not watch the emulator")? {
                bail!("the emulator ended at its start ({status}): {}", self.last_words());
            }
            if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the emulator did not answer within {} s", START_TIMEOUT.as_secs())
    }

    fn last_words(&self) -> String {
        self.log()
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("no output")
            .to_owned()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.watchdog.release();
        let _ = self.server.wait();
    }
}

/// The address of an emulator on `port`.
#[must_use]
pub fn endpoint(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}

/// Checks the wanted port, or lets the system choose one.
///
/// # Errors
///
/// The port is taken.
pub fn choose(port: Option<u16>) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
    let listener = match (listener, port) {
        (Ok(listener), _) => listener,
        (Err(error), Some(port)) if error.kind() == std::io::ErrorKind::AddrInUse => {
            bail!("port {port} is in use; name another one with --port, or none for a free one")
        }
        (Err(error), Some(port)) => return Err(error).context(format!("port {port}")),
        (Err(error), None) => return Err(error).context("there is no free port"),
    };
    Ok(listener.local_addr().context("could not read the port")?.port())
}

fn log_file(state: &Path) -> PathBuf {
    state.join("emulator.log")
}

/// Starts the server in a process group of its own, with an environment that
/// holds nothing of ours: its functions inherit it, and on AWS they would not
/// see our proxies and credentials either.
fn serve(
    tools: &Tools,
    port: u16,
    functions_endpoint: &str,
    authority: Option<&str>,
    state: &Path,
) -> Result<Child> {
    let log = File::create(log_file(state))?;
    let mut command = Command::new(tools.path("python"));
    command
        .args(["-c", LAUNCH])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", state)
        .env("TMPDIR", state)
        .env("BIND_HOST", "127.0.0.1")
        .env("MINISTACK_HOST", "127.0.0.1")
        .env("GATEWAY_PORT", port.to_string())
        // The functions call this, and their roles' policies are enforced.
        .env("AWS_ENDPOINT_URL", functions_endpoint)
        .env("AUTH", "true")
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("MINISTACK_REGION", REGION)
        // Listeners on fixed ports that are not needed, and no look at the
        // containers of whoever runs this.
        .env("IOT_MTLS_ENABLED", "0")
        .env("SFTP_ENABLED", "0")
        .env("DOCKER_HOST", "unix:///nonexistent")
        .current_dir(state)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    if let Some(authority) = authority {
        let file = state.join("authority.pem");
        fs::write(&file, authority)?;
        command.env("SSL_CERT_FILE", file);
    }
    Ok(command.spawn()?)
}

fn watch(server: &Child, state: &Path) -> std::io::Result<Watchdog> {
    let mut command = Command::new("sh");
    command.args(["-c", WATCHDOG, "watchdog"]).arg(server.id().to_string()).arg(state);
    Watchdog::start(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_one_sentence() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = choose(Some(port)).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            format!("port {port} is in use; name another one with --port, or none for a free one")
        );
    }

    #[test]
    fn without_a_wish_any_free_port_will_do() {
        let port = choose(None).unwrap();
        assert_eq!(choose(Some(port)).unwrap(), port);
    }

    #[test]
    fn the_watchdog_ends_the_group_when_the_pipe_closes() {
        let state = tempfile::tempdir().unwrap().keep();
        let mut server =
            Command::new("sh").args(["-c", "sleep 60 & wait"]).process_group(0).spawn().unwrap();
        let watchdog = watch(&server, &state).unwrap();
        assert!(server.try_wait().unwrap().is_none(), "ended before the pipe closed");
        drop(watchdog);
        let status = server.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        assert!(!state.exists(), "the temporary folder is still there");
    }
}
