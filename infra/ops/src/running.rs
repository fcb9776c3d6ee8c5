//! The stack that `cargo ops up` keeps running, as the other commands find it.
//!
//! It is told in a file of `target/ops`, which the running command holds a lock
//! on: a file that nobody locks was left by one that is gone.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::aws::AwsCli;
use crate::connection::Connection;
use crate::local::Local;
use crate::outputs::Outputs;
use crate::stack::Stack;
use crate::tools::Tools;
use crate::workspace::Workspace;

/// What there is to know of it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Running {
    /// The command's process.
    pub process: i32,
    /// Where its emulator answers.
    pub endpoint: String,
    /// Where its API answers.
    pub api: String,
    /// The stack's name.
    pub stack: String,
    /// What the stack is made of.
    pub outputs: Outputs,
}

/// Tells the others, for as long as it lives.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
    _lock: File,
}

impl Announcement {
    /// Takes the one place there is, before anything is set up.
    ///
    /// # Errors
    ///
    /// Another one has it, or the file could not be written.
    pub fn reserve(workspace: &Workspace) -> Result<Self> {
        let path = path(workspace);
        fs::create_dir_all(workspace.scratch()).context("could not create target/ops")?;
        let what = || format!("could not write {}", path.display());
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(what)?;
        match lock.try_lock() {
            Ok(()) => lock.set_len(0).with_context(what)?,
            Err(TryLockError::WouldBlock) => {
                bail!("a stack is up already on this machine: `cargo ops down` ends it")
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(what),
        }
        Ok(Self { path, _lock: lock })
    }

    /// Tells of a set-up that is ready.
    ///
    /// # Errors
    ///
    /// The file could not be written.
    pub fn tell(&self, local: &Local) -> Result<()> {
        let running = Running {
            process: std::process::id().try_into().context("no process has such a number")?,
            endpoint: local.emulator.endpoint(),
            api: local.stack.api.base().to_owned(),
            stack: local.stack.name.clone(),
            outputs: local.stack.outputs.clone(),
        };
        let text = serde_json::to_vec(&running).context("could not write down the stack")?;
        fs::write(&self.path, text)
            .with_context(|| format!("could not write {}", self.path.display()))
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // What is left if this fails is not locked, and so not believed.
        let _ = fs::remove_file(&self.path);
    }
}

impl Running {
    /// The one that is up, if one is.
    ///
    /// # Errors
    ///
    /// What is told of it cannot be read, or it is not ready yet.
    pub fn find(workspace: &Workspace) -> Result<Option<Self>> {
        let path = path(workspace);
        if !is_locked(&path)? {
            return Ok(None);
        }
        let text = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        // Empty until it is ready.
        let running = serde_json::from_slice(&text).context(
            "a stack is being set up on this machine: wait until `cargo ops up` is ready",
        )?;
        Ok(Some(running))
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
