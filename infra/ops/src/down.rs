//! `cargo ops down`: ends the `up` or `dev` that runs on this machine.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::ending::Ending;
use crate::output::print;
use crate::progress::Progress;
use crate::running::Running;
use crate::stack::eventually;
use crate::workspace::Workspace;

/// It ends an emulator and what else it has started.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends it, ready or not, and waits until it is gone. That there is none is no
/// error.
///
/// # Errors
///
/// It is somebody else's, or did not end.
pub async fn run(workspace: &Workspace, progress: Progress) -> Result<Ending> {
    let Some(running) = Running::find(workspace)? else {
        print("no stack is up on this machine")?;
        return Ok(Ending::Done);
    };
    let step = progress.step("Ending it");
    let process = Pid::from_raw(running.process).context("it does not say which process it is")?;
    kill_process(process, Signal::TERM)
        // One that was stopped by Ctrl-Z hears of it when it goes on.
        .and_then(|()| kill_process(process, Signal::CONT))
        .with_context(|| format!("could not end the process {}", running.process))?;
    eventually(PATIENCE, "it has ended", async || {
        // Empty, for a moment, before it is gone.
        let Ok(there) = Running::find(workspace) else { return Ok(None) };
        Ok(there.is_none_or(|there| there.process != running.process).then_some(()))
    })
    .await?;
    step.done("gone");
    match running.ready {
        Some(ready) => print(&format!("ended the stack {} at {}", ready.stack, ready.endpoint))?,
        None => print("ended the stack that was being set up")?,
    }
    Ok(Ending::Done)
}
