//! `cargo ops prove infra`: the template deploys, updates in place and goes away.
//!
//! With every set of parameters, by CloudFormation and by SAM; what it keeps is taken
//! up again; and every permission in it is needed.

mod identity;
mod kept;
mod permissions;
mod stories;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::identity::{Identity, delete, exists};
use self::stories::a_job_is_done;
use crate::functions::Profile;
use crate::local::{Local, Options};
use crate::parameter_sets::{PARAMETER_SETS, ParameterSet};
use crate::progress::Progress;
use crate::stack::Stack;
use crate::workspace::Workspace;

/// Short leases and backoffs, so that what comes back does so soon.
const QUICK: [(&str, &str); 3] =
    [("ConsumerTimeout", "10"), ("BackoffBaseSeconds", "1"), ("BackoffCapSeconds", "1")];

/// Proves one after the other.
///
/// # Errors
///
/// Something did not deploy, was replaced, was left behind, or went unnoticed.
pub async fn run(workspace: &Workspace, progress: Progress) -> Result<()> {
    let options = Options {
        profile: Profile::EndToEnd,
        port: None,
        parameters: &QUICK,
        functions_endpoint: None,
    };
    let local = Local::start(workspace, options, progress).await?;
    let defaults = defaults(&local)?;
    every_set_updates_in_place(&local, &defaults, progress).await?;
    kept::is_taken_up_again(workspace, &local, &defaults, progress).await?;
    permissions::are_all_needed(&local, progress).await
}

/// The template's defaults: an update keeps what it is not told.
fn defaults(local: &Local) -> Result<Vec<(String, String)>> {
    let file = local.emulator.state().join(format!("{}.json", local.stack.name));
    let template = std::fs::read(file).context("could not read the packaged template")?;
    let template: Value = serde_json::from_slice(&template).context("it is no JSON")?;
    let parameters = template.get("Parameters").and_then(Value::as_object);
    let defaults = parameters.into_iter().flatten().filter_map(|(name, parameter)| {
        let default = match parameter.get("Default")? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // What this machine needs is set by the deployment itself.
        (name != "Architecture" && name != "AuthMode").then(|| (name.clone(), default))
    });
    Ok(defaults.collect())
}

async fn deploy(
    local: &Local,
    name: &str,
    defaults: &[(String, String)],
    set: ParameterSet,
) -> Result<Stack> {
    let mut all: Vec<_> =
        defaults.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    all.extend(set.1);
    local.another_stack(name, &all).await.with_context(|| format!("the set \"{}\"", set.0))
}

async fn every_set_updates_in_place(
    local: &Local,
    defaults: &[(String, String)],
    progress: Progress,
) -> Result<()> {
    let mut before: Option<(Identity, String)> = None;
    let mut last = None;
    for set in PARAMETER_SETS {
        let step = progress.step(&format!("Parameters \"{}\"", set.0));
        let stack = deploy(local, "proof", defaults, set).await?;
        let identity = Identity::of(&stack).await?;
        if let Some((known, job)) = &before {
            ensure!(identity == *known, "\"{}\" replaced {known:?} by {identity:?}", set.0);
            ensure!(stack.entry(job).await?.is_some(), "\"{}\" lost an entry", set.0);
        }
        // A token is what nobody here has.
        let job = if set.1.contains(&("AuthMode", "JWT")) {
            before.as_ref().map(|(_, job)| job.clone()).unwrap_or_default()
        } else {
            a_job_is_done(&stack, None).await.with_context(|| format!("with \"{}\"", set.0))?
        };
        step.done("deployed, table and queues are the same, and so is what they hold");
        before = Some((identity, job));
        last = Some(stack);
    }
    let stack = last.context("there is no set of parameters")?;
    let step = progress.step("Deletion");
    delete(&stack).await?;
    ensure!(!exists(&stack).await, "the table or a queue is still there");
    step.done("nothing is left");
    Ok(())
}
