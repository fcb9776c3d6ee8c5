//! Lambda's runtime API, DynamoDB and SQS in one server, which says yes to
//! everything after a set time.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

/// How long services take to answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub(super) dynamodb: Duration,
    pub(super) sqs: Duration,
}

/// The server; it stops when this is dropped.
#[derive(Debug)]
pub(super) struct StandIn {
    /// Host and port.
    pub(super) address: String,
    events: Sender<String>,
    answers: Receiver<Value>,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    delays: Delays,
    events: tokio::sync::Mutex<Receiver<String>>,
    answers: Sender<Value>,
    calls: Mutex<BTreeMap<String, u64>>,
}

/// An event that was answered.
#[derive(Debug)]
pub(super) struct Invoked {
    pub(super) answer: Value,
    pub(super) took: Duration,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl StandIn {
    pub(super) async fn start(delays: Delays) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.context("found no free port")?;
        let address = listener.local_addr().context("could not read the port")?.to_string();
        let (events, waiting) = mpsc::channel(1);
        let (answering, answers) = mpsc::channel(1);
        let shared = Arc::new(Shared {
            delays,
            events: tokio::sync::Mutex::new(waiting),
            answers: answering,
            calls: Mutex::default(),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&shared)));
        Ok(Self { address, events, answers, shared, listening })
    }

    /// Hands an event to the function and waits for its answer.
    pub(super) async fn invoke(&mut self, event: String) -> Result<Invoked> {
        let started = Instant::now();
        self.events.send(event).await.context("nobody takes events")?;
        let answer = self.answers.recv().await.context("nobody answers events")?;
        Ok(Invoked { answer, took: started.elapsed() })
    }

    /// Calls to DynamoDB and SQS so far, by operation.
    pub(super) fn calls(&self) -> BTreeMap<String, u64> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    // Answers go out at once, as those of AWS.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(&shared, request));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    shared: &Shared,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    if let Some(target) = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok())
    {
        return Ok(shared.aws(target, &body).await);
    }
    if parts.uri.path().ends_with("/invocation/next") {
        return Ok(shared.next().await);
    }
    // The answer to an event, or the error that is one.
    let answer = serde_json::from_slice(&body).unwrap_or_default();
    let _ = shared.answers.send(answer).await;
    let mut taken = Response::new(Full::default());
    *taken.status_mut() = StatusCode::ACCEPTED;
    Ok(taken)
}

impl Shared {
    async fn next(&self) -> Response<Full<Bytes>> {
        let event = self.events.lock().await.recv().await.unwrap_or_default();
        let mut response = Response::new(Full::new(Bytes::from(event)));
        for (name, value) in [
            ("lambda-runtime-aws-request-id", "bench"),
            // The consumer then counts with its own time-out.
            ("lambda-runtime-deadline-ms", "0"),
            ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:bench"),
        ] {
            response.headers_mut().insert(name, http::HeaderValue::from_static(value));
        }
        response
    }

    fn count(&self, operation: &str) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry(operation.to_owned()).or_default() += 1;
    }

    async fn aws(&self, target: &str, body: &[u8]) -> Response<Full<Bytes>> {
        let (service, operation) = target.split_once('.').unwrap_or_default();
        self.count(operation);
        let delays = self.delays;
        let delay = if service == "AmazonSQS" { delays.sqs } else { delays.dynamodb };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let answer = yes(operation, body).to_string();
        Response::new(Full::new(Bytes::from(answer)))
    }
}

/// Success, as the service says it.
fn yes(operation: &str, body: &[u8]) -> Value {
    let each = |list: &str, answer: &dyn Fn(&Value) -> Value| {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let all = request.get(list).and_then(Value::as_array).map(Vec::as_slice);
        all.unwrap_or_default().iter().map(answer).collect::<Value>()
    };
    match operation {
        "SendMessage" => json!({ "MessageId": "bench" }),
        "SendMessageBatch" => {
            let sent = |entry: &Value| json!({ "Id": entry.get("Id"), "MessageId": "bench", "MD5OfMessageBody": "" });
            json!({ "Successful": each("Entries", &sent), "Failed": [] })
        }
        "BatchExecuteStatement" => json!({ "Responses": each("Statements", &|_| json!({})) }),
        _ => json!({}),
    }
}
