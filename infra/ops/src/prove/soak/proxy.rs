//! Stands between the functions and AWS, and does to their calls what networks
//! and services do.
//!
//! It also notes the messages that pass, so that a dead letter can be held
//! against what was sent, byte for byte.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::fault::Fault;

/// The longest that a call is held up, in milliseconds. A function's own limit
/// for an attempt lies within, so some of them count as lost.
const LONGEST_DELAY_MS: u64 = 1_500;

/// The longest that a record stays hidden, in seconds. A consumer that could
/// not claim it asks for up to an hour; SQS may show it sooner, and a soak that
/// waited for each of them would say no more.
const LONGEST_HIDDEN: u64 = 60;

/// A proxy that listens; it stops when dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: String,
    client: reqwest::Client,
    dice: Mutex<fastrand::Rng>,
    is_calm: AtomicBool,
    calls: AtomicU64,
    faults: Mutex<BTreeMap<Fault, u64>>,
    sent: Mutex<Sent>,
}

/// The bodies that were sent: by the queue's URL, then by the job's id.
pub(super) type Sent = HashMap<String, HashMap<String, HashSet<String>>>;

/// The connection ends without an answer.
#[derive(Debug)]
struct Dropped;

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("dropped on purpose")
    }
}

impl std::error::Error for Dropped {}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Proxy {
    /// Listens on a free port and passes calls on to `upstream`.
    pub(super) async fn start(upstream: String, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.context("the proxy found no free port")?;
        let port = listener.local_addr().context("could not read the proxy's port")?.port();
        let shared = Arc::new(Shared {
            upstream,
            client: reqwest::Client::new(),
            dice: Mutex::new(fastrand::Rng::with_seed(seed)),
            is_calm: AtomicBool::new(true),
            calls: AtomicU64::default(),
            faults: Mutex::default(),
            sent: Mutex::default(),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, listening })
    }

    /// Where the functions find AWS.
    pub(super) fn endpoint(&self) -> String {
        crate::emulator::endpoint(self.port)
    }

    /// Whether calls pass unharmed.
    pub(super) fn be_calm(&self, is_calm: bool) {
        self.shared.is_calm.store(is_calm, Ordering::Relaxed);
    }

    /// Calls that came in.
    pub(super) fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// How often each fault was injected.
    pub(super) fn faults(&self) -> BTreeMap<Fault, u64> {
        lock(&self.shared.faults).clone()
    }

    /// The messages that passed.
    pub(super) fn sent(&self) -> Sent {
        lock(&self.shared.sent).clone()
    }
}

