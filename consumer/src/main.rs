//! The consumer's process: reads the configuration, builds the clients once,
//! and takes batches.

use std::process::ExitCode;
use std::sync::Arc;

use consumer::Consumer;
use consumer::config::{CALL_LIMITS, Config};
use consumer::jobs::Handlers;
use consumer::queue::SqsRetryQueue;
use lambda_runtime::Error;
use shared::metrics::Metrics;
use shared::table::{DynamoJobTable, GroupedJobTable};
use shared::{Clock, Ids, JobTable, NOBODYS_JOB, Random, aws, exit_code, telemetry, warm_up};

// One invocation at a time is all that Lambda sends, and a start is faster
// without worker threads.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    exit_code("consumer", run().await)
}

async fn run() -> Result<(), Error> {
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
}
