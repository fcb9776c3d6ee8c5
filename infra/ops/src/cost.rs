//! `cargo ops cost`: what a job costs, and how many there can be.
//!
//! Counts what one job needs of each service, and multiplies with
//! [`crate::prices`]. Free tiers, volume discounts, data transfer, kept logs and
//! traces are left out.

mod month;
mod report;

use serde::Serialize;

pub use self::month::{Month, month};
pub use self::report::{Line, Report, print};
use crate::prices::Region;

/// What a message has besides its payload, attributes included.
const ENVELOPE_KIB: f64 = 0.5;
/// A job entry without its result.
const ENTRY_KIB: f64 = 0.5;
/// SQS counts a request for each of these.
const SQS_CHUNK_KIB: f64 = 64.0;
/// The most that one call to SQS sends or receives.
const SQS_CALL_MESSAGES: f64 = 10.0;
/// The most bytes of one call to SQS.
const SQS_CALL_KIB: f64 = 1024.0;
/// An HTTP API counts a request for each of these.
const API_CHUNK_KIB: f64 = 512.0;
/// What Lambda takes in one request.
const API_REQUEST_KIB: f64 = 6.0 * 1024.0;
/// What the producer takes in one request.
const API_REQUEST_JOBS: f64 = 500.0;
/// An assumption: the calls to SQS and DynamoDB of one request or one batch.
const CALLS_MS: f64 = 20.0;
/// An assumption: log lines of a request or of a batch, Lambda's own included.
const INVOCATION_LOG_KIB: f64 = 1.0;
/// An assumption: log lines of a job in both functions.
const JOB_LOG_KIB: f64 = 1.0;
const DAYS_PER_MONTH: f64 = 30.0;
const KIB_PER_GIB: f64 = 1024.0 * 1024.0;
const MILLION: f64 = 1e6;

/// The jobs that are to be run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, clap::Args)]
pub struct Load {
    /// Jobs that are accepted each day.
    #[arg(long)]
    pub jobs_per_day: f64,
    /// A payload's size as JSON, KiB.
    #[arg(long)]
    pub payload_kib: f64,
    /// How long a handler takes, milliseconds.
    #[arg(long)]
    pub job_ms: f64,
    /// The template's `BatchSize`.
    #[arg(long, default_value_t = 10.0)]
    pub batch_size: f64,
    /// The template's `BatchConcurrency`.
    #[arg(long, default_value_t = 100.0)]
    pub batch_concurrency: f64,
    /// The template's `MaximumConcurrency`.
    #[arg(long, default_value_t = 10.0)]
    pub maximum_concurrency: f64,
    /// Both functions' memory, MB.
    #[arg(long, default_value_t = 256.0)]
    pub memory_mb: f64,
    /// How often a client asks for a job.
    #[arg(long, default_value_t = 1.0)]
    pub gets_per_job: f64,
    /// A result's size as it is stored, KiB.
    #[arg(long, default_value_t = 0.4)]
    pub result_kib: f64,
    /// Kinds of jobs, for each of which metrics are kept.
    #[arg(long, default_value_t = 3.0)]
    pub kinds: f64,
    /// Functions built for `x86_64` instead of arm64.
    #[arg(long)]
    pub x86_64: bool,
    /// Whose prices.
    #[arg(long, value_enum, default_value_t)]
    pub region: Region,
}

/// How jobs come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Each by a request of its own, each in a batch of its own: few at a time.
    Single,
    /// In requests as large as may be, received in full batches.
    Batch,
}

/// What one job needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Usage {
    /// Requests that the HTTP API counts.
    pub api_requests: f64,
    /// Invocations of both functions.
    pub invocations: f64,
    /// Memory times duration of both functions.
    pub gb_seconds: f64,
    /// Requests that SQS counts.
    pub sqs_requests: f64,
    /// `DynamoDB`'s write request units.
    pub write_units: f64,
    /// `DynamoDB`'s read request units.
    pub read_units: f64,
    /// What is written to logs, KiB.
    pub log_kib: f64,
}

