//! The functions' logs, read from CloudWatch Logs.
//!
//! One operation of one service: signing its request takes fewer lines than the
//! SDK crate takes seconds to compile.

use std::collections::HashSet;

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

    /// The event, if it is about job `id`.
    #[must_use]
    pub fn about_job(&self, id: &str) -> Option<Value> {
        self.event().filter(|event| event.get("job.id").and_then(Value::as_str) == Some(id))
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    events: Vec<Line>,
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
        let group = format!("/aws/lambda/{function}");
        let body = json!({ "logGroupName": group, "startTime": since }).to_string();
        let url = format!("{}/", self.connection.address("logs")?);
        let mut request = http::Request::post(&url)
            .header("content-type", "application/x-amz-json-1.1")
            .header("x-amz-target", "Logs_20140328.FilterLogEvents")
            .body(body)
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
        let page: Page = serde_json::from_slice(&bytes).context("the logs gave no lines")?;
        Ok(page.events)
    }
}

/// Lines that were not seen before.
#[derive(Debug, Default)]
pub struct Tail {
    since: i64,
    seen: HashSet<String>,
}

impl Tail {
    /// What the function has logged since the last call.
    ///
    /// # Errors
    ///
    /// As of [`Logs::of_function`].
    pub async fn next(&mut self, logs: &Logs, function: &str) -> Result<Vec<Line>> {
        let mut lines = logs.of_function(function, self.since).await?;
        lines.retain(|line| !self.seen.contains(&line.log_stream_name));
        // Streams are whole when they appear: one invocation, written at its end.
        for line in &lines {
            self.seen.insert(line.log_stream_name.clone());
            self.since = self.since.max(line.timestamp);
        }
        Ok(lines)
    }
}
