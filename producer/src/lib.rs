//! Answers the HTTP API: validates a job, puts it on the queue, says 202.
//!
//! | request | answer |
//! |---|---|
//! | `POST /jobs` `{kind, payload, delay_seconds?, group?}`, header `Idempotency-Key` optional | 202 `{id, kind, state, links.self}`, `Location`, `Retry-After` |
//! | `POST /jobs/batch` `{jobs: [...]}`, 1 to 500 jobs, each with an optional `idempotency_key` | 202, or 207 where not all were accepted: `{jobs: [{status, job or problem}]}` |
//! | `GET /jobs/{id}` | 200 the job as its client may see it; `Retry-After` while it is unfinished |
//! | `DELETE /jobs/{id}` | 200 the cancelled job, also when it was cancelled before |
//! | `GET /openapi.json` | 200 this table for machines, OpenAPI 3.1 |
//! | `GET /health` | 200 |
//!
//! Other paths are 404, other methods 405. A slash at the end of a path is
//! ignored. HEAD is answered like GET, without a body. CORS is the gateway's.
//!
//! # Problems
//!
//! Every other answer is `application/problem+json` (RFC 9457). Its `type` is
//! `urn:problem-type:relevo:` and one of these names, which never change:
//!
//! | name | status | meaning |
//! |---|---|---|
//! | `malformed` | 400 | not UTF-8, not JSON, no object, or a key twice in one object |
//! | `body-missing` | 400 | an empty or blank body |
//! | `invalid-idempotency-key` | 400 | the header is there, but is not one sound key |
//! | `caller-unknown` | 403 | the authorizer let somebody in without naming them |
//! | `not-the-owner` | 403 | only the caller who asked first may cancel this job |
//! | `not-found` | 404 | no such path |
//! | `job-not-found` | 404 | no such job, an expired one, or another caller's |
//! | `method-not-allowed` | 405 | `Allow` has the methods |
//! | `not-cancellable` | 409 | the job runs or has ended; `state` says which |
//! | `too-large` | 413 | the job does not fit a message |
//! | `unsupported-media-type` | 415 | the body is said to be something else than JSON |
//! | `invalid-job` | 422 | `errors` has `{pointer, detail}` of the first 100 fields, `error_count` counts all |
//! | `idempotency-key-reused` | 422 | the key already names a job of another kind or payload |
//! | `internal` | 500 | only the operators can mend it |
//! | `unavailable` | 503 | SQS or DynamoDB cannot be reached; `Retry-After` |
//!
//! # Batches
//!
//! Each job of a batch is answered for in its place, as if it had come alone:
//! `status` is 202 and `job` what `POST /jobs` answers, or `problem` says what
//! is wrong; its pointers lead into the request. A job with a key or an intent
//! can be sent again until its status is 202, alone or in a batch; two of one
//! name and content are one job, of which the first's `delay_seconds` and
//! `group` count. Large batches show fewer `errors` of each job (1,000 in
//! all). Where every job failed through no fault of its own, the answer is one
//! problem (503 or 500). A body that cannot be read is refused as a whole, and
//! so is the header `Idempotency-Key` (400): one key cannot name many jobs.
//!
//! # Cancelling
//!
//! A job can be cancelled while `GET` shows it as `queued`: before its first
//! attempt, between two, and after one whose invocation died (unless it was the
//! last: that job has failed). It will not be run again; what an attempt did
//! before is not undone. Its key or intent goes on naming it: to ask again is
//! answered with the cancelled job. A job that a whole deployment shares
//! ([`shared::job::Scope::Deployment`]) can be cancelled only by the caller
//! who asked first; others, who may see it, get 403.
//!
//! # Idempotency
//!
//! A request with an `Idempotency-Key` can be repeated until it is answered:
//! all answers name one job, which is done once. The key is the caller's own;
//! it names the job as long as the job's entry lives (`ENTRY_TTL_DAYS`). For
//! kinds that declare an intent, the intent is the name, and a key adds
//! nothing. Without either, each request is another job.

mod accept;
mod accept_all;
mod answer;
mod caller;
mod cancel_job;
mod config;
mod create_job;
mod create_jobs;
mod describe;
mod event;
mod get_job;
mod health;
mod idempotency_key;
mod json;
mod new_job;
#[cfg(feature = "openapi")]
pub mod openapi;
mod permission;
mod problem;
mod queue;
mod refusal;
mod request;
mod route;
mod stage;
mod submission;
mod tally;
mod trace;
mod view;

use std::time::Duration;