/// Dollars for a million jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dollars {
    /// The HTTP API.
    pub api: f64,
    /// Both functions, requests and duration.
    pub lambda: f64,
    /// The queue.
    pub sqs: f64,
    /// The table.
    pub dynamodb: f64,
    /// The logs, without keeping them.
    pub logs: f64,
    /// All of it.
    pub total: f64,
}

/// What one job needs when it comes in by `flow`.
#[must_use]
pub fn per_job(load: &Load, flow: Flow) -> Usage {
    let message = load.payload_kib + ENVELOPE_KIB;
    let (jobs_per_request, jobs_per_batch) = match flow {
        Flow::Single => (1.0, 1.0),
        Flow::Batch => {
            let fit = (API_REQUEST_KIB / load.payload_kib.max(0.001)).floor();
            (fit.clamp(1.0, API_REQUEST_JOBS), load.batch_size)
        }
    };
    let posts = (jobs_per_request * load.payload_kib / API_CHUNK_KIB).ceil().max(1.0);
    let producer_runs = 1.0 / jobs_per_request + load.gets_per_job;
    let consumer_runs = 1.0 / jobs_per_batch;
    let milliseconds = producer_runs * CALLS_MS + consumer_runs * batch_ms(load, jobs_per_batch);
    // The entry is put by the producer and by the claim; what completes it
    // makes it larger.
    let completion = (ENTRY_KIB + load.result_kib).ceil();
    Usage {
        api_requests: posts / jobs_per_request + load.gets_per_job,
        invocations: producer_runs + consumer_runs,
        gb_seconds: milliseconds / 1000.0 * load.memory_mb / 1024.0,
        sqs_requests: 2.0 * sqs_transfer(message, jobs_per_request.min(jobs_per_batch))
            + 1.0 / jobs_per_batch.min(SQS_CALL_MESSAGES),
        write_units: 2.0 * ENTRY_KIB.ceil() + completion,
        read_units: load.gets_per_job * ((ENTRY_KIB + load.result_kib) / 4.0).ceil(),
        log_kib: (producer_runs + consumer_runs) * INVOCATION_LOG_KIB + JOB_LOG_KIB,
    }
}

/// How long a batch of so many jobs takes.
fn batch_ms(load: &Load, jobs: f64) -> f64 {
    CALLS_MS + (jobs / load.batch_concurrency).ceil() * load.job_ms
}

/// Requests that SQS counts for a message that is sent (or received) in calls of
/// up to ten, when so many are there.
fn sqs_transfer(message_kib: f64, messages: f64) -> f64 {
    let fit = (SQS_CALL_KIB / message_kib).floor().clamp(1.0, SQS_CALL_MESSAGES);
    let in_a_call = messages.min(fit);
    (in_a_call * message_kib / SQS_CHUNK_KIB).ceil() / in_a_call
}

/// What a million such jobs cost.
#[must_use]
pub fn per_million(usage: &Usage, load: &Load) -> Dollars {
    let prices = load.region.prices();
    let gb_second = if load.x86_64 { prices.x86_64_gb_second } else { prices.arm64_gb_second };
    let api = usage.api_requests * prices.million_api_requests.dollars;
    let lambda = usage.invocations * prices.million_invocations.dollars
        + usage.gb_seconds * gb_second.dollars * MILLION;
    // Every message has a group, which makes the queue a fair one.
    let sqs = usage.sqs_requests
        * (prices.million_sqs_requests.dollars + prices.million_fair_requests.dollars);
    let dynamodb = usage.write_units * prices.million_write_units.dollars
        + usage.read_units * prices.million_read_units.dollars;
    let logs = usage.log_kib * MILLION / KIB_PER_GIB * prices.log_gib.dollars;
    Dollars { api, lambda, sqs, dynamodb, logs, total: api + lambda + sqs + dynamodb + logs }
}

