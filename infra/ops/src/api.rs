//! The HTTP API as a client sees it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::stack::eventually;

/// A client of one deployed API.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    client: reqwest::Client,
}

/// What the API answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The media type, without parameters.
    pub content_type: String,
    /// The body; `null` if there was none.
    pub body: Value,
    /// From sending the request to having the whole answer.
    pub took: Duration,
}

impl Answer {
    /// A field of the body that is text; empty if it is not there.
    #[must_use]
    pub fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The job's id.
    ///
    /// # Errors
    ///
    /// The answer is not one that has an id.
    pub fn id(&self) -> Result<&str> {
        match self.text("/id") {
            "" => bail!("expected a job, got {} {}", self.status, self.body),
            id => Ok(id),
        }
    }
}

impl Api {
    /// The API with this id in the emulator at `endpoint`.
    #[must_use]
    pub fn of_stack(endpoint: &str, api_id: &str) -> Self {
        // The address AWS would use needs a DNS server; the emulator takes the
        // API's id as part of the path as well.
        Self {
            base: format!("{endpoint}/_aws/execute-api/{api_id}"),
            client: reqwest::Client::new(),
        }
    }

    /// The address that routes are appended to.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// `POST /jobs` with this body, whatever it is.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn post_job(&self, body: impl Into<String>, key: Option<&str>) -> Result<Answer> {
        let mut request = self.post("/jobs", body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        send(request).await
    }

    /// `POST /jobs/batch` with this body, whatever it is.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn post_batch(&self, body: impl Into<String>) -> Result<Answer> {
        send(self.post("/jobs/batch", body)).await
    }

    fn post(&self, path: &str, body: impl Into<String>) -> reqwest::RequestBuilder {
        self.client
            .post(format!("{}{path}", self.base))
            .header("content-type", "application/json")
            .body(body.into())
    }

    /// `DELETE /jobs/{id}`.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn cancel(&self, id: &str) -> Result<Answer> {
        send(self.client.delete(format!("{}/jobs/{id}", self.base))).await
    }

    /// `GET` of a path such as `/health`.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        send(self.client.get(format!("{}{path}", self.base))).await
    }

    /// `GET /jobs/{id}`.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn job(&self, id: &str) -> Result<Answer> {
        self.get(&format!("/jobs/{id}")).await
    }

    /// Asks for a job until it has ended, however it did.
    ///
    /// # Errors
    ///
    /// It had not within `patience`, or there was no answer.
    pub async fn wait_for_job(&self, id: &str, patience: Duration) -> Result<Answer> {
        eventually(patience, &format!("job {id} has ended"), async || {
            let answer = self.job(id).await?;
            let ended = ["succeeded", "failed", "cancelled"].contains(&answer.text("/state"));
            Ok(ended.then_some(answer))
        })
        .await
    }
}

async fn send(request: reqwest::RequestBuilder) -> Result<Answer> {
    let start = Instant::now();
    let response = request.send().await.context("the API did not answer")?;
    let status = response.status().as_u16();
    let content_type = response.headers().get("content-type");
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().to_owned();
    let bytes = response.bytes().await.context("the API's answer broke off")?;
    let took = start.elapsed();
    let body = if bytes.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&bytes)
            .with_context(|| format!("the API answered {status} with something else than JSON"))?
    };
    Ok(Answer { status, content_type, body, took })
}
