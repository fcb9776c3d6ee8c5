//! The tools that come from Python's registry: cargo-lambda, the emulator, the AWS CLI, the linters.
//!
//! They live in `.venv` at the root, made from `requirements.txt`, so that a
//! machine needs Rust and Python and nothing else, and everyone has the same. Two
//! linters want other versions of what they all bring along, and have
//! environments of their own under `target/ops`.

use std::fs::{self, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::process;
use crate::progress::Progress;
use crate::workspace::{Workspace, search_path};

/// The oldest Python that every pinned tool supports.
pub const OLDEST_PYTHON: (u32, u32) = (3, 11);

/// Between two looks at whether another one has made `.venv`.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// One Python environment.
struct Environment {
    /// What it is called, and its lock.
    what: String,
    /// The pinned versions, relative to the root.
    requirements: String,
    folder: PathBuf,
}

/// Tools that are ready to be called.
#[derive(Clone, Debug)]
pub struct Tools {
    bin: PathBuf,
}

impl Tools {
    /// Makes `.venv` unless it holds exactly the pinned versions already.
    ///
    /// # Errors
    ///
    /// No usable Python, or the packages could not be installed. Nothing is left
    /// that a later call would take for finished.
    pub async fn prepare(workspace: &Workspace, progress: Progress) -> Result<Self> {
        let environment = Environment {
            what: "tools".to_owned(),
            requirements: "infra/ops/requirements.txt".to_owned(),
            folder: workspace.venv(),
        };
        Self::make(workspace, progress, &environment).await
    }

    /// Makes the environment of a linter that does not get along with the rest.
    ///
    /// # Errors
    ///
    /// As of [`Tools::prepare`].
    pub async fn prepare_linter(
        workspace: &Workspace,
        progress: Progress,
        linter: &str,
    ) -> Result<Self> {
        let environment = Environment {
            what: linter.to_owned(),
            requirements: format!("infra/ops/requirements-{linter}.txt"),
            folder: workspace.scratch().join(linter),
        };
        Self::make(workspace, progress, &environment).await
    }

    /// The tools of somebody who has prepared them.
    #[must_use]
    pub fn prepared(workspace: &Workspace) -> Self {
        Self { bin: workspace.venv().join("bin") }
    }

    async fn make(
        workspace: &Workspace,
        progress: Progress,
        environment: &Environment,
    ) -> Result<Self> {
        let Environment { what, requirements, folder } = environment;
        let wanted = fs::read_to_string(workspace.path(requirements))
            .with_context(|| format!("could not read {requirements}"))?;
        fs::create_dir_all(workspace.scratch()).context("could not create target/ops")?;
        // Two terminals may start at the same time; the second waits.
        let lock_file = workspace.scratch().join(format!("{what}.lock"));
        let _lock = lock(&lock_file, progress)
            .await
            .with_context(|| format!("could not lock {}", lock_file.display()))?;

        // Written last, so that it vouches for the whole installation.
        let stamp = folder.join("requirements.installed");
        let tools = Self { bin: folder.join("bin") };
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(tools);
        }
        let step = progress.step(&format!("From PyPI, once: {what}"));
        let python = find_python(&["python3", "python"]).await?;
        make_venv(&python, folder).await?;
        install(&tools, workspace, requirements, |line| step.at(line)).await?;
        fs::write(&stamp, wanted)
            .with_context(|| format!("could not write to {}", folder.display()))?;
        step.done(&format!("in {}", folder.display()));
        Ok(tools)
    }

    /// A command that runs `tool`, which finds the other tools.
    #[must_use]
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(self.bin.join(tool));
        command.env("PATH", search_path(&self.bin));
        command
    }

    /// Where `tool` lies.
    #[must_use]
    pub fn path(&self, tool: &str) -> PathBuf {
        self.bin.join(tool)
    }
}

/// Waits for its turn by asking again, so that Ctrl-C is heard meanwhile.
async fn lock(path: &Path, progress: Progress) -> Result<fs::File> {
    let file = fs::File::create(path)?;
    let mut waiting = None;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        waiting.get_or_insert_with(|| progress.step("Another cargo ops is making it"));
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn find_python(interpreters: &[&str]) -> Result<String> {
    let (major, minor) = OLDEST_PYTHON;
    let wants = format!("Python {major}.{minor} or newer is needed for the local tools");
    for interpreter in interpreters {
        let mut command = Command::new(interpreter);
        command.args(["-c", "import sys; print(*sys.version_info[:2])"]);
        let Ok(answer) = process::run(command, |_| ()).await else { continue };
        let version = answer.stdout.first().and_then(|line| {
            let (major, minor) = line.split_once(' ')?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        match version {
            Some(version) if version >= OLDEST_PYTHON => return Ok((*interpreter).to_owned()),
            Some((major, minor)) => bail!("{wants}, but `{interpreter}` is {major}.{minor}"),
            None => {}
        }
    }
    bail!("{wants}, and there is no `{}` on the search path", interpreters.join("` or `"))
}

async fn make_venv(python: &str, venv: &Path) -> Result<()> {
    let mut command = Command::new(python);
    command.args(["-m", "venv", "--clear"]).arg(venv);
    let made = process::run(command, |_| ()).await?;
    if !made.status.success() {
        let output = made.output();
        let hint = if output.contains("ensurepip") {
            " (on Debian and Ubuntu: install the package python3-venv)"
        } else {
            ""
        };
        bail!("`{python} -m venv` failed{hint}: {}", last_line(&output));
    }
    Ok(())
}

async fn install(
    tools: &Tools,
    workspace: &Workspace,
    requirements: &str,
    show: impl Fn(&str),
) -> Result<()> {
    let mut command = tools.command("python");
    command
        .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input"])
        .args(["--progress-bar", "off", "--retries", "2", "--timeout", "15", "--requirement"])
        .arg(workspace.path(requirements));
    show("downloading 100 to 200 MB");
    let finished = process::run(command, |line| show(line)).await?;
    if finished.status.success() {
        return Ok(());
    }
    let log = workspace.scratch().join("venv.log");
    fs::write(&log, finished.output()).context("could not write target/ops/venv.log")?;
    let reason = finished.stderr.iter().rev().find(|line| line.starts_with("ERROR"));
    let unreachable = ["NewConnectionError", "NameResolutionError", "Max retries", "timed out"];
    if finished.stderr.iter().any(|line| unreachable.iter().any(|sign| line.contains(sign))) {
        bail!("the tools could not be downloaded from PyPI: no network? (target/ops/venv.log)");
    }
    bail!(
        "the tools could not be installed: {} (target/ops/venv.log)",
        reason.map_or("pip failed", |line| line.trim_start_matches("ERROR: "))
    );
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_python_is_one_sentence() {
        let error = find_python(&["no-such-python"]).await.unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "Python 3.11 or newer is needed for the local tools, and there is no \
             `no-such-python` on the search path"
        );
    }

    #[tokio::test]
    async fn whoever_waits_for_another_can_still_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = lock(&path, Progress::Lines).await.unwrap();
        let second = lock(&path, Progress::Lines);
        let waiting = tokio::time::timeout(Duration::from_millis(300), second);
        assert!(waiting.await.is_err(), "two have the lock");
        drop(first);
        lock(&path, Progress::Lines).await.unwrap();
    }

    #[tokio::test]
    async fn an_old_python_is_named_with_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old-python");
        fs::write(&old, "#!/bin/sh\necho 3 8\n").unwrap();
        fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = find_python(&[old.to_str().unwrap()]).await.unwrap_err();
        assert!(format!("{error:#}").ends_with("is 3.8"), "{error:#}");
    }
}
