//! Breaks the code on purpose, one place after the other, and looks whether
//! the simulation finds out.
//!
//! Each mutation is built in a copy of the repository, so that nothing of it
//! stays behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};

use crate::simulation::TableKind;

/// A way to break a promise.
struct Mutation {
    name: &'static str,
    file: &'static str,
    /// What is there, once.
    find: &'static str,
    /// What takes its place.
    replace: &'static str,
    /// Conditions are expressions, which only a DynamoDB engine reads.
    table: TableKind,
}

const EXPRESSIONS: &str = "shared/src/table/dynamodb/expression.rs";

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "the fencing condition is dropped",
        file: "shared/src/table/dynamodb.rs",
        find: r##""#state = :running AND #lease_token = :token""##,
        replace: r##""#state = :running OR #lease_token = :token OR attribute_exists(#job_id)""##,
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a settlement checks the token and not the state",
        file: "shared/src/table/dynamodb.rs",
        find: r##""#state = :running AND #lease_token = :token""##,
        replace: r#""(#state = :running OR #lease_token = :token) AND #lease_token = :token""#,
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a job in progress elsewhere is acknowledged",
        file: "consumer/src/outcome.rs",
        find: "Self::Completed | Self::Duplicate | Self::Cancelled => Acknowledge,",
        replace: "Self::Completed | Self::Duplicate | Self::Cancelled | Self::InProgress { .. } => Acknowledge,",
        table: TableKind::Memory,
    },
    Mutation {
        name: "any error of a claim counts as a duplicate",
        file: "consumer/src/claim.rs",
        find: "Ok(Err(error)) => Err(Outcome::TableUnreachable { error: error.describe() }),",
        replace: "Ok(Err(_)) => Err(Outcome::Duplicate),",
        table: TableKind::Memory,
    },
    Mutation {
        name: "a job that failed is not given back",
        file: "consumer/src/settle.rs",
        find: "let (settlement, outcome) = self.consequence(record, end);",
        replace: "let (settlement, outcome) = self.consequence(record, end);\n\
                  if matches!(settlement, Settlement::Release { .. }) { return outcome; }",
        table: TableKind::Memory,
    },
    Mutation {
        name: "a lease is shorter than the timeout",
        file: "consumer/src/deadline.rs",
        find: "self.at + LEASE_MARGIN",
        replace: "Timestamp::from_millis(self.at.as_millis() - 20_000)",
        table: TableKind::Memory,
    },
    Mutation {
        name: "the expiry of an entry is ignored",
        file: EXPRESSIONS,
        find: r#""attribute_not_exists(#job_id) OR #expires_at <= :now_seconds""#,
        replace: r#""attribute_not_exists(#job_id) OR (#expires_at <= :now_seconds AND attribute_not_exists(#job_id))""#,
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "the expiry of an entry is in milliseconds",
        file: "shared/src/table/dynamodb.rs",
        find: "number(entry.expires_at.as_seconds())",
        replace: "number(entry.expires_at.as_millis())",
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a record is acknowledged though its dead letter was not sent",
        file: "consumer/src/finish.rs",
        find: "(!sent, !sent)",
        replace: "(false, false)",
        table: TableKind::Memory,
    },
    Mutation {
        name: "a job that is held can be claimed",
        file: EXPRESSIONS,
        find: r#""(#state = :failed AND #updated_at < :failed_before)""#,
        replace: r#""((#state = :failed OR attribute_exists(#reason)) AND #updated_at < :failed_before)""#,
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a held kind that failed is repeated without a person",
        file: EXPRESSIONS,
        find: r#""(#state = :failed AND #updated_at < :failed_before)""#,
        replace: r#""(#state = :failed OR #updated_at < :failed_before AND #state = :failed)""#,
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a held kind is given back when it is stopped for time",
        file: "consumer/src/run_handler.rs",
        find: r#"unexpected("stopped for lack of time".to_owned())"#,
        replace: "End::Retryable { error: String::new(), not_before: None }",
        table: TableKind::Memory,
    },
    Mutation {
        name: "a job is failed without a claim though it has succeeded",
        file: EXPRESSIONS,
        find: "(#state = :queued AND #fingerprint = :fingerprint)",
        replace: "(#state <> :queued OR #fingerprint = :fingerprint)",
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a claim does not look at not_before",
        file: EXPRESSIONS,
        find: "(attribute_not_exists(#not_before) OR #not_before <= :now_ms)",
        replace: "(attribute_exists(#job_id) OR #not_before <= :now_ms)",
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a claim that was refused in a group counts as made",
        file: "shared/src/table/dynamodb/group.rs",
        find: "answers.iter().map(|answer| answer.error().is_none()).collect()",
        replace: "answers.iter().map(|_| true).collect()",
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a claim in a group takes any entry that is queued",
        file: "shared/src/table/dynamodb/group.rs",
        find: r#"&["lease_token", "not_before"]"#,
        replace: r#"&["result"]"#,
        table: TableKind::Dynamodb,
    },
    Mutation {
        name: "a group that got no answer counts as made",
        file: "shared/src/table/grouped.rs",
        find: ".unwrap_or(false)",
        replace: ".unwrap_or(true)",
        table: TableKind::Memory,
    },
    Mutation {
        name: "an invocation answers while a thread is at work",
        file: "consumer/src/attempt.rs",
        find: "if !is_done && !context.tasks.end(deadline.settle_until()).await {",
        replace: "if !is_done && !context.tasks.end(deadline.settle_until()).await && false {",
        table: TableKind::Memory,
    },
    Mutation {
        name: "all messages without an id are one job",
        file: "shared/src/message.rs",
        find: ".ok_or(Unreadable::NoId)",
        replace: ".or(Some(JobId::new(uuid::Uuid::nil()))).ok_or(Unreadable::NoId)",
        table: TableKind::Memory,
    },
    Mutation {
        name: "copies in one batch run side by side",
        file: "consumer/src/batch.rs",
        find: "if let Some(Work::Job { copies, .. }) = known {",
        replace: "if let Some(Work::Job { copies, .. }) = known.filter(|_| false) {",
        table: TableKind::Memory,
    },
];

