//! Which dead letters a command is about.

use std::collections::HashSet;

use anyhow::{Result, bail};
use clap::Args;

use super::found::Summary;

/// The options that say so; several narrow each other down.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which dead letters")]
#[group(required = true, multiple = true)]
pub struct Filter {
    /// Those of this job; may be given several times.
    #[arg(long, value_name = "JOB")]
    id: Vec<String>,
    /// The one that SQS calls so; may be given several times.
    #[arg(long, value_name = "MESSAGE")]
    message: Vec<String>,
    /// Those of jobs of this kind.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Those that are here for this reason, such as `permanent`.
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// All of them.
    #[arg(long, conflicts_with_all = ["id", "message", "kind", "reason"])]
    all: bool,
}

impl Filter {
    /// Whether it is about this one.
    #[must_use]
    pub fn matches(&self, letter: &Summary) -> bool {
        let named = self.id.is_empty() && self.message.is_empty()
            || self.message.contains(&letter.message_id)
            || letter.job_id.as_ref().is_some_and(|id| {
                // A UUID is the same in either case.
                self.id.iter().any(|wanted| wanted.eq_ignore_ascii_case(id))
            });
        let same = |wanted: &Option<String>, there: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == there)
        };
        named
            && same(&self.kind, letter.kind.as_deref())
            && same(&self.reason, Some(&letter.reason))
    }

    /// Whether letters with these names are all that were named.
    ///
    /// # Errors
    ///
    /// One that was named is not among them.
    pub fn check_found(&self, letters: &[Summary]) -> Result<()> {
        let jobs: HashSet<_> = letters.iter().filter_map(|it| it.job_id.as_deref()).collect();
        let messages: HashSet<_> = letters.iter().map(|it| it.message_id.as_str()).collect();
        let mut missing: Vec<_> = Vec::new();
        for id in &self.id {
            if !jobs.contains(id.to_ascii_lowercase().as_str()) {
                missing.push(format!("of job {id}"));
            }
        }
        for id in self.message.iter().filter(|id| !messages.contains(id.as_str())) {
            missing.push(format!("called {id}"));
        }
        if missing.is_empty() {
            return Ok(());
        }
        bail!(
            "there is no dead letter {} that fits: `cargo ops dlq list` shows those that there are",
            missing.join(", nor one ")
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::found::Found;
    use super::super::found::tests::{ID, NOW, letter, report, written};
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,
    }

    fn parse(line: &str) -> Result<Filter, clap::Error> {
        let words = line.split_whitespace();
        Line::try_parse_from(std::iter::once("x").chain(words)).map(|line| line.filter)
    }

    #[test]
    fn several_options_narrow_each_other_down() {
        let summary = Found::new(letter(&report(), &written("permanent"))).summary(NOW);
        for (line, matches) in [
            ("--all", true),
            (&format!("--id {ID}"), true),
            (&format!("--id {}", ID.to_uppercase()), true),
            ("--id x", false),
            (&format!("--id x --id {ID}"), true),
            ("--message m", true),
            ("--message m --id x", true),
            ("--message x", false),
            ("--kind report", true),
            ("--kind webhook", false),
            ("--reason permanent", true),
            ("--reason permanent --kind webhook", false),
            ("--reason undecodable", false),
            (&format!("--id {ID} --reason undecodable"), false),
        ] {
            assert_eq!(parse(line).unwrap().matches(&summary), matches, "{line}");
        }
    }

    #[test]
    fn nobody_acts_on_all_by_forgetting_to_say_which() {
        assert!(parse("").is_err());
        assert!(parse("--all --kind report").is_err());
    }

    #[test]
    fn a_letter_that_was_named_must_be_there() {
        let summary = Found::new(letter(&report(), &[])).summary(NOW);
        let check = |line: &str| {
            let found = parse(line).unwrap().check_found(std::slice::from_ref(&summary));
            found.err().map(|error| error.to_string())
        };
        assert_eq!(check(&format!("--id {ID} --message m")), None);
        assert_eq!(check("--kind webhook"), None);
        assert_eq!(
            check("--id x --message y").unwrap(),
            "there is no dead letter of job x, nor one called y that fits: `cargo ops dlq list` \
             shows those that there are"
        );
    }
}