/// Jobs that a flow's batches do each second at the template's concurrency.
#[must_use]
pub fn jobs_per_second(load: &Load, flow: Flow) -> f64 {
    let jobs = match flow {
        Flow::Single => 1.0,
        Flow::Batch => load.batch_size,
    };
    load.maximum_concurrency * jobs * 1000.0 / batch_ms(load, jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const LOAD: Load = Load {
        jobs_per_day: 1e6,
        payload_kib: 1.0,
        job_ms: 80.0,
        batch_size: 10.0,
        batch_concurrency: 10.0,
        maximum_concurrency: 10.0,
        memory_mb: 1024.0,
        gets_per_job: 0.0,
        result_kib: 0.0,
        kinds: 3.0,
        x86_64: false,
        region: Region::UsEast1,
    };

    pub(super) fn near(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-6, "{left} is not {right}");
    }

    #[test]
    fn a_small_job_is_sent_received_and_deleted_by_one_request_each() {
        let usage = per_job(&LOAD, Flow::Single);
        near(usage.api_requests, 1.0);
        near(usage.invocations, 2.0);
        near(usage.sqs_requests, 3.0);
        near(usage.write_units, 3.0);
        // 20 ms in the producer, 20 + 80 in the consumer, at 1 GB.
        near(usage.gb_seconds, 0.12);
    }

    #[test]
    fn many_jobs_share_requests_and_invocations() {
        let usage = per_job(&LOAD, Flow::Batch);
        near(usage.api_requests, 1.0 / 500.0);
        near(usage.invocations, 1.0 / 500.0 + 0.1);
        near(usage.sqs_requests, 0.3);
        near(usage.write_units, 3.0);
        near(usage.gb_seconds, 0.02 / 500.0 + 0.1 / 10.0);
    }

    #[test]
    fn what_is_large_counts_more_than_once() {
        let large = Load { payload_kib: 700.0, result_kib: 10.0, gets_per_job: 2.0, ..LOAD };
        let usage = per_job(&large, Flow::Single);
        near(usage.api_requests, 4.0); // 700 of 512 KiB, and two questions
        near(usage.sqs_requests, 2.0 * 11.0 + 1.0); // 700.5 of 64 KiB
        near(usage.write_units, 1.0 + 1.0 + 11.0);
        near(usage.read_units, 2.0 * 3.0);
        // Eight fit into a request, and one into a call to SQS.
        let usage = per_job(&large, Flow::Batch);
        near(usage.api_requests, 11.0 / 8.0 + 2.0);
        near(usage.sqs_requests, 2.0 * 11.0 + 0.1);
    }

    #[test]
    fn a_million_jobs_cost_what_their_parts_cost() {
        let usage = Usage {
            api_requests: 1.0,
            invocations: 2.0,
            gb_seconds: 0.1,
            sqs_requests: 3.0,
            write_units: 3.0,
            read_units: 1.0,
            log_kib: 1.048_576,
        };
        let dollars = per_million(&usage, &LOAD);
        near(dollars.api, 1.0);
        near(dollars.lambda, 0.4 + 1.333_34);
        near(dollars.sqs, 3.0 * 0.5);
        near(dollars.dynamodb, 3.0 * 0.625 + 0.125);
        near(dollars.logs, 0.5);
        near(per_million(&usage, &Load { x86_64: true, ..LOAD }).lambda, 0.4 + 1.666_67);
        let dollars = per_million(&usage, &Load { region: Region::EuCentral1, ..LOAD });
        near(dollars.api, 1.2);
        near(dollars.dynamodb, 3.0 * 0.7625 + 0.1525);
        near(dollars.logs, 0.63);
    }

    #[test]
    fn throughput_is_what_the_batches_allow() {
        near(jobs_per_second(&LOAD, Flow::Single), 100.0);
        near(jobs_per_second(&LOAD, Flow::Batch), 1000.0);
        // 25 jobs run in three rounds of ten.
        let large = Load { batch_size: 25.0, ..LOAD };
        near(jobs_per_second(&large, Flow::Batch), 10.0 * 25.0 / 0.26);
        let side_by_side = Load { batch_concurrency: 100.0, ..large };
        near(jobs_per_second(&side_by_side, Flow::Batch), 10.0 * 25.0 / 0.1);
    }
}
