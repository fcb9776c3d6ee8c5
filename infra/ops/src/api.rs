//! The HTTP API as a client sees it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use aws_sdk_sqs::config::Credentials;
use http::{Method, Request};
use serde_json::Value;

use crate::connection::Connection;
use crate::outputs::Outputs;
use crate::sign::sign_request;
use crate::stack::eventually;

/// API Gateway lets no answer take longer than 30 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(35);

/// More than a connection across the world takes.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How a client says who it is.
#[derive(Clone, Debug)]
pub enum Caller {
    /// It does not.
    Anyone,
    /// With a JWT.
    Token(String),
    /// With a signature made of these.
    Signature(Credentials),
}

/// A client of one deployed API.
#[derive(Clone, Debug)]
pub struct Api {
    base: String,
    region: String,
    caller: Caller,
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
    /// The body as it came, digit for digit.
    pub raw: String,
    /// When it makes sense to ask again.
    pub retry_after: Option<Duration>,
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
    /// The API of a stack.
    ///
    /// # Errors
    ///
    /// No region is known, or the machine's certificates cannot be read.
    pub fn of_stack(connection: &Connection, outputs: &Outputs) -> Result<Self> {
        let base = match connection.endpoint() {
            // The address AWS would use needs a DNS server; the emulator takes the
            // API's id as part of the path as well.
            Some(endpoint) => {
                format!("{endpoint}/_aws/execute-api/{}{}", outputs.api_id, outputs.stage())
            }
            None => outputs.api_url.clone(),
        };
        Ok(Self {
            base,
            region: connection.region()?.to_owned(),
            caller: Caller::Anyone,
            client: reqwest::Client::builder()
                .connect_timeout(CONNECT_WITHIN)
                .timeout(ANSWER_WITHIN)
                .build()
                .context("could not set up an HTTP client")?,
        })
    }

    /// The same API, called by somebody.
    #[must_use]
    pub fn called_by(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
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
        let mut request = self.post("/jobs");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.send(request, body.into()).await
    }

    /// `POST /jobs/batch` with this body, whatever it is.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn post_batch(&self, body: impl Into<String>) -> Result<Answer> {
        self.send(self.post("/jobs/batch"), body.into()).await
    }

    /// `DELETE /jobs/{id}`.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn cancel(&self, id: &str) -> Result<Answer> {
        self.send(self.request(Method::DELETE, &format!("/jobs/{id}")), String::new()).await
    }

    /// `GET` of a path such as `/health`.
    ///
    /// # Errors
    ///
    /// There was no answer. An answer that refuses is an answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(self.request(Method::GET, path), String::new()).await
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

    fn post(&self, path: &str) -> http::request::Builder {
        self.request(Method::POST, path).header("content-type", "application/json")
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(format!("{}{path}", self.base))
    }

    async fn send(&self, request: http::request::Builder, body: String) -> Result<Answer> {
        const WHAT: &str = "could not make the request";
        let request = match &self.caller {
            Caller::Token(token) => request.header("authorization", format!("Bearer {token}")),
            Caller::Anyone | Caller::Signature(_) => request,
        };
        let mut request = request.body(body).context(WHAT)?;
        if let Caller::Signature(credentials) = &self.caller {
            sign_request(&mut request, credentials.clone(), &self.region, "execute-api")?;
        }
        let request = reqwest::Request::try_from(request).context(WHAT)?;
        let start = Instant::now();
        let response = self.client.execute(request).await.context("the API did not answer")?;
        read(response, start).await
    }
}

async fn read(response: reqwest::Response, start: Instant) -> Result<Answer> {
    let status = response.status().as_u16();
    let content_type = response.headers().get("content-type");
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().to_owned();
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let raw = response.text().await.context("the API's answer broke off")?;
    let took = start.elapsed();
    let body = if raw.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&raw)
            .with_context(|| format!("the API answered {status} with something else than JSON"))?
    };
    let retry_after = retry_after.map(Duration::from_secs);
    Ok(Answer { status, content_type, body, raw, retry_after, took })
}