use lambda_http::http::Method;
#[cfg(feature = "opentelemetry")]
use lambda_http::lambda_runtime::layers::OpenTelemetryLayer;
use lambda_http::{LambdaEvent, lambda_runtime, service_fn};
use serde_json::value::RawValue;
use shared::jobs::Rules;
use shared::metrics::Metrics;
use shared::telemetry::traces::{continue_trace, trace_header};
use shared::telemetry::{invocation, trace_id};
use shared::{Clock, Ids, JobTable, connection_lost};
use tracing::Instrument;

use crate::answer::Answer;
pub use crate::config::{CALL_LIMITS, Config, DEAD_LETTER_RESERVE};
pub use crate::event::{EventAnswer, Gateway, NotHttp};
pub use crate::queue::{JobQueue, MAX_TOGETHER, Outgoing, SendError, SqsJobQueue, group_id};
use crate::refusal::{Cause, Refusal};
use crate::request::Request;
use crate::tally::Tally;
pub use crate::trace::TraceHeader;

/// The time in which a request is answered, whatever happens: one second less
/// than the function's timeout in `infra/template.yaml`, so that the answer is
/// ours and not the gateway's.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(9);

/// Everything that the routes use.
#[derive(Debug)]
pub struct Producer<T, Q> {
    /// Where job entries are.
    pub table: T,
    /// Where messages go.
    pub queue: Q,
    /// Tells the time.
    pub clock: Clock,
    /// Names jobs that nothing else names.
    pub ids: Ids,
    /// Bytes that a message may have, attributes included.
    pub message_limit: usize,
    /// What payloads may ask for.
    pub rules: Rules,
    /// How long an entry lives.
    pub entry_ttl: Duration,
    /// Takes what each invocation measured.
    pub metrics: Metrics,
}

impl<T: JobTable, Q: JobQueue> Producer<T, Q> {
    /// Answers one event.
    ///
    /// `trace` is the invocation's own trace header.
    ///
    /// # Errors
    ///
    /// [`NotHttp`] if there is no HTTP request to answer; the next event is
    /// not affected.
    pub async fn handle(
        &self,
        event: &RawValue,
        trace: Option<&str>,
    ) -> Result<EventAnswer, NotHttp> {
        let (gateway, mut request) =
            event::read(event, trace).inspect_err(|_| self.measure(Tally::default()))?;
        let is_head = request.as_ref().is_ok_and(|request| request.method == Method::HEAD);
        let trace = request.as_ref().ok().and_then(|request| request.trace.as_ref());
        let trace = trace.map(TraceHeader::as_str);
        // An error, so that every event has it, whatever the level.
        let span = tracing::error_span!("request", trace.id = trace.and_then(trace_id));
        continue_trace(&span, trace);
        if let (Ok(request), Some(header)) = (&mut request, span.in_scope(trace_header)) {
            request.trace = TraceHeader::parse(&header);
        }
        let answer = self.answer_or_refuse(request).instrument(span).await;
        self.measure(answer.tally);
        let answer = if is_head { answer.without_body() } else { answer };
        Ok(EventAnswer::new(gateway, answer))
    }

    /// The one place where jobs are counted, at the end of each invocation.
    fn measure(&self, tally: Tally) {
        self.metrics.write(tally.measure(), self.clock.now());
    }

    async fn answer_or_refuse(&self, request: Result<Request, Refusal>) -> Answer {
        let answer = match request {
            Ok(request) => self.answer(&request).await,
            Err(refusal) => Err(refusal),
        };
        answer.unwrap_or_else(|refusal| {
            refusal.log();
            let tally = Tally { rejected: refusal.problem.jobs, ..Tally::default() };
            refusal.problem.to_answer().with_tally(tally)
        })
    }

    async fn answer(&self, request: &Request) -> Result<Answer, Refusal> {
        // Boxed: the compiler gives up on futures as deep as the SDK's.
        let answer = Box::pin(route::answer(self, request));
        tokio::time::timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(|_| {
            let cause = format!("no answer within {ANSWER_WITHIN:?}");
            Err(Refusal::unavailable(Cause::Other(cause)))
        })
    }
}

/// Answers events for as long as Lambda sends any.
///
/// # Errors
///
/// The connection to Lambda is lost; the process has to end.
pub async fn run<T: JobTable, Q: JobQueue>(
    producer: Producer<T, Q>,
) -> Result<(), lambda_runtime::Error> {
    let producer = &producer;
    let runtime = lambda_runtime::Runtime::new(service_fn(|event: LambdaEvent<Box<RawValue>>| {
        let is_cold_start = producer.metrics.is_cold_start();
        let span = invocation(&event.context.request_id, is_cold_start);
        async move { producer.handle(&event.payload, event.context.xray_trace_id.as_deref()).await }
            .instrument(span)
    }));
    #[cfg(feature = "opentelemetry")]
    let runtime = runtime.layer(OpenTelemetryLayer::new(shared::telemetry::traces::flush));
    runtime.run().await.map_err(|error| connection_lost(&*error))
}
