//! `cargo ops doctor`: is this machine fit, and does the deployed stack have the
//! settings that the promises rest on?

pub mod deployed;
pub mod machine;
pub mod rules;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use crate::complaint::complaint;
use crate::doctor::deployed::Deployed;
use crate::doctor::machine::Machine;
use crate::ending::Ending;
use crate::output::{Color, Format, Style, print, print_json, table};
use crate::progress::Progress;
use crate::running::Running;
use crate::target::Target;
use crate::workspace::Workspace;

const EXAMPLES: &str = "\
Examples:
  cargo ops doctor                              this machine, and the stack that is up
  cargo ops doctor --stack relevo --profile production
  cargo ops doctor --json | jq -r 'select(.grade == \"problem\").mend'

Exit codes: 0 there is no problem (warnings are none); 1 there is one; 2 it was called
wrongly.";

/// What it is called with.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Ok,
    /// It works, and not well.
    Warning,
    /// Something does not work, or a promise may be broken.
    Problem,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The thing.
    pub what: &'static str,
    /// How bad it is.
    pub grade: Grade,
    /// What was found.
    pub found: String,
    /// What to do about it, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    /// It is as it should be.
    #[must_use]
    pub fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, grade: Grade::Ok, found: found.into(), mend: None }
    }

    /// It is as it should be if `is_ok`, else something is to be done.
    #[must_use]
    pub fn check(
        what: &'static str,
        is_ok: bool,
        grade: Grade,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        if is_ok {
            return Self::ok(what, found);
        }
        Self { what, grade, found: found.into(), mend: Some(mend.into()) }
    }
}

/// Looks at the machine, and at the stack if there is one, and shows what it found.
///
/// # Errors
///
/// There is a problem, or nothing could be shown.
pub async fn run(workspace: &Workspace, doctor: &Doctor, progress: Progress) -> Result<Ending> {
    let mut findings = Machine::read(workspace).await.findings();
    findings.extend(of_the_stack(workspace, &doctor.target, progress).await);
    show(doctor.format.style(), &findings, &doctor.target.exports(workspace))?;
    match findings.iter().filter(|finding| finding.grade == Grade::Problem).count() {
        0 => Ok(Ending::Done),
        1 => bail!("there is a problem"),
        count => bail!("there are {count} problems"),
    }
}

async fn of_the_stack(workspace: &Workspace, target: &Target, progress: Progress) -> Vec<Finding> {
    const WHAT: &str = "stack";
    if !target.is_named() && matches!(Running::find(workspace), Ok(None)) {
        return vec![Finding::ok(WHAT, "none is up: `cargo ops up`, or --stack for one on AWS")];
    }
    let deployed = async {
        let stack = target.find(workspace, progress).await?;
        let deployed = Deployed::read(&stack).await?;
        Ok::<_, anyhow::Error>((stack.name, deployed))
    };
    match deployed.await {
        Ok((name, deployed)) => {
            let mut findings = vec![Finding::ok(WHAT, name)];
            findings.extend(rules::judge(&deployed));
            findings
        }
        Err(error) => {
            let mend = "see what it says".to_owned();
            let found = complaint(&error);
            vec![Finding { what: WHAT, grade: Grade::Problem, found, mend: Some(mend) }]
        }
    }
}

fn show(style: Style, findings: &[Finding], exports: &str) -> Result<()> {
    if style == Style::Json {
        return findings.iter().try_for_each(print_json);
    }
    print(&shown(style, findings))?;
    let mends = mends(findings, exports);
    if mends.is_empty() { Ok(()) } else { print(&mends) }
}

fn shown(style: Style, findings: &[Finding]) -> String {
    let mut shown = table(["", "What", "Found"]);
    for finding in findings {
        let (color, sign) = match finding.grade {
            Grade::Ok => (Color::Green, "✓"),
            Grade::Warning => (Color::Yellow, "!"),
            Grade::Problem => (Color::Red, "✗"),
        };
        shown.add_row([&*style.paint(color, sign), finding.what, &finding.found]);
    }
    shown.to_string()
}

/// What to do about each finding, in lines of their own: a table would break what is
/// to be pasted.
fn mends(findings: &[Finding], exports: &str) -> String {
    let mut told = String::new();
    for Finding { what, mend, .. } in findings {
        if let Some(mend) = mend {
            told = format!("{told}\n  {what}: {mend}");
        }
    }
    match (told.is_empty(), exports.is_empty()) {
        (true, _) => told,
        (false, true) => format!("\nTo mend it:{told}"),
        (false, false) => format!("\nTo mend it, after `{exports}`:{told}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_a_table_and_mends_are_whole_lines() {
        let findings = [
            Finding::ok("rust", "1.95.0"),
            Finding::check("memory", false, Grade::Warning, "128 MB", "256 MB or more"),
            Finding::check("dead-letter queue", false, Grade::Problem, "none", "deploy again"),
        ];
        let exports = "export AWS_PROFILE=p";
        let text = format!("{}\n{}", shown(Style::Plain, &findings), mends(&findings, exports));
        insta::assert_snapshot!(text, @r"
        ┌───┬───────────────────┬────────┐
        │   ┆ What              ┆ Found  │
        ╞═══╪═══════════════════╪════════╡
        │ ✓ ┆ rust              ┆ 1.95.0 │
        ├╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌┤
        │ ! ┆ memory            ┆ 128 MB │
        ├╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌┤
        │ ✗ ┆ dead-letter queue ┆ none   │
        └───┴───────────────────┴────────┘

        To mend it, after `export AWS_PROFILE=p`:
          memory: 256 MB or more
          dead-letter queue: deploy again
        ");
        assert_eq!(mends(&findings[..1], exports), "");
        let json = serde_json::to_string(&findings[1]).unwrap();
        let expected =
            r#"{"what":"memory","grade":"warning","found":"128 MB","mend":"256 MB or more"}"#;
        assert_eq!(json, expected);
    }
}
