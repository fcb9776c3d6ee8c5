//! The functions' logs, read from CloudWatch Logs.
//!
//! One operation of one service: signing its request takes fewer lines than the
//! SDK crate takes seconds to compile.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::sign::sign_request;

/// The log groups of one account or emulator.
#[derive(Clone, Debug)]
pub struct Logs {
    connection: Connection,
    client: reqwest::Client,
}

/// One line of a log.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The stream that the line belongs to; the emulator makes one an invocation.
    pub log_stream_name: String,
    /// No other line has it. The emulator's lines of functions have none.
    pub event_id: Option<String>,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// The line.
    pub message: String,
}

impl Line {
    /// The line as the function logged it, if it is one of the function's events
    /// and not one of Lambda's.
    #[must_use]
    pub fn event(&self) -> Option<Value> {
        serde_json::from_str(&self.message).ok().filter(Value::is_object)
    }

    fn identity(&self) -> String {
        let Self { log_stream_name, event_id, timestamp, message } = self;
        event_id.clone().unwrap_or_else(|| format!("{log_stream_name} {timestamp} {message}"))
    }

    /// The event, if it is about job `id`.
    #[must_use]
    pub fn about_job(&self, id: &str) -> Option<Value> {
        self.event().filter(|event| event.get("job.id").and_then(Value::as_str) == Some(id))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    events: Vec<Line>,
    next_token: Option<String>,
}

impl Logs {
    /// Reads what `connection` leads to.
    #[must_use]
    pub fn new(connection: Connection) -> Self {
        Self { connection, client: reqwest::Client::new() }
    }

    /// What a function has logged since `since` (milliseconds since 1970).
    ///
    /// # Errors
    ///
    /// CloudWatch Logs did not answer, or with something else than lines.
    pub async fn of_function(&self, function: &str, since: i64) -> Result<Vec<Line>> {
        self.search(function, since, None).await
    }

    /// What a function has logged since `since` (milliseconds since 1970) that has
    /// this word in it, such as a job's id.
    ///
    /// # Errors
    ///
    /// As of [`Logs::of_function`].
    pub async fn search(
        &self,
        function: &str,
        since: i64,
        word: Option<&str>,
    ) -> Result<Vec<Line>> {
        let group = format!("/aws/lambda/{function}");
        let mut question = json!({ "logGroupName": group, "startTime": since });
        if let (Some(word), Some(question)) = (word, question.as_object_mut()) {
            question.insert("filterPattern".to_owned(), json!(format!("\"{word}\"")));
        }
        let mut lines = Vec::new();
        loop {
            let page = self.page(&group, &question.to_string()).await?;
            lines.extend(page.events);
            match (page.next_token, question.as_object_mut()) {
                // Also of a page without lines: it only was not searched to its end.
                (Some(token), Some(question)) => {
                    question.insert("nextToken".to_owned(), json!(token))
                }
                (None, _) | (_, None) => return Ok(lines),
            };
        }
    }

    async fn page(&self, group: &str, question: &str) -> Result<Page> {
        let url = format!("{}/", self.connection.address("logs")?);
        let mut request = http::Request::post(&url)
            .header("content-type", "application/x-amz-json-1.1")
            .header("x-amz-target", "Logs_20140328.FilterLogEvents")
            .body(question.to_owned())
            .context("could not make the request")?;
        let credentials = self.connection.credentials().await?;
        sign_request(&mut request, credentials, self.connection.region()?, "logs")?;
        let request = reqwest::Request::try_from(request).context("could not make the request")?;
        let response = self.client.execute(request).await.context("the logs did not answer")?;
        let status = response.status();
        let bytes = response.bytes().await.context("the logs' answer broke off")?;
        if !status.is_success() {
            bail!("could not read {group}: {status} {}", String::from_utf8_lossy(&bytes));
        }
        serde_json::from_slice(&bytes).context("the logs gave no lines")
    }
}

/// How late a line may become visible after one that is younger.
const LATE_MS: i64 = 30_000;

/// Lines that were not seen before.
#[derive(Debug, Default)]
pub struct Tail {
    since: i64,
    word: Option<String>,
    /// Those that may be read once more.
    seen: HashMap<String, i64>,
}

impl Tail {
    /// Those since `since` (milliseconds since 1970), if there is a word only those
    /// that have it.
    #[must_use]
    pub fn new(since: i64, word: Option<String>) -> Self {
        Self { since, word, seen: HashMap::new() }
    }

    /// What the function has logged since the last call.
    ///
    /// # Errors
    ///
    /// As of [`Logs::of_function`].
    pub async fn next(&mut self, logs: &Logs, function: &str) -> Result<Vec<Line>> {
        let mut lines = logs.search(function, self.since, self.word.as_deref()).await?;
        lines.retain(|line| self.seen.insert(line.identity(), line.timestamp).is_none());
        for line in &lines {
            self.since = self.since.max(line.timestamp - LATE_MS);
        }
        self.seen.retain(|_, timestamp| *timestamp >= self.since);
        Ok(lines)
    }
}
