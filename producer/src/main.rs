//! The producer's process: reads the configuration, builds the clients once,
//! and answers requests.

use std::process::ExitCode;
use std::sync::Arc;

use lambda_http::Error;
use producer::{CALL_LIMITS, Config, Producer, SqsJobQueue};
use shared::metrics::Metrics;
use shared::table::{DynamoJobTable, GroupedJobTable};
use shared::{Clock, Ids, JobTable, NOBODYS_JOB, aws, exit_code, telemetry, warm_up};

// One invocation at a time is all that Lambda sends, and a start is faster
// without worker threads.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    exit_code("producer", run().await)
}

async fn run() -> Result<(), Error> {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    let config = Config::from_lookup(|name| std::env::var(name).ok())?;
    telemetry::init(config.log_level);
    let sdk_config = aws::configure(config.access, CALL_LIMITS);
    let table = DynamoJobTable::new(&sdk_config, config.table_name);
    let queue = SqsJobQueue::new(&sdk_config, &config.queue_url);
    warm_up(Box::pin(async { tokio::join!(table.get(NOBODYS_JOB), queue.look_up()) })).await;
    producer::run(Producer {
        table: GroupedJobTable::new(Arc::new(table), config.group_writes),
        queue,
        clock: Clock::system(),
        ids: Ids::random(),
        message_limit: config.message_limit,
        rules: config.rules,
        entry_ttl: config.entry_ttl.as_duration(),
        metrics: Metrics::new(&config.metrics_namespace, "producer", std::io::stdout()),
    })
    .await
}
