//! `cargo ops up`: the same set-up, kept running, with the functions' logs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::emulator::{ACCESS_KEY, REGION, SECRET_KEY};
use crate::functions::Profile;
use crate::local::{Local, Options};
use crate::log_line;
use crate::logs::{Line, Tail};
use crate::output::{Style, print};
use crate::progress::Progress;
use crate::receivers::describe;
use crate::running::Announcement;
use crate::stack::Stack;
use crate::workspace::Workspace;

/// How often the logs are looked at.
const POLL: Duration = Duration::from_millis(500);

/// Sets up and follows the logs until it is stopped (its future dropped).
///
/// # Errors
///
/// The set-up failed, or the emulator went away.
pub async fn run(
    workspace: &Workspace,
    port: Option<u16>,
    style: Style,
    progress: Progress,
) -> Result<()> {
    let options =
        Options { profile: Profile::Release, port, parameters: &[], functions_endpoint: None };
    let announcement = Announcement::reserve(workspace)?;
    let local = Local::start(workspace, options, progress).await?;
    announcement.tell(&local)?;
    print(&introduction(&local, &variables(&local.stack).await?))?;
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

/// What a person wants to copy from.
fn introduction(local: &Local, variables: &BTreeMap<String, String>) -> String {
    let (api, endpoint) = (local.stack.api.base(), local.emulator.endpoint());
    let receiver = local.receivers.url("/busy-twice");
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

  For `cargo lambda watch`, `cargo lambda invoke` and the AWS CLI in another terminal:
    export PATH="$PWD/.venv/bin:$PATH"
    export AWS_ENDPOINT_URL={endpoint} AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION}
    export AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}
{}

  Ctrl-C ends it and leaves nothing running. The functions' logs:
"#,
        exports.join("\n")
    )
}
