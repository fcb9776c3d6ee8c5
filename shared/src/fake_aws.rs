//! An HTTP server that answers for DynamoDB, SQS and Lambda's runtime API as a
//! test says.
//!
//! The AWS SDK talks to it through a real connection, so that its retries, its
//! timeouts and its reading of errors are part of the test.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_types::SdkConfig;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::aws::{Access, CallLimits, configure};

/// A request that the server got.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Method, path and version.
    pub line: String,
    /// Such as `PutItem` or `SendMessage`; nothing in the runtime API.
    pub operation: String,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The request's JSON.
    pub body: Value,
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers 200 with this JSON.
    Ok(Value),
    /// Answers with this status and AWS error code.
    Error(u16, &'static str),
    /// Answers with this status and JSON.
    Json(u16, Value),
    /// Answers 200 with this JSON, after a time.
    After(Duration, Value),
    /// Answers so, with one more header.
    WithHeader(&'static str, String, Box<Self>),
    /// Closes the connection without an answer.
    Reset,
    /// Keeps the connection, and never answers.
    Never,
}

impl Reply {
    /// The reply with one more header.
    #[must_use]
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        Self::WithHeader(name, value.into(), Box::new(self))
    }

    /// The runtime API's answer that hands out an event, a long time before its
    /// deadline.
    #[must_use]
    pub fn invocation(request_id: impl Into<String>, event: Value) -> Self {
        Self::Ok(event)
            .with("lambda-runtime-aws-request-id", request_id)
            .with("lambda-runtime-deadline-ms", "9999999999999")
            .with("lambda-runtime-invoked-function-arn", "function-arn")
    }
}

/// The server. It ends with the test's runtime.
#[derive(Debug)]
pub struct FakeAws {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl FakeAws {
    /// Starts a server that answers what `reply` says.
    ///
    /// # Errors
    ///
    /// No port of the loopback interface can be had.
    pub async fn start(
        reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (reply, log) = (Arc::new(reply), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (reply, log) = (Arc::clone(&reply), Arc::clone(&log));
                // A client that goes away is none of the server's business.
                tokio::spawn(async move { serve(stream, &*reply, &log).await });
            }
        });
        Ok(Self { address, requests })
    }

    /// The clients' configuration, as the functions have it, but for this
    /// endpoint.
    #[must_use]
    pub fn sdk_config(&self, limits: CallLimits) -> SdkConfig {
        configure(Access::for_tests(&self.address), limits)
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All requests so far.
    #[must_use]
    pub fn received(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was posted to a path first; it is waited for until a test has to
    /// give up.
    pub async fn posted(&self, path: &str) -> Option<Request> {
        let line = format!("POST {path} ");
        for _ in 0..200 {
            let mut received = self.received().into_iter();
            if let Some(request) = received.find(|request| request.line.starts_with(&line)) {
                return Some(request);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        None
    }

    /// The variables by which a function's program takes the server for Lambda,
    /// AWS, and a collector of spans.
    #[must_use]
    pub fn variables(&self, function: &str) -> Vec<(&'static str, String)> {
        let endpoint = format!("http://{}", self.address);
        [
            ("AWS_ENDPOINT_URL", &*endpoint),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_LAMBDA_RUNTIME_API", &self.address),
            ("AWS_LAMBDA_FUNCTION_NAME", function),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec()
    }

    /// The requests of one operation so far.
    #[must_use]
    pub fn requests(&self, operation: &str) -> Vec<Request> {
        self.received().into_iter().filter(|request| request.operation == operation).collect()
    }
}

/// Answers one connection's requests, until it is closed.
async fn serve(
    stream: TcpStream,
    reply: &(impl Fn(&Request) -> Reply + Sync),
    log: &Mutex<Vec<Request>>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let Some(answer) = write(reply(&request)).await else { break };
        stream.get_mut().write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

/// The text of an answer; `None` where the connection is to be closed.
async fn write(mut reply: Reply) -> Option<String> {
    let mut headers = String::new();
    let (status, body) = loop {
        match reply {
            Reply::WithHeader(name, value, rest) => {
                headers = format!("{headers}{name}: {value}\r\n");
                reply = *rest;
            }
            Reply::Ok(body) => break (200, body),
            Reply::Json(status, body) => break (status, body),
            Reply::Error(status, code) => {
                let message = format!("arn:aws:sqs:eu-west-1:123456789012:jobs {code}");
                break (status, serde_json::json!({ "__type": code, "message": message }));
            }
            Reply::After(wait, body) => {
                tokio::time::sleep(wait).await;
                break (200, body);
            }
            Reply::Reset => return None,
            Reply::Never => pending().await,
        }
    };
    let body = body.to_string();
    let length = body.len();
    Some(format!(
        "HTTP/1.1 {status} \r\ncontent-type: application/x-amz-json-1.0\r\n\
         x-amzn-requestid: fake-request-id\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    ))
}

/// Reads a request; `None` at the end of the connection.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut first = String::new();
    if stream.read_line(&mut first).await? == 0 {
        return Ok(None);
    }
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let header = |name| headers.get(name).map(String::as_str).unwrap_or_default();
    let operation = header("x-amz-target").rsplit('.').next().unwrap_or_default().to_owned();
    let mut body = vec![0; header("content-length").parse().unwrap_or_default()];
    stream.read_exact(&mut body).await?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(Request { line: first.trim_end().to_owned(), operation, headers, body }))
}
