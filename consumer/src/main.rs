//! The consumer's process: reads the configuration, builds the clients once,
//! and takes batches.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use consumer::Consumer;
use consumer::config::{CALL_LIMITS, Config};
use consumer::jobs::Handlers;
use consumer::queue::SqsRetryQueue;
use shared::metrics::Metrics;
use shared::table::{DynamoJobTable, GroupedJobTable};
use shared::telemetry::{self, LogLevel};
use shared::{Clock, Ids, JobTable, NOBODYS_JOB, Random, aws, warm_up};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match start().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            telemetry::init(LogLevel::DEFAULT);
            tracing::error!(error = format!("{error:#}"), "the consumer cannot run");
            ExitCode::FAILURE
        }
    }
}

async fn start() -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    let config = Config::from_lookup(|name| std::env::var(name).ok())?;
    telemetry::init(config.log_level);
    let sdk_config = aws::configure(config.access, CALL_LIMITS);
    let table = DynamoJobTable::new(&sdk_config, config.table_name);
    let queue = SqsRetryQueue::new(&sdk_config, config.queue_url, config.dead_letter_queue_url);
    // Not the queue: only what failed needs it.
    warm_up(table.get(NOBODYS_JOB)).await;
    let clock = Clock::system();
    consumer::run(Consumer {
        table: GroupedJobTable::new(Arc::new(table), config.group_writes),
        queue,
        settings: config.settings,
        handlers: Handlers::new(config.jobs, clock.clone()),
        clock,
        ids: Ids::random(),
        random: Random::system(),
        metrics: Metrics::new(&config.metrics_namespace, "consumer", std::io::stdout()),
    })
    .await
    .map_err(|error| anyhow!(error))
    .context("the Lambda runtime stopped")
}
