//! What the consumer's log tells: which handler ran when, and what came of each
//! delivery.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use aws_sdk_sqs::primitives::{DateTime, DateTimeFormat};
use serde_json::Value;

use crate::logs::{Line, Logs};

/// Lines of the last seconds are read again: a stream may appear a little after
/// one that is younger.
const OVERLAP_MS: i64 = 10_000;

/// A moment in microseconds since the epoch.
pub(super) type Micros = i128;

/// One run of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) started: Micros,
    /// `None` if its process was killed, or ended itself, before.
    pub(super) ended: Option<Micros>,
    invocation: String,
}

/// What came of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) at: Micros,
    pub(super) outcome: String,
}

/// All that is known of a job's deliveries.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    pub(super) runs: Vec<Run>,
    pub(super) deliveries: Vec<Delivery>,
    /// The log's lines about the job.
    pub(super) lines: Vec<String>,
}

/// The stories of all jobs, by their ids.
#[derive(Debug, Default)]
pub(super) struct Stories {
    pub(super) by_job: HashMap<String, Story>,
    since: i64,
    seen: HashSet<String>,
}

impl Stories {
    /// Reads on.
    pub(super) async fn follow(&mut self, logs: &Logs, function: &str) -> Result<()> {
        let lines = logs.of_function(function, self.since - OVERLAP_MS).await?;
        let new: Vec<_> =
            lines.iter().filter(|line| !self.seen.contains(&line.log_stream_name)).collect();
        for line in &new {
            self.read(line);
        }
        // Streams are whole when they appear: one invocation, written at its end.
        for line in new {
            self.seen.insert(line.log_stream_name.clone());
            self.since = self.since.max(line.timestamp);
        }
        Ok(())
    }

    fn read(&mut self, line: &Line) {
        let Some(event) = line.event() else { return };
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let Some(at) = micros(text("timestamp")) else { return };
        let invocation = &line.log_stream_name;
        if text("job.id").is_empty() {
            return;
        }
        let story = self.by_job.entry(text("job.id").to_owned()).or_default();
        story.lines.push(format!("{} {invocation}", line.message));
        match text("message") {
            "job started" => {
                let invocation = invocation.clone();
                story.runs.push(Run { started: at, ended: None, invocation });
            }
            "handler ended" => story.end(invocation, at),
            "record settled" => {
                let outcome = text("outcome").to_owned();
                match outcome.as_str() {
                    // Its thread goes on until the process ends.
                    "still-alive" => story.reopen(invocation),
                    _ => story.end(invocation, at),
                }
                story.deliveries.push(Delivery { at, outcome });
            }
            _ => {}
        }
    }
}

impl Story {
    /// The run of this invocation has ended, if it had not: `at` is when its
    /// handler did, or else when its record was settled.
    fn end(&mut self, invocation: &str, at: Micros) {
        let mut runs = self.runs.iter_mut().rev();
        if let Some(run) = runs.find(|run| run.invocation == invocation && run.ended.is_none()) {
            run.ended = Some(at);
        }
    }

    fn reopen(&mut self, invocation: &str) {
        let mut runs = self.runs.iter_mut().rev();
        if let Some(run) = runs.find(|run| run.invocation == invocation) {
            run.ended = None;
        }
    }
}

/// The moment that an RFC 3339 text names.
pub(super) fn micros(text: &str) -> Option<Micros> {
    let moment = DateTime::from_str(text, DateTimeFormat::DateTime).ok()?;
    Some(moment.as_nanos() / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stories(lines: &[(&str, &str)]) -> Story {
        let mut stories = Stories::default();
        for (invocation, message) in lines {
            stories.read(&Line {
                log_stream_name: (*invocation).to_owned(),
                event_id: None,
                timestamp: 0,
                message: (*message).to_owned(),
            });
        }
        stories.by_job.remove("j").unwrap_or_default()
    }

    const STARTED: &str =
        r#"{"timestamp":"1970-01-01T00:00:01.5Z","message":"job started","job.id":"j"}"#;
    const ENDED: &str =
        r#"{"timestamp":"1970-01-01T00:00:02.000001Z","message":"handler ended","job.id":"j"}"#;
    const ALIVE: &str = r#"{"timestamp":"1970-01-01T00:00:03Z","message":"record settled","job.id":"j","outcome":"still-alive"}"#;

    #[test]
    fn a_run_lasts_until_its_handler_ended() {
        let story = stories(&[("a", STARTED), ("a", ENDED), ("b", STARTED)]);
        assert_eq!(story.runs[0].started, 1_500_000);
        assert_eq!(story.runs[0].ended, Some(2_000_001));
        assert_eq!(story.runs[1].ended, None);
    }

    #[test]
    fn a_run_whose_thread_goes_on_has_no_end() {
        let story = stories(&[("a", STARTED), ("a", ENDED), ("a", ALIVE)]);
        assert_eq!(story.runs[0].ended, None);
        assert_eq!(story.deliveries[0].outcome, "still-alive");
    }
}
