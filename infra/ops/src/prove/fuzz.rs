//! `cargo ops prove fuzz`: the functions meet what libFuzzer makes up.
//!
//! cargo-fuzz builds the targets of `infra/fuzz` with coverage counters (and
//! without sanitizers, which need a nightly compiler). What it comes across is
//! kept in `target/ops/fuzz`; only what is worth a test is put by hand beside
//! the committed corpus.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use comfy_table::{Table, presets};
use tokio::process::Command;

use crate::output::print;
use crate::process::{self, Finished};
use crate::progress::{Progress, Step};
use crate::workspace::Workspace;

/// The targets, by the names of their files.
const TARGETS: [&str; 6] =
    ["http_event", "sqs_event", "message", "idempotency_key", "payload", "dead_letter_line"];

/// The version that is known to build them.
const CARGO_FUZZ: &str = "0.13.2";

/// Bytes of an input. Longer ones are for tests of sizes.
const MAX_LEN: &str = "-max_len=16384";

/// Seconds that an input may take.
const TIMEOUT: &str = "-timeout=10";

/// Memory that the process may have, the corpus included.
const MEMORY: &str = "-rss_limit_mb=2048";

/// Fuzzes one target after the other, and prints a table.
///
/// # Errors
///
/// The targets could not be built, or one of them failed: the error names the
/// input.
pub async fn run(
    workspace: &Workspace,
    minutes: u64,
    target: Option<&str>,
    progress: Progress,
) -> Result<()> {
    let targets: Vec<_> =
        TARGETS.into_iter().filter(|name| target.is_none_or(|wanted| wanted == *name)).collect();
    ensure!(!targets.is_empty(), "there is no such target; there are {}", TARGETS.join(", "));
    let fuzzers = build(workspace, progress).await?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL);
    table.set_header(["Target", "Inputs tried", "Per second", "Edges covered", "Kept", "Memory"]);
    for target in targets {
        let step = progress.step(&format!("Fuzzing {target}"));
        let finished = fuzz(workspace, &fuzzers, target, minutes, &step).await?;
        let figures = Figures::read(&finished);
        if !finished.status.success() {
            bail!("{target} failed: {}", reason(&finished));
        }
        step.done(&format!("{} inputs", figures.tried));
        table.add_row(figures.row(target));
    }
    print(&format!("\n{table}"))
}

/// Builds all targets; the folder that they are in.
async fn build(workspace: &Workspace, progress: Progress) -> Result<PathBuf> {
    let tool = workspace.scratch().join("cargo-fuzz");
    let binary = tool.join("bin/cargo-fuzz");
    if !binary.is_file() {
        let step = progress.step("cargo-fuzz, once");
        let mut install = Command::new("cargo");
        install.args(["install", "cargo-fuzz", "--version", CARGO_FUZZ, "--locked", "--root"]);
        succeed(install.arg(&tool), &step).await.context("could not install cargo-fuzz")?;
        step.done(CARGO_FUZZ);
    }
    let step = progress.step("Fuzz targets");
    let folder = workspace.scratch().join("fuzz/build");
    let mut build = Command::new(binary);
    build.args(["build", "--sanitizer", "none", "--fuzz-dir"]).arg(workspace.path("infra/fuzz"));
    build.arg("--target-dir").arg(&folder).current_dir(workspace.path("."));
    succeed(&mut build, &step).await.context("could not build the fuzz targets")?;
    step.done("built");
    Ok(folder.join(format!("{}-unknown-linux-gnu/release", std::env::consts::ARCH)))
}

async fn succeed(command: &mut Command, step: &Step) -> Result<()> {
    let command = std::mem::replace(command, Command::new("true"));
    let finished = process::run(command, |line| step.at(line.trim())).await?;
    ensure!(finished.status.success(), "{}", reason(&finished));
    Ok(())
}

async fn fuzz(
    workspace: &Workspace,
    fuzzers: &Path,
    target: &str,
    minutes: u64,
    step: &Step,
) -> Result<Finished> {
    let found = workspace.scratch().join("fuzz").join(target);
    let corpus = found.join("corpus");
    fs::create_dir_all(&corpus)
        .with_context(|| format!("could not create {}", corpus.display()))?;
    let mut command = Command::new(fuzzers.join(target));
    command
        // The first folder is where it keeps what it finds.
        .args([&corpus, &workspace.path("infra/fuzz/corpus").join(target)])
        .arg(format!("-dict={}", workspace.path("infra/fuzz/words.dict").display()))
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg(format!("-max_total_time={}", minutes.saturating_mul(60)))
        .args([MAX_LEN, TIMEOUT, MEMORY, "-print_final_stats=1"]);
    process::run(command, |line| {
        if line.starts_with('#') {
            step.at(line);
        }
    })
    .await
}

/// What libFuzzer counts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    tried: String,
    per_second: String,
    covered: String,
    kept: String,
    memory: String,
}

impl Figures {
    fn read(finished: &Finished) -> Self {
        let last = |mark: &str| {
            let mut lines = finished.stderr.iter().rev();
            let rest = lines.find_map(|line| line.split_once(mark))?.1;
            rest.split_whitespace().next().map(str::to_owned)
        };
        Self {
            tried: last("number_of_executed_units:").unwrap_or_default(),
            per_second: last("average_exec_per_sec:").unwrap_or_default(),
            covered: last(" cov: ").unwrap_or_default(),
            kept: last(" corp: ").unwrap_or_default(),
            memory: last("peak_rss_mb:").map(|memory| format!("{memory} MB")).unwrap_or_default(),
        }
    }

    fn row(self, target: &str) -> [String; 6] {
        let Self { tried, per_second, covered, kept, memory } = self;
        [target.to_owned(), tried, per_second, covered, kept, memory]
    }
}

/// What broke, and the file that holds the input.
fn reason(finished: &Finished) -> String {
    let is_telling = |line: &&String| {
        ["panicked at", "ERROR: libFuzzer", "Test unit written to", "error"]
            .iter()
            .any(|mark| line.contains(mark))
    };
    let lines: Vec<_> = finished.stderr.iter().filter(is_telling).map(|line| line.trim()).collect();
    if lines.is_empty() {
        format!("it said nothing ({})", finished.status)
    } else {
        lines.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(stderr: &str) -> Finished {
        let stderr = stderr.lines().map(str::to_owned).collect();
        Finished { status: <_>::default(), stdout: Vec::new(), stderr }
    }

    #[test]
    fn the_last_figures_are_read() {
        let finished = finished(
            "#2 INITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 20Mb\n\
             #99 NEW    cov: 12 ft: 15 corp: 3/9b exec/s: 0 rss: 21Mb\n\
             stat::number_of_executed_units: 123\nstat::average_exec_per_sec:     7\n\
             stat::peak_rss_mb:              55",
        );
        let row = Figures::read(&finished).row("payload");
        assert_eq!(row, ["payload", "123", "7", "12", "3/9b", "55 MB"]);
    }

    #[test]
    fn a_failure_names_its_input() {
        let told = "INFO: x\nthread panicked at a.rs:1:1:\nboo\nTest unit written to ./crash-1";
        assert_eq!(
            reason(&finished(told)),
            "thread panicked at a.rs:1:1:; Test unit written to ./crash-1"
        );
    }

    #[test]
    fn each_target_has_a_file_and_each_file_is_a_target() {
        let folder = Workspace::here().path("infra/fuzz/fuzz_targets");
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut targets = TARGETS.to_vec();
        files.sort();
        targets.sort_unstable();
        assert_eq!(files, targets);
    }
}