/// Looks whether the simulation finds every mutation
#[derive(Debug, clap::Args)]
pub(crate) struct Mutations {
    /// Worlds in which a mutation must be found
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Only mutations whose name contains this
    #[arg(long)]
    only: Option<String>,
}

impl Mutations {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let root = root();
        let copy = root.join("target/mutations/tree");
        copy_tree(&root, &copy)?;
        let wanted = MUTATIONS.iter().filter(|mutation| {
            self.only.as_deref().is_none_or(|part| mutation.name.contains(part))
        });
        let mut missed = Vec::new();
        for mutation in wanted {
            let found = self.try_one(&copy, mutation);
            // Whatever came of it, the next one starts from sound code.
            fs::copy(root.join(mutation.file), copy.join(mutation.file))?;
            if let Some(violation) = found.with_context(|| mutation.name)? {
                println!("found   {}\n        {violation}", mutation.name);
            } else {
                println!("MISSED  {}", mutation.name);
                missed.push(mutation.name);
            }
        }
        ensure!(missed.is_empty(), "the simulation did not find: {}", missed.join(", "));
        Ok(())
    }

    /// What the simulation says of a mutation.
    fn try_one(&self, copy: &Path, mutation: &Mutation) -> anyhow::Result<Option<String>> {
        let file = copy.join(mutation.file);
        let text = fs::read_to_string(&file)?;
        fs::write(&file, mutation.apply(&text)?)?;
        let seeds = self.seeds.to_string();
        let simulate = ["--", "simulate", "--seeds", &seeds, "--table", mutation.table.name()];
        let built = cargo(copy, &["build"], &[])?;
        if !built.status.success() {
            bail!("it does not compile:\n{}", String::from_utf8_lossy(&built.stderr));
        }
        let output = cargo(copy, &["run", "--quiet"], &simulate)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let violation = stderr.lines().find(|line| line.starts_with("seed "));
        Ok(violation.map(str::to_owned))
    }
}

impl Mutation {
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        let times = text.matches(self.find).count();
        ensure!(times == 1, "{} has {times} times: {}", self.file, self.find);
        Ok(text.replace(self.find, self.replace))
    }
}

/// The repository.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// Copies what git knows, as it is now.
fn copy_tree(root: &Path, copy: &Path) -> anyhow::Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("could not list the repository's files")?;
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(name), copy.join(name));
        // Unchanged files keep their time, so that cargo builds only the rest.
        if !from.is_file() || fs::read(&from).ok() == fs::read(&to).ok() {
            continue;
        }
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(&from, &to).with_context(|| format!("could not copy {name}"))?;
    }
    Ok(())
}

/// Runs cargo for this package in the copy.
fn cargo(copy: &Path, command: &[&str], arguments: &[&str]) -> anyhow::Result<Output> {
    Command::new("cargo")
        .args(command)
        .args(["--profile", "e2e", "--package", "prove", "--example", "prove"])
        .args(arguments)
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.with_file_name("build"))
        .output()
        .context("could not run cargo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_still_has_its_place() {
        for mutation in MUTATIONS {
            let text = fs::read_to_string(root().join(mutation.file)).unwrap();
            mutation.apply(&text).unwrap();
        }
    }
}