/// Nothing that is done under these locks can leave them half changed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| answer(&shared, request));
    // It fails where the connection was dropped, which is what was asked for.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    shared: &Shared,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Dropped> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
    let body = shown_sooner(&parts.headers, body);
    shared.note(&parts.headers, &body);
    let (fault, delay) = shared.throw();
    if let Some(fault) = fault {
        *lock(&shared.faults).entry(fault).or_default() += 1;
    }
    match fault {
        None => shared.pass_on(&parts, &body).await,
        Some(Fault::Delayed) => {
            tokio::time::sleep(delay).await;
            shared.pass_on(&parts, &body).await
        }
        Some(Fault::LostCall) => Err(Dropped),
        Some(Fault::LostAnswer) => {
            shared.pass_on(&parts, &body).await?;
            Err(Dropped)
        }
        Some(Fault::CalledTwice) => {
            shared.pass_on(&parts, &body).await?;
            shared.pass_on(&parts, &body).await
        }
        Some(Fault::FailedAfterEffect) => {
            shared.pass_on(&parts, &body).await?;
            Ok(error(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError"))
        }
        Some(Fault::Failed) => Ok(error(StatusCode::INTERNAL_SERVER_ERROR, "InternalFailure")),
        Some(Fault::Unavailable) => {
            Ok(error(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"))
        }
        Some(Fault::Throttled) => Ok(error(StatusCode::BAD_REQUEST, "ThrottlingException")),
    }
}

/// An error as DynamoDB and SQS say it.
fn error(status: StatusCode, code: &str) -> Response<Full<Bytes>> {
    let body = serde_json::json!({ "__type": code, "message": "injected" }).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
}

impl Shared {
    fn throw(&self) -> (Option<Fault>, Duration) {
        let mut dice = lock(&self.dice);
        self.calls.fetch_add(1, Ordering::Relaxed);
        let delay = Duration::from_millis(dice.u64(50..=LONGEST_DELAY_MS));
        let fault = Fault::of(dice.u32(..Fault::OUT_OF));
        (fault.filter(|_| !self.is_calm.load(Ordering::Relaxed)), delay)
    }

    async fn pass_on(&self, parts: &Parts, body: &Bytes) -> Result<Response<Full<Bytes>>, Dropped> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let answer = self
            .client
            .request(parts.method.clone(), format!("{}{path}", self.upstream))
            .headers(of_the_message(&parts.headers))
            .body(body.clone())
            .send()
            .await
            .map_err(|_| Dropped)?;
        let (status, headers) = (answer.status(), of_the_message(answer.headers()));
        let mut response = Response::new(Full::new(answer.bytes().await.map_err(|_| Dropped)?));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        Ok(response)
    }

    /// Notes the messages of `SendMessage` and `SendMessageBatch`.
    fn note(&self, headers: &HeaderMap, body: &[u8]) {
        if !target(headers).starts_with("AmazonSQS.SendMessage") {
            return;
        }
        let call: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let Some(queue) = text(&call, "QueueUrl") else { return };
        let entries = call.get("Entries").and_then(Value::as_array);
        let mut sent = lock(&self.sent);
        for message in entries.into_iter().flatten().chain([&call]) {
            let Some(body) = text(message, "MessageBody") else { continue };
            let by_id = sent.entry(queue.clone()).or_default();
            by_id.entry(job_id(&body)).or_default().insert(body);
        }
    }
}

/// The service and operation of a call.
fn target(headers: &HeaderMap) -> &str {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    target.unwrap_or_default()
}

/// The call, if it is `ChangeMessageVisibility`, for [`LONGEST_HIDDEN`] at most.
fn shown_sooner(headers: &HeaderMap, body: Bytes) -> Bytes {
    const FIELD: &str = "VisibilityTimeout";
    let mut call: Value = match target(headers) {
        "AmazonSQS.ChangeMessageVisibility" => serde_json::from_slice(&body).unwrap_or_default(),
        _ => return body,
    };
    let asked = call.get(FIELD).and_then(Value::as_u64).unwrap_or_default();
    match call.as_object_mut() {
        Some(fields) if asked > LONGEST_HIDDEN => {
            fields.insert(FIELD.to_owned(), LONGEST_HIDDEN.into());
            Bytes::from(call.to_string())
        }
        _ => body,
    }
}

/// The id in a message's body; empty if it has none.
pub(super) fn job_id(body: &str) -> String {
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    message.get("id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Without the headers that belong to one connection.
fn of_the_message(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in ["connection", "content-length", "keep-alive", "transfer-encoding"] {
        headers.remove(name);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_hidden_for_a_minute_at_most() {
        let check = |operation: &'static str, body: &'static str, expected: &str| {
            let headers = [(http::HeaderName::from_static("x-amz-target"), operation)];
            let headers =
                headers.map(|(name, value)| (name, http::HeaderValue::from_static(value)));
            let body =
                shown_sooner(&headers.into_iter().collect(), Bytes::from_static(body.as_bytes()));
            assert_eq!(body, expected.as_bytes());
        };
        let change = "AmazonSQS.ChangeMessageVisibility";
        check(change, r#"{"VisibilityTimeout":3600}"#, r#"{"VisibilityTimeout":60}"#);
        check(change, r#"{"VisibilityTimeout": 7}"#, r#"{"VisibilityTimeout": 7}"#);
        let other = "AmazonSQS.ReceiveMessage";
        check(other, r#"{"VisibilityTimeout":3600}"#, r#"{"VisibilityTimeout":3600}"#);
    }
}
