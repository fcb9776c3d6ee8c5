//! `cargo ops up`: the same set-up, kept running, with the functions' logs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::detach;
use crate::emulator::{ACCESS_KEY, REGION, SECRET_KEY};
use crate::functions::Profile;
use crate::local::{Local, Options};
use crate::log_line;
use crate::logs::{Line, Tail};
use crate::output::{Format, Style, print, print_json};
use crate::progress::Progress;
use crate::receivers::{PATHS, describe};
use crate::running::{Announcement, Ready};
use crate::stack::Stack;
use crate::workspace::Workspace;

const EXAMPLES: &str = "\
Examples:
  cargo ops up                        and in another terminal, for its stack:
  cargo ops submit --wait events/requests/report.json
  cargo ops up --detach && cargo ops submit --wait jobs.ndjson; cargo ops down
  API=$(cargo ops up --detach --json | jq -r .api)

JSON, one document when it is ready: stack, api, endpoint, receiver, variables (of the
functions). Without --detach, what is logged and what arrives at the receiver follows.";

/// What it is called with.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// The emulator's port; a free one if it is left out.
    #[arg(long)]
    pub port: Option<u16>,
    /// Returns when everything is ready, and leaves it running until `cargo ops down`.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    format: Format,
}

const ATTACHED: &str = "Ctrl-C ends it and leaves nothing running. The functions' logs:";

const DETACHED: &str = "`cargo ops down` ends it and leaves nothing running; `cargo ops logs --follow` shows\n  the functions' logs.";

/// How often the logs are looked at.
const POLL: Duration = Duration::from_millis(500);

/// Sets up and follows the logs until it is stopped (its future dropped).
///
/// # Errors
///
/// The set-up failed, or the emulator went away; nothing is left running then. With
/// `--detach` also: a stack that is ready, and goes on, could not be shown.
pub async fn run(workspace: &Workspace, up: Up, progress: Progress) -> Result<()> {
    let style = up.format.style();
    if up.detach {
        let ready = detach::run(workspace, up.port, progress).await?;
        return introduce(workspace, ready, style, DETACHED)
            .await
            .context("the stack is up until `cargo ops down`, but could not be shown");
    }
    let options = Options {
        profile: Profile::Release,
        port: up.port,
        parameters: &[],
        functions_endpoint: None,
    };
    let mut announcement = Announcement::reserve(workspace).await?;
    let local = Local::start(workspace, options, progress).await?;
    let ready = Ready::of(&local);
    announcement.tell(&ready)?;
    introduce(workspace, ready, style, ATTACHED).await?;
    let show = |function: &str, line: &Line| {
        log_line::show(style, function, line).map_or(Ok(()), |line| print(&line))
    };
    let arrived = |event: &Value| match style {
        Style::Json => print(&event.to_string()),
        Style::Colored | Style::Plain => print(&describe(event)),
    };
    follow(&local, show, arrived).await
}

async fn follow(
    local: &Local,
    show: impl Fn(&str, &Line) -> Result<()>,
    arrived: impl Fn(&Value) -> Result<()>,
) -> Result<()> {
    let stack = &local.stack;
    let mut functions = [
        ("producer", &stack.outputs.producer, Tail::default()),
        ("consumer", &stack.outputs.consumer, Tail::default()),
    ];
    let mut told = 0;
    loop {
        for event in local.receivers.seen().iter().skip(told) {
            arrived(event)?;
            told += 1;
        }
        for (name, function, tail) in &mut functions {
            for line in tail.next(&stack.logs, function).await? {
                show(name, &line)?;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The functions' own variables, so that what runs elsewhere is set up the same.
///
/// # Errors
///
/// Lambda did not answer.
pub async fn variables(stack: &Stack) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for function in [&stack.outputs.producer, &stack.outputs.consumer] {
        all.extend(stack.variables(function).await?);
    }
    Ok(all)
}

/// What a person wants to copy from, or a script.
async fn introduce(workspace: &Workspace, ready: Ready, style: Style, end: &str) -> Result<()> {
    let stack = ready.clone().open(workspace)?;
    let variables = variables(&stack).await?;
    if style == Style::Json {
        let Ready { stack, api, endpoint, receiver, .. } = ready;
        return print_json(&json!({
            "stack": stack,
            "api": api,
            "endpoint": endpoint,
            "receiver": receiver,
            "variables": variables,
        }));
    }
    print(&introduction(&ready, &variables, end))
}

fn introduction(ready: &Ready, variables: &BTreeMap<String, String>, end: &str) -> String {
    let Ready { api, endpoint, receiver, .. } = ready;
    let exports: Vec<_> =
        variables.iter().map(|(name, value)| format!("    export {name}='{value}'")).collect();
    format!(
        r#"
  API    {api}

  Try:
    curl -i {api}/jobs -H 'content-type: application/json' -d @events/requests/report.json
    curl -i {api}/jobs/<id>
    curl -i {api}/jobs -H 'content-type: application/json' -d @events/requests/welcome-email.json
    curl -i {api}/jobs -H 'content-type: application/json' \
      -d '{{"kind":"webhook","payload":{{"url":"{receiver}","body":{{"hello":"world"}}}}}}'
{PATHS}

  For `cargo lambda watch`, `cargo lambda invoke` and the AWS CLI in another terminal
  (`aws sqs` also wants --endpoint-url "$AWS_ENDPOINT_URL"):
    export PATH="$PWD/.venv/bin:$PATH"
    export AWS_ENDPOINT_URL={endpoint} AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION}
    export AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}
{}

  {end}
"#,
        exports.join("\n")
    )
}
