//! The stack that `cargo ops up` or `dev` keeps running, as the other commands
//! find it.
//!
//! It is told in a file of `target/ops`, which the running command holds a lock
//! on: a file that nobody locks was left by one that is gone.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::aws::AwsCli;
use crate::connection::Connection;
use crate::local::Local;
use crate::outputs::Outputs;
use crate::stack::Stack;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// What whoever starts a second one is told.
pub(crate) const UP_ALREADY: &str =
    "a stack is up already on this machine: `cargo ops down` ends it";

/// Those who only look hold the lock for less than this.
const LOOK: Duration = Duration::from_millis(100);

/// The command that runs it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Running {
    /// The command's process.
    pub process: i32,
    /// What it has set up, once that is ready.
    pub ready: Option<Ready>,
}

/// What there is to know of a set-up that is ready.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ready {
    /// Where its emulator answers.
    pub endpoint: String,
    /// Where its API answers.
    pub api: String,
    /// A webhook's receiver that is busy at first.
    pub receiver: String,
    /// The stack's name.
    pub stack: String,
    /// What the stack is made of.
    pub outputs: Outputs,
}

/// Tells the others, for as long as it lives.
#[derive(Debug)]
pub struct Announcement {
    /// Locked. Never removed: whoever opens it just then would lock a file that
    /// nobody else finds.
    file: File,
}

impl Announcement {
    /// Takes the one place there is, before anything is set up.
    ///
    /// # Errors
    ///
    /// Another one has it, or the file could not be written.
    pub async fn reserve(workspace: &Workspace) -> Result<Self> {
        let path = path(workspace);
        fs::create_dir_all(workspace.scratch()).context("could not create target/ops")?;
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("could not write {}", path.display()))?;
        match lock(&file).await {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!(UP_ALREADY)
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("could not lock {}", path.display()));
            }
        }
        let mut announcement = Self { file };
        announcement.write(None)?;
        Ok(announcement)
    }

    /// Tells of a set-up that is ready.
    ///
    /// # Errors
    ///
    /// The file could not be written.
    pub fn tell(&mut self, ready: &Ready) -> Result<()> {
        self.write(Some(ready.clone()))
    }

    fn write(&mut self, ready: Option<Ready>) -> Result<()> {
        let process = std::process::id().try_into().context("no process has such a number")?;
        let text = serde_json::to_vec(&Running { process, ready });
        let text = text.context("could not write down the stack")?;
        let file = &mut self.file;
        file.rewind()
            .and_then(|()| file.set_len(0))
            .and_then(|()| file.write_all(&text))
            .context("could not write to target/ops")
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // So that nobody who comes next is taken for this process.
        let _ = self.file.set_len(0);
    }
}

impl Running {
    /// The one that is there, if one is.
    ///
    /// # Errors
    ///
    /// What is told of it cannot be read.
    pub fn find(workspace: &Workspace) -> Result<Option<Self>> {
        if is_locked(&path(workspace))? { Self::told(workspace).map(Some) } else { Ok(None) }
    }

    /// The one that is told of, which may be gone. For whoever knows that it is not,
    /// and must not be in its way when it takes the lock.
    ///
    /// # Errors
    ///
    /// As of [`Running::find`].
    pub(crate) fn told(workspace: &Workspace) -> Result<Self> {
        let path = path(workspace);
        let text = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        serde_json::from_slice(&text)
            .context("a stack is just starting or ending on this machine: try again")
    }

    /// What it has set up.
    ///
    /// # Errors
    ///
    /// It is not ready yet.
    pub fn ready(self) -> Result<Ready> {
        self.ready
            .context("a stack is being set up on this machine: wait until `cargo ops up` is ready")
    }
}

impl Ready {
    /// What is told of a machine that is set up.
    #[must_use]
    pub fn of(local: &Local) -> Self {
        Self {
            endpoint: local.emulator.endpoint(),
            api: local.stack.api.base().to_owned(),
            receiver: local.receivers.url("/busy-twice"),
            stack: local.stack.name.clone(),
            outputs: local.stack.outputs.clone(),
        }
    }

    /// Its stack, with clients.
    ///
    /// # Errors
    ///
    /// As of [`Stack::known`].
    pub fn open(self, workspace: &Workspace) -> Result<Stack> {
        let connection = Connection::emulator(&self.endpoint);
        // Whoever set it up has made them.
        let aws = AwsCli::new(Tools::prepared(workspace), connection.clone());
        let mut stack = Stack::known(aws, connection, &self.stack, self.outputs)?;
        stack.api = stack.api.at(self.api);
        Ok(stack)
    }
}

/// Takes the lock, also from under those who only look.
async fn lock(file: &File) -> Result<(), TryLockError> {
    let end = Instant::now() + LOOK;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(LOOK / 10).await,
            result => return result,
        }
    }
}

fn is_locked(path: &Path) -> Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            return Err(error).with_context(|| format!("could not read {}", path.display()));
        }
    };
    Ok(matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.scratch().join("up.json")
}
