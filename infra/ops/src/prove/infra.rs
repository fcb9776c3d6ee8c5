//! `cargo ops prove infra`: the template deploys, updates in place and goes away
//! with every set of parameters, and every permission in it is needed.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::functions::Profile;
use crate::local::{Local, Options};
use crate::messages::send_all;
use crate::parameter_sets::{PARAMETER_SETS, ParameterSet};
use crate::progress::Progress;
use crate::role::Role;
use crate::stack::Stack;
use crate::workspace::Workspace;

/// A story takes a second; a busy machine several.
const PATIENCE: Duration = Duration::from_secs(20);

/// Short leases and backoffs, so that what comes back does so soon.
const QUICK: [(&str, &str); 3] =
    [("ConsumerTimeout", "10"), ("BackoffBaseSeconds", "1"), ("BackoffCapSeconds", "1")];

/// What the emulator does not ask a role for: what AWS's poller does in the
/// consumer's name, and an item that it returns without being asked again. That
/// these are needed is held by the test over the template.
const NOT_ENFORCED: [&str; 4] =
    ["dynamodb:GetItem", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"];

/// Proves both, one after the other.
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
    what_is_kept_stays(&local, &defaults, progress).await?;
    every_action_is_needed(&local, progress).await
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

async fn what_is_kept_stays(
    local: &Local,
    defaults: &[(String, String)],
    progress: Progress,
) -> Result<()> {
    let step = progress.step("Deletion with KeepData");
    let stack = deploy(local, "kept", defaults, ("defaults", &[])).await?;
    let identity = Identity::of(&stack).await?;
    delete(&stack).await?;
    ensure!(Identity::of(&stack).await? == identity, "the table or a queue has gone");
    step.done("table and queues are left");
    Ok(())
}

/// What a replacement would change.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    table: Value,
    queues: [Value; 2],
}

impl Identity {
    async fn of(stack: &Stack) -> Result<Self> {
        let name = &stack.outputs.table_name;
        let query = ["--query", "Table.TableId"];
        let table = ["dynamodb", "describe-table", "--table-name", name];
        let table = stack.aws.json(&[&table[..], &query].concat()).await?;
        let queue = async |url: &str| {
            let arguments = ["sqs", "get-queue-attributes", "--queue-url", url];
            let names = ["--attribute-names", "QueueArn", "CreatedTimestamp"];
            stack.aws.json(&[&arguments[..], &names].concat()).await
        };
        let queues = [
            queue(&stack.outputs.queue_url).await?,
            queue(&stack.outputs.dead_letter_queue_url).await?,
        ];
        Ok(Self { table, queues })
    }
}

async fn exists(stack: &Stack) -> bool {
    let url = &stack.outputs.queue_url;
    let queue = ["sqs", "get-queue-attributes", "--queue-url", url];
    let table = ["dynamodb", "describe-table", "--table-name", &stack.outputs.table_name];
    stack.aws.call(&queue).await.is_ok() || stack.aws.call(&table).await.is_ok()
}

async fn delete(stack: &Stack) -> Result<()> {
    stack.aws.call(&["cloudformation", "delete-stack", "--stack-name", &stack.name]).await?;
    let wait = ["cloudformation", "wait", "stack-delete-complete", "--stack-name", &stack.name];
    stack.aws.call(&wait).await
}

async fn every_action_is_needed(local: &Local, progress: Progress) -> Result<()> {
    let stack = &local.stack;
    every_story(stack).await.context("with all permissions")?;
    let mut unnoticed = Vec::new();
    for function in [&stack.outputs.producer, &stack.outputs.consumer] {
        let role = Role::of(stack, function).await?;
        for (policy, action) in role.actions().await? {
            // Lambda writes logs and traces, and the emulator does so for nobody.
            if action.starts_with("logs:") || action.starts_with("xray:") {
                continue;
            }
            let step = progress.step(&format!("{function} without {action} ({policy})"));
            let whole = role.without(&policy, &action).await?;
            let told = every_story(stack).await;
            role.restore(&policy, &whole).await?;
            match told {
                Err(error) => step.done(&format!("noticed: {}", brief(&error))),
                Ok(()) if is_consumer(stack, function) && not_enforced(&action) => {
                    step.done("not noticed, as the emulator does not ask for it");
                }
                Ok(()) => {
                    step.done("NOT NOTICED");
                    unnoticed.push(format!("{function}: {action}"));
                }
            }
        }
    }
    ensure!(unnoticed.is_empty(), "nothing notices that these are missing: {unnoticed:?}");
    every_story(stack).await.context("with all permissions back")
}

fn is_consumer(stack: &Stack, function: &str) -> bool {
    function == stack.outputs.consumer
}

fn not_enforced(action: &str) -> bool {
    NOT_ENFORCED.contains(&action)
}

fn brief(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.chars().take(120).collect()
}

/// Everything that needs a permission: a job, one with a key, one that fails
/// first, one that is cancelled, and a message that is none.
async fn every_story(stack: &Stack) -> Result<()> {
    let key = Uuid::new_v4().to_string();
    a_job_is_done(stack, None).await.context("a job")?;
    a_job_is_done(stack, Some(&key)).await.context("a job with a key")?;
    let retried = json!({ "kind": "probe", "payload": { "attempts": ["fail", "succeed"] } });
    is_done(stack, &retried, None).await.context("a job that fails first")?;
    let poison = format!("no job {key}");
    send_all(stack, std::slice::from_ref(&poison)).await?;
    stack.wait_for_dead_letter(&poison, PATIENCE).await?;
    let mut later = report();
    if let Some(fields) = later.as_object_mut() {
        fields.insert("delay_seconds".to_owned(), json!(900));
    }
    let id = accepted(stack, &later, None).await?;
    let cancelled = stack.api.cancel(&id).await?;
    ensure!(cancelled.status == 200, "cancelling: {} {}", cancelled.status, cancelled.body);
    Ok(())
}

async fn a_job_is_done(stack: &Stack, key: Option<&str>) -> Result<String> {
    is_done(stack, &report(), key).await
}

async fn is_done(stack: &Stack, request: &Value, key: Option<&str>) -> Result<String> {
    let id = accepted(stack, request, key).await?;
    let job = stack.api.wait_for_job(&id, PATIENCE).await?;
    match job.text("/state") {
        "succeeded" => Ok(id),
        other => bail!("the job ended as {other}: {}", job.body),
    }
}

async fn accepted(stack: &Stack, request: &Value, key: Option<&str>) -> Result<String> {
    let answer = stack.api.post_job(request.to_string(), key).await?;
    ensure!(answer.status == 202, "{} {}", answer.status, answer.body);
    Ok(answer.id()?.to_owned())
}

fn report() -> Value {
    let rows = json!([{ "group": "a", "amount": "1" }]);
    json!({ "kind": "report", "payload": { "title": "Proof", "rows": rows } })
}
