//! The producer as a Lambda function.

use std::process::ExitCode;
use std::sync::Arc;

use producer::{CALL_LIMITS, Config, Producer, SqsJobQueue};
use shared::metrics::Metrics;
use shared::table::{DynamoJobTable, GroupedJobTable};
use shared::telemetry::{self, LogLevel};
use shared::{Clock, Ids, JobTable, NOBODYS_JOB, aws, warm_up};

// One invocation at a time is all that Lambda sends, and a start is faster
// without worker threads.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "this is where the configuration is read")]
    let config = match Config::from_lookup(|name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(error) => {
            telemetry::init(LogLevel::DEFAULT);
            tracing::error!(%error, "the producer cannot run");
            return ExitCode::FAILURE;
        }
    };
    telemetry::init(config.log_level);
    let aws = aws::configure(config.access, CALL_LIMITS);
    let table = DynamoJobTable::new(&aws, config.table_name);
    let queue = SqsJobQueue::new(&aws, &config.queue_url);
    warm_up(Box::pin(async { tokio::join!(table.get(NOBODYS_JOB), queue.look_up()) })).await;
    let ended = producer::run(Producer {
        table: GroupedJobTable::new(Arc::new(table), config.group_writes),
        queue,
        clock: Clock::system(),
        ids: Ids::random(),
        message_limit: config.message_limit,
        rules: config.rules,
        entry_ttl: config.entry_ttl.as_duration(),
        metrics: Metrics::new(&config.metrics_namespace, "producer", std::io::stdout()),
    })
    .await;
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "connection to Lambda is lost");
            ExitCode::FAILURE
        }
    }
}
