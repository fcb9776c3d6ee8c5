//! `cargo ops poll`: takes messages from the queue to a consumer that `cargo lambda
//! watch` runs, as the event source mapping does on AWS.
//!
//! A message is deleted only after the consumer has said that it is done. Whatever
//! ends this process before leaves it to its visibility timeout: it comes back.

pub mod answer;
mod poller;
pub mod record;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

pub use self::poller::Poller;
use crate::ending::Ending;
use crate::output::{Color, Format, Style, print, print_json};
use crate::progress::Progress;
use crate::target::Target;
use crate::workspace::Workspace;

const EXAMPLES: &str = "\
Examples:
  cargo lambda watch --invoke-address 127.0.0.1      in one terminal, with a stack that is up
  cargo ops poll                                     in another
  cargo ops poll --json --watch http://127.0.0.1:9100

While it runs, the stack's own event source mapping is switched off. `cargo ops dev`
does all of it.";

/// What it is called with.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Poll {
    /// Where `cargo lambda watch` answers.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9000")]
    watch: String,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    target: Target,
}

/// Polls until it is stopped (its future dropped).
///
/// # Errors
///
/// There is no stack or no watched consumer, or the queue does not answer.
pub async fn run(workspace: &Workspace, poll: &Poll, progress: Progress) -> Result<Ending> {
    let stack = poll.target.find(workspace, progress).await?;
    let poller = Poller::new(&stack, &poll.watch).await?;
    poller.ensure_something_answers().await?;
    let mapping = &poller.mapping;
    // What is returned ends with this function, however it ends.
    let _afterwards = if mapping.is_on() {
        ensure!(
            stack.connection.endpoint().is_some(),
            "{}'s own event source mapping would take the messages: switch it off first, with \
             `aws lambda update-event-source-mapping --no-enabled --uuid {}`",
            stack.name,
            mapping.uuid
        );
        let afterwards = mapping.switch_on_afterwards(&stack).await?;
        mapping.switch_off(&stack).await?;
        Some(afterwards)
    } else {
        None
    };
    let style = poll.format.style();
    poller.follow(|event| show(style, event)).await?;
    Ok(Ending::Done)
}

/// Shows one event, as one line.
///
/// # Errors
///
/// Nobody reads it any more.
pub fn show(style: Style, event: &Event) -> Result<()> {
    if style == Style::Json {
        return print_json(event);
    }
    let color = match event {
        Event::Batch { why: Some(_), .. } => Color::Red,
        Event::Batch { back, .. } if !back.is_empty() => Color::Yellow,
        Event::Waiting | Event::Ready | Event::Batch { .. } => Color::Green,
    };
    print(&format!("{} {}", style.paint(color, "poll    "), describe(event)))
}

fn describe(event: &Event) -> String {
    match event {
        Event::Waiting => "waiting for the consumer (its first call compiles it)".to_owned(),
        Event::Ready => "the consumer answers".to_owned(),
        Event::Batch { records, why: Some(why), .. } => {
            format!("batch of {records}: all come back: {why}")
        }
        Event::Batch { records, back, why: None } if back.is_empty() => {
            format!("batch of {records}: all done")
        }
        Event::Batch { records, back, why: None } => {
            format!("batch of {records}: {} come back: {}", back.len(), back.join(", "))
        }
    }
}

/// What happened.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum Event {
    /// Nothing is received until the consumer has answered.
    Waiting,
    /// It has.
    Ready,
    /// A batch was handled.
    Batch {
        /// How many records it had.
        records: usize,
        /// The message ids of those that come back.
        back: Vec<String>,
        /// Why all of them do, if it is not the consumer's list.
        why: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_told_in_one_line() {
        let batch = |back: &[&str], why: Option<&str>| Event::Batch {
            records: 3,
            back: back.iter().map(|&id| id.to_owned()).collect(),
            why: why.map(str::to_owned),
        };
        assert_eq!(describe(&batch(&[], None)), "batch of 3: all done");
        assert_eq!(describe(&batch(&["b"], None)), "batch of 3: 1 come back: b");
        let why = batch(&["a", "b", "c"], Some("the invocation failed: 500"));
        assert_eq!(describe(&why), "batch of 3: all come back: the invocation failed: 500");
    }
}
