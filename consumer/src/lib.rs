//! Takes SQS batches, claims each job, runs it, and reports what failed.
//!
//! [`Consumer::handle`] splits a batch into pieces of work (`batch`). Each job is
//! claimed (`claim`), run by its handler (`run_handler`, `jobs`) and settled
//! (`settle`): that is an `attempt`. A job that is not even claimed ends in
//! `unclaimed`. The [`Outcome`] decides what becomes of the record in SQS
//! (`finish`), and is counted (`measure`).
//!
//! | outcome | SQS | entry |
//! |---|---|---|
//! | completed | acknowledged | `succeeded` |
//! | duplicate, cancelled | acknowledged | unchanged |
//! | released | returned, visible at `not_before` | `queued` |
//! | exhausted | returned, visible now: SQS moves it to the DLQ | `failed` |
//! | permanent | DLQ, then acknowledged | `failed` |
//! | interrupted | DLQ, then acknowledged | `held` |
//! | conflict, failed-before, undecodable | DLQ, then acknowledged | unchanged |
//! | not-understood | returned, long backoff | unchanged |
//! | not-understood at the last receive | DLQ, then acknowledged | `failed` |
//! | in-progress | returned, visible after the lease | unchanged |
//! | too-early | returned, visible at `not_before` | unchanged |
//! | not-stored | returned, visible after the lease | `running` |
//! | still-alive | the process ends itself; visible after the lease | `running` |
//! | table-unreachable, entry-unreadable | returned, long backoff | unchanged |
//! | lease-lost, unsteady, not-started, unreadable-record | returned, backoff | unchanged |
//! | not-started at the last receive | returned, visible now: SQS moves it to the DLQ | `failed` |

mod attempt;
mod finish;
mod job_facts;
mod measure;
mod run_handler;
mod settle;
mod text;
mod unclaimed;

pub mod backoff;
pub mod batch;
pub mod claim;
pub mod config;
pub mod deadline;
pub mod event;
pub mod handler;
pub mod jobs;
pub mod outcome;
pub mod queue;
pub mod tasks;

use std::fmt;

use aws_lambda_events::event::sqs::SqsBatchResponse;
#[cfg(feature = "opentelemetry")]
use lambda_runtime::layers::OpenTelemetryLayer;
use lambda_runtime::{Diagnostic, Error, LambdaEvent, Runtime, service_fn};
use serde_json::value::RawValue;
use shared::metrics::Metrics;
use shared::telemetry::{causes, invocation};
use shared::{Clock, Ids, JobTable, Random, Timestamp, connection_lost};
use tracing::Instrument;

use crate::batch::BatchError;
use crate::config::Settings;
pub use crate::deadline::Deadline;
use crate::jobs::Handlers;
pub use crate::outcome::Outcome;
use crate::queue::RetryQueue;

/// Everything that a batch is handled with.
#[derive(Debug)]
pub struct Consumer<T, Q> {
    /// Where jobs are claimed and settled.
    pub table: T,
    /// Where records are given back to.
    pub queue: Q,
    /// The numbers that decide how records are treated.
    pub settings: Settings,
    /// What runs the jobs.
    pub handlers: Handlers,
    /// Tells the time.
    pub clock: Clock,
    /// Makes lease tokens.
    pub ids: Ids,
    /// Spreads out retries.
    pub random: Random,
    /// Takes what each batch measured.
    pub metrics: Metrics,
}

/// The exit code of a process that ends itself because work was still alive:
/// `EX_TEMPFAIL` of sysexits.h, try again later.
const STILL_ALIVE_EXIT_CODE: i32 = 75;

/// Takes batches from Lambda, one after the other, until the process ends.
///
/// # Errors
///
/// The Lambda Runtime API cannot be reached.
pub async fn run<T, Q>(consumer: Consumer<T, Q>) -> Result<(), Error>
where
    T: JobTable,
    Q: RetryQueue,
{
    let consumer = &consumer;
    let runtime = Runtime::new(service_fn(|event: LambdaEvent<Box<RawValue>>| {
        let is_cold_start = consumer.metrics.is_cold_start();
        let span = invocation(&event.context.request_id, is_cold_start);
        invoke(consumer, event).instrument(span)
    }));
    #[cfg(feature = "opentelemetry")]
    let runtime = runtime.layer(OpenTelemetryLayer::new(shared::telemetry::traces::flush));
    runtime.run().await.map_err(|error| connection_lost(&*error))
}

async fn invoke<T: JobTable, Q: RetryQueue>(
    consumer: &Consumer<T, Q>,
    event: LambdaEvent<Box<RawValue>>,
) -> Result<SqsBatchResponse, Failed> {
    let named = Timestamp::from_millis(event.context.deadline);
    let timeout = consumer.settings.function_timeout;
    let deadline = Deadline::new(&consumer.clock, named, timeout);
    consumer.handle(&event.payload, &deadline).await.map_err(|error| {
        let error_text = causes(&error);
        tracing::error!(error = error_text, "batch failed; all of its records come back");
        if error == BatchError::StillAlive {
            std::process::exit(STILL_ALIVE_EXIT_CODE);
        }
        Failed { error_type: error.as_str(), error_message: error_text }
    })
}

/// An invocation that is an error.
struct Failed {
    error_type: &'static str,
    error_message: String,
}

/// What the runtime logs of it, in a line of its own; ours has said the rest.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the invocation is an error: {}", self.error_type)
    }
}

impl From<Failed> for Diagnostic {
    fn from(failed: Failed) -> Self {
        let Failed { error_type, error_message } = failed;
        Self { error_type: error_type.to_owned(), error_message }
    }
}
