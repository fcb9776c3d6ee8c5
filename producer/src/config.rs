//! The producer's configuration, read once from its environment.

use std::time::Duration;

use shared::aws::{Access, CallLimits};
use shared::config::{ConfigError, EntryTtl, Environment, QueueUrl};
use shared::jobs::Rules;
use shared::metrics::DEFAULT_NAMESPACE;
use shared::telemetry::LogLevel;

/// Time limits of the calls to SQS and DynamoDB.
///
/// At most two of them follow one another, so that a request is answered
/// after 8 s at the latest: before [`crate::ANSWER_WITHIN`], the function's
/// timeout in `infra/template.yaml` (10 s) and API Gateway's own 30 s. An
/// attempt takes milliseconds as a rule; 1.5 s leave room for a slow one and
/// for a second on a fresh connection.
pub const CALL_LIMITS: CallLimits =
    CallLimits { attempt: Duration::from_millis(1500), operation: Duration::from_secs(4) };

/// Bytes of a message that stay free for the attributes that say why it
/// became a dead letter: one that fills the queue's limit could not be moved.
pub const DEAD_LETTER_RESERVE: usize = 8 * 1024;

/// What the environment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How AWS is reached, by the variables that Lambda sets.
    pub access: Access,
    /// `QUEUE_URL`: where messages go.
    pub queue_url: QueueUrl,
    /// `TABLE_NAME`: where job entries are.
    pub table_name: String,
    /// `MAX_MESSAGE_BYTES`, the queue's `MaximumMessageSize`, less
    /// [`DEAD_LETTER_RESERVE`]: bytes that a message may have, attributes
    /// included.
    pub message_limit: usize,
    /// What payloads may ask for, by variables of their kinds.
    pub rules: Rules,
    /// `ENTRY_TTL_DAYS`: how long an entry, and with it an idempotency key,
    /// lives.
    pub entry_ttl: EntryTtl,
    /// `GROUP_WRITES`: whether entries of jobs that come together are written in
    /// one call to the table.
    pub group_writes: bool,
    /// `LOG_LEVEL`: how much is logged.
    pub log_level: LogLevel,
    /// `METRICS_NAMESPACE`: where CloudWatch keeps the metrics.
    pub metrics_namespace: String,
}

impl Config {
    /// Reads the variables by `lookup`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, in one line. The process must not start.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut env = Environment::new(lookup);
        let access = Access::read(&mut env);
        let queue_url = env.required("QUEUE_URL");
        let table_name = env.required("TABLE_NAME");
        let max_message_bytes = env.required("MAX_MESSAGE_BYTES");
        // From twice the reserve up to what SQS takes (1 MiB).
        let max_message_bytes =
            env.within("MAX_MESSAGE_BYTES", max_message_bytes, &(16 * 1024..=1024 * 1024));
        let rules = Rules::read(&mut env);
        let entry_ttl = env.optional("ENTRY_TTL_DAYS", EntryTtl::DEFAULT);
        let group_writes = env.optional("GROUP_WRITES", true);
        let log_level = LogLevel::read(&mut env);
        let metrics_namespace = env.optional("METRICS_NAMESPACE", DEFAULT_NAMESPACE.to_owned());
        env.finish(|| {
            Some(Self {
                access: access?,
                queue_url: queue_url?,
                table_name: table_name?,
                message_limit: max_message_bytes? - DEAD_LETTER_RESERVE,
                rules: rules?,
                entry_ttl: entry_ttl?,
                group_writes: group_writes?,
                log_level: log_level?,
                metrics_namespace: metrics_namespace?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(changes: &[(&str, &str)]) -> Result<Config, String> {
        let defaults = [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"),
            ("TABLE_NAME", "jobs"),
            ("MAX_MESSAGE_BYTES", "1048576"),
        ];
        Config::from_lookup(|name| {
            let found = changes.iter().chain(&defaults).find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
        .map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_leaves_room_for_a_dead_letters_attributes() {
        assert_eq!(read(&[]).unwrap().message_limit, 1_048_576 - 8_192);
    }

    #[test]
    fn what_is_wrong_is_named() {
        fn check(variable: &str, value: &str, expected: &str) {
            let error = read(&[(variable, value)]).expect_err(value);
            assert!(error.contains(variable) && error.contains(expected), "{error}");
        }
        check("AWS_REGION", "", "not set");
        check("QUEUE_URL", "", "not set");
        check("QUEUE_URL", "jobs", "not the URL");
        check("QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/jobs.fifo", "FIFO");
        check("TABLE_NAME", " ", "not set");
        check("MAX_MESSAGE_BYTES", "1MiB", "invalid digit");
        check("MAX_MESSAGE_BYTES", "1048577", "between");
        check("MAX_MESSAGE_BYTES", "8192", "between");
        check("WEBHOOK_ALLOWED_HOSTS", "https://erp.internal", "no host");
        check("WEBHOOK_ALLOW_HTTP", "yes", "true");
        check("ENTRY_TTL_DAYS", "1", "28");
        check("GROUP_WRITES", "sometimes", "true");
        check("LOG_LEVEL", "loud", "info");
    }
}
