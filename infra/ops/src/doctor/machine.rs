//! Whether this machine has what a developer needs.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;
use tokio::process::Command;

use super::{Finding, Grade};
use crate::emulator;
use crate::functions::architecture;
use crate::process;
use crate::tools::{OLDEST_PYTHON, Tools};
use crate::workspace::Workspace;

/// The oldest Rust that compiles this.
const OLDEST_RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Where `cargo ops dev` has the functions answer, unless it is told otherwise.
const WATCH_PORT: u16 = 9000;

/// Compares what is installed with the pins; needs nothing but Python itself.
const COMPARE: &str = r#"
import importlib.metadata as installed, json, re, sys
different = {}
pins = re.findall(r"(?m)^([\w.-]+)==([\w.]+)", open(sys.argv[1]).read())
for name, wanted in pins:
    try:
        found = installed.version(name)
    except installed.PackageNotFoundError:
        found = "missing"
    if found != wanted:
        different[name] = f"{found} instead of {wanted}"
print(json.dumps({"pins": len(pins), "different": different}))
"#;

/// What was found on it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// As Lambda calls it, or why nothing would run.
    architecture: Result<&'static str, String>,
    /// What `rustc --version` says.
    rust: Option<String>,
    /// Major and minor.
    python: Option<(u32, u32)>,
    /// The tools in `.venv`, if there is one.
    tools: Option<Pins>,
    /// Whether nobody listens where `cargo ops dev` wants to.
    is_port_free: bool,
}

/// The pinned tools, and those that are not as pinned.
#[derive(Clone, Debug, Default, Deserialize)]
struct Pins {
    pins: usize,
    different: BTreeMap<String, String>,
}

impl Machine {
    /// Looks around.
    pub async fn read(workspace: &Workspace) -> Self {
        let python = first_line("python3", &["-c", "import sys; print(*sys.version_info[:2])"]);
        let (rust, python, tools) =
            tokio::join!(first_line("rustc", &["--version"]), python, tools(workspace));
        Self {
            architecture: architecture().map_err(|error| error.to_string()),
            rust,
            python: python.as_deref().and_then(|line| pair(line, ' ')),
            tools,
            is_port_free: emulator::choose(Some(WATCH_PORT)).is_ok(),
        }
    }

    /// What is to be said about it.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        vec![self.machine(), self.rust(), self.python(), self.tools(), self.port()]
    }

    fn machine(&self) -> Finding {
        const WHAT: &str = "machine";
        match &self.architecture {
            Ok(name) => Finding::ok(WHAT, format!("Linux, {name}")),
            Err(why) => {
                Finding::check(WHAT, false, Grade::Problem, why, "use one that Lambda has as well")
            }
        }
    }

    fn rust(&self) -> Finding {
        let version = self.rust.as_deref().and_then(|line| line.split(' ').nth(1));
        let is_new_enough = version.and_then(|it| pair(it, '.')) >= pair(OLDEST_RUST, '.');
        Finding::check(
            "rust",
            is_new_enough,
            Grade::Problem,
            version.unwrap_or("none"),
            format!("{OLDEST_RUST} or newer: `rustup update stable`"),
        )
    }

    fn python(&self) -> Finding {
        let (major, minor) = OLDEST_PYTHON;
        let found = self.python.map_or("none".to_owned(), |(a, b)| format!("{a}.{b}"));
        let mend = format!("install Python {major}.{minor} or newer as `python3`");
        Finding::check("python", self.python >= Some(OLDEST_PYTHON), Grade::Problem, found, mend)
    }

    fn tools(&self) -> Finding {
        const WHAT: &str = "tools";
        const MEND: &str = "`cargo ops up` makes it; if it stays so, delete .venv first";
        let Some(Pins { pins, different }) = &self.tools else {
            return Finding::check(WHAT, false, Grade::Warning, "there is no .venv yet", MEND);
        };
        if different.is_empty() {
            return Finding::ok(WHAT, format!("{pins} packages in .venv, all as pinned"));
        }
        let different: Vec<_> =
            different.iter().map(|(name, what)| format!("{name} {what}")).collect();
        Finding::check(WHAT, false, Grade::Problem, different.join(", "), MEND)
    }

    fn port(&self) -> Finding {
        let found = if self.is_port_free { "free" } else { "in use" };
        Finding::check(
            "port 9000",
            self.is_port_free,
            Grade::Warning,
            found,
            "for `cargo ops dev`: name another one with --watch-port",
        )
    }
}

async fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let finished = process::run(command, |_| ()).await.ok()?;
    finished.stdout.into_iter().next()
}

async fn tools(workspace: &Workspace) -> Option<Pins> {
    let mut command = Tools::prepared(workspace).command("python");
    command.args(["-c", COMPARE]).arg(workspace.path("infra/ops/requirements.txt"));
    let finished = process::run(command, |_| ()).await.ok()?;
    serde_json::from_str(finished.stdout.first()?).ok()
}

/// The first two numbers of a version.
fn pair(version: &str, separator: char) -> Option<(u32, u32)> {
    let mut numbers = version.split(separator).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> Machine {
        Machine {
            architecture: Ok("x86_64"),
            rust: Some("rustc 99.0.0 (abcdef 2026-11-30)".to_owned()),
            python: Some((3, 11)),
            tools: Some(Pins { pins: 2, different: BTreeMap::new() }),
            is_port_free: true,
        }
    }

    fn complaints(machine: &Machine) -> Vec<(&'static str, Grade)> {
        let findings = machine.findings().into_iter();
        let findings = findings.filter(|finding| finding.grade != Grade::Ok);
        findings.map(|finding| (finding.what, finding.grade)).collect()
    }

    #[test]
    fn everything_that_is_missing_is_found_and_only_that() {
        assert_eq!(complaints(&fit()), []);
        let different = BTreeMap::from([("ministack".to_owned(), "missing".to_owned())]);
        let pins = Some(Pins { pins: 2, different });
        let old_rust = Some("rustc 1.94.9 (abcdef 2026-11-30)".to_owned());
        for (machine, what, grade) in [
            (Machine { architecture: Err("a Mac".to_owned()), ..fit() }, "machine", Grade::Problem),
            (Machine { rust: None, ..fit() }, "rust", Grade::Problem),
            (Machine { rust: old_rust, ..fit() }, "rust", Grade::Problem),
            (Machine { python: None, ..fit() }, "python", Grade::Problem),
            (Machine { python: Some((3, 10)), ..fit() }, "python", Grade::Problem),
            (Machine { tools: None, ..fit() }, "tools", Grade::Warning),
            (Machine { tools: pins, ..fit() }, "tools", Grade::Problem),
            (Machine { is_port_free: false, ..fit() }, "port 9000", Grade::Warning),
        ] {
            assert_eq!(complaints(&machine), [(what, grade)]);
        }
    }
}
