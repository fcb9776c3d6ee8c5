//! The AWS CLI from `.venv`, for what is done rarely: buckets, stacks, policies.
//!
//! The SDK crates for these services would take longer to compile than
//! everything else here.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::process::Command;

use crate::connection::Connection;
use crate::process::{self, Watchdog};
use crate::tools::Tools;

/// Waits for the pipe to close, then runs its arguments.
const AFTERWARDS: &str = r#"read -r _; exec "$@""#;

/// The CLI, pointed at one account or emulator.
#[derive(Clone, Debug)]
pub struct AwsCli {
    tools: Tools,
    connection: Connection,
}

impl AwsCli {
    /// Calls what `connection` leads to.
    #[must_use]
    pub const fn new(tools: Tools, connection: Connection) -> Self {
        Self { tools, connection }
    }

    /// Runs a command and reads its answer; `null` if it gave none.
    ///
    /// # Errors
    ///
    /// The command failed; the error is its own.
    pub async fn json(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.run(arguments, true).await?;
        if output.trim().is_empty() {
            return Ok(Value::Null);
        }
        let name = name(arguments);
        serde_json::from_str(&output).with_context(|| format!("`aws {name}` gave no JSON"))
    }

    /// Runs a command whose answer does not matter.
    ///
    /// # Errors
    ///
    /// The command failed; the error is its own.
    pub async fn call(&self, arguments: &[&str]) -> Result<()> {
        self.run(arguments, false).await.map(drop)
    }

    /// Runs a command when what is returned is dropped, and also when this process
    /// is killed before. Whether it worked, nobody learns.
    ///
    /// # Errors
    ///
    /// The shell that waits for that could not be started.
    pub async fn call_afterwards(&self, arguments: &[&str]) -> Result<Watchdog> {
        let mut shell = Command::new("sh");
        shell.args(["-c", AFTERWARDS, "afterwards"]).arg(self.tools.path("aws"));
        let mut shell = self.connected(shell).await?;
        shell.args(arguments);
        Watchdog::start(shell.as_std_mut()).context("could not start a shell")
    }

    async fn run(&self, arguments: &[&str], json: bool) -> Result<String> {
        let mut command = self.connected(self.tools.command("aws")).await?;
        if json {
            command.args(["--output", "json"]);
        }
        command.args(arguments);
        let finished = process::run(command, |_| ()).await?;
        if finished.status.success() {
            return Ok(finished.stdout.join("\n"));
        }
        let said: Vec<_> = finished.stderr.iter().map(|line| line.trim()).collect();
        bail!("`aws {}` failed: {}", name(arguments), said.join(" ").trim())
    }

    /// The command with what it needs to reach the account or emulator.
    async fn connected(&self, mut command: Command) -> Result<Command> {
        self.set_environment(&mut command).await?;
        if let Some(endpoint) = self.connection.endpoint() {
            // The option covers every service's own calls, the variable those that
            // one service makes to another, such as the upload of a package.
            command.args(["--endpoint-url", endpoint]);
        }
        Ok(command)
    }

    /// What a tool for AWS needs in its environment to reach the account or emulator.
    ///
    /// # Errors
    ///
    /// The connection has no credentials, or no region.
    pub async fn set_environment(&self, command: &mut Command) -> Result<()> {
        let credentials = self.connection.credentials().await?;
        // Nothing of this machine's AWS set-up but what the connection was made
        // of: a profile must never decide that a local command goes to a real
        // account.
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("AWS_ACCESS_KEY_ID", credentials.access_key_id())
            .env("AWS_SECRET_ACCESS_KEY", credentials.secret_access_key())
            .env("AWS_DEFAULT_REGION", self.connection.region()?);
        if let Some(token) = credentials.session_token() {
            command.env("AWS_SESSION_TOKEN", token);
        }
        if let Some(endpoint) = self.connection.endpoint() {
            command.env("AWS_ENDPOINT_URL", endpoint);
        }
        Ok(())
    }
}

/// Service and operation, which is what an error should name.
fn name(arguments: &[&str]) -> String {
    arguments.iter().take(2).copied().collect::<Vec<_>>().join(" ")
}
