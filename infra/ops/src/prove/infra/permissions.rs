//! Every permission is needed: without it, something goes wrong that is noticed.

use anyhow::{Context, Result, ensure};

use super::stories::every_story;
use crate::local::Local;
use crate::progress::Progress;
use crate::role::Role;

/// What is missed by nobody here, and why: that it is needed is held by the tests over
/// the template.
const UNNOTICED: [(&str, &str, &str); 7] = [
    ("producer", "dynamodb:PartiQLInsert", GROUPS),
    ("producer", "sqs:GetQueueAttributes", "it opens a connection, and nobody reads the answer"),
    ("consumer", "dynamodb:GetItem", "the emulator always returns the item that refused a put"),
    ("consumer", "dynamodb:PartiQLUpdate", GROUPS),
    ("consumer", "sqs:DeleteMessage", POLLER),
    ("consumer", "sqs:GetQueueAttributes", POLLER),
    ("consumer", "sqs:ReceiveMessage", POLLER),
];

const GROUPS: &str = "the emulator knows another action for groups, which are off here";
const POLLER: &str = "the emulator's poller does not ask for it";

/// Takes each action out of the policies, one after the other.
///
/// # Errors
///
/// Nothing noticed that one was missing, or something is wrong while all are there.
pub(super) async fn are_all_needed(local: &Local, progress: Progress) -> Result<()> {
    let stack = &local.stack;
    every_story(stack).await.context("with all permissions")?;
    let mut unnoticed = Vec::new();
    let outputs = &stack.outputs;
    for (name, function) in [("producer", &outputs.producer), ("consumer", &outputs.consumer)] {
        let role = Role::of(stack, function).await?;
        for (policy, action) in role.actions().await? {
            // Lambda writes logs and traces, and the emulator does so for nobody.
            if action.starts_with("logs:") || action.starts_with("xray:") {
                continue;
            }
            let step = progress.step(&format!("The {name} without {action} ({policy})"));
            let whole = role.without(&policy, &action).await?;
            let told = every_story(stack).await;
            role.restore(&policy, &whole).await?;
            let known = UNNOTICED.iter().find(|(of, what, _)| (*of, *what) == (name, &action));
            match (told, known) {
                (Err(error), _) => step.done(&format!("noticed: {}", brief(&error))),
                (Ok(()), Some((.., why))) => step.done(&format!("not noticed, as {why}")),
                (Ok(()), None) => {
                    step.ended(false, "not noticed");
                    unnoticed.push(format!("{name}: {action}"));
                }
            }
        }
    }
    ensure!(unnoticed.is_empty(), "nothing notices that these are missing: {unnoticed:?}");
    every_story(stack).await.context("with all permissions back")
}

fn brief(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.chars().take(120).collect()
}
