//! Builds the functions the way they are built for AWS: with cargo-lambda,
//! against the C library of `provided.al2023`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{self, Finished};
use crate::progress::{Progress, Step};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// The functions, by package and by folder.
pub const FUNCTIONS: [&str; 2] = ["producer", "consumer"];

/// How the functions are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// What is deployed.
    Release,
    /// What the end-to-end tests run: the same code, compiled faster, with the
    /// job kind `probe` that fails, hangs or crashes as it is told.
    EndToEnd,
    /// Not at all: `cargo lambda watch` runs them, and what is deployed only says so.
    Watched,
}

/// This machine's architecture, as the template and cargo-lambda call it.
///
/// # Errors
///
/// Lambda has no such machines, or they would not run natively here.
pub fn architecture() -> Result<&'static str> {
    if std::env::consts::OS != "linux" {
        bail!(
            "the emulator runs the functions' Linux binaries as plain processes, so this needs \
             Linux (a virtual machine, WSL or a dev container will do)"
        );
    }
    match std::env::consts::ARCH {
        "x86_64" => Ok("x86_64"),
        "aarch64" => Ok("arm64"),
        other => bail!("Lambda runs on x86_64 and arm64, and this machine is {other}"),
    }
}

/// Builds both functions for this machine into `folder/{producer,consumer}`.
///
/// # Errors
///
/// They do not compile; the compiler's output is in `target/ops/build.log`.
pub async fn build(
    workspace: &Workspace,
    tools: &Tools,
    profile: Profile,
    folder: &Path,
    progress: Progress,
) -> Result<()> {
    if profile == Profile::Watched {
        return FUNCTIONS.into_iter().try_for_each(|name| write_placeholder(&folder.join(name)));
    }
    let target = match architecture()? {
        "arm64" => "--arm64",
        _ => "--x86-64",
    };
    let mut command = tools.command("cargo-lambda");
    command
        .current_dir(workspace.path("."))
        .args(["lambda", "build", target, "--color", "never", "--lambda-dir"])
        .arg(folder)
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    match profile {
        Profile::Release | Profile::Watched => command.arg("--release"),
        // Else cargo-lambda switches the release optimizations on again.
        Profile::EndToEnd => command
            .args(["--profile", "e2e", "--disable-optimizations"])
            .args(["--features", "probe"]),
    };
    for function in FUNCTIONS {
        command.args(["--package", function]);
    }
    let step = progress.step("Functions, built with cargo-lambda");
    let mut compiled = 0_u32;
    let finished = process::run(command, |line| show(line, &step, &mut compiled)).await?;
    save_log(workspace, &finished)?;
    if !finished.status.success() {
        bail!("building the functions failed: {} (target/ops/build.log)", reason(&finished));
    }
    for function in FUNCTIONS {
        let bootstrap = folder.join(function).join("bootstrap");
        if !bootstrap.is_file() {
            bail!("cargo-lambda succeeded, but left no {}", bootstrap.display());
        }
    }
    step.done(&if compiled == 0 { "unchanged".to_owned() } else { format!("{compiled} crates") });
    Ok(())
}

/// What answers whoever calls the deployed function instead of the watched one.
fn write_placeholder(folder: &Path) -> Result<()> {
    const PROGRAM: &str = "#!/bin/sh\necho 'it runs in cargo lambda watch' >&2\nexit 1\n";
    let program = folder.join("bootstrap");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&program, PROGRAM))
        .and_then(|()| fs::set_permissions(&program, Permissions::from_mode(0o755)))
        .with_context(|| format!("could not write {}", program.display()))
}

fn show(line: &str, step: &Step, compiled: &mut u32) {
    if let Some(name) = line.trim_start().strip_prefix("Compiling ") {
        *compiled += 1;
        step.at(format!("{name} ({compiled})"));
    }
}

fn save_log(workspace: &Workspace, finished: &Finished) -> Result<()> {
    let folder = workspace.scratch();
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("build.log"), finished.output()))
        .context("could not write target/ops/build.log")
}

/// The compiler's first error, which is the one to mend, and where it is.
fn reason(finished: &Finished) -> String {
    let mut lines = finished.stderr.iter().chain(&finished.stdout).map(|line| line.trim());
    let Some(error) = lines.find(|line| line.starts_with("error")) else {
        return "cargo-lambda said nothing about why".to_owned();
    };
    // Of this error, not of a later one.
    let mut rest = lines.take_while(|line| !line.is_empty());
    match rest.find_map(|line| line.strip_prefix("--> ")) {
        Some(place) => format!("{place}: {error}"),
        None => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &str, expected: &str) {
        let stderr = stderr.lines().map(str::to_owned).collect();
        let finished = Finished { status: <_>::default(), stdout: Vec::new(), stderr };
        assert_eq!(reason(&finished), expected);
    }

    #[test]
    fn a_broken_build_says_what_to_mend_first_and_where() {
        check(
            "warning: unused\n --> a.rs:1:1\n\nerror[E0425]: no `x`\n  --> b.rs:2:3\n   |\n\n\
             error: other\n --> c.rs:4:5\n",
            "b.rs:2:3: error[E0425]: no `x`",
        );
        check("error: no space left\n\nerror: x\n --> c.rs:1:1", "error: no space left");
        check("", "cargo-lambda said nothing about why");
    }
}
