//! The consumer's configuration.

use std::time::Duration;

use shared::aws::{Access, CallLimits};
use shared::config::{ConfigError, EntryTtl, Environment, QueueUrl};
use shared::metrics::DEFAULT_NAMESPACE;
use shared::telemetry::LogLevel;

use crate::backoff::{Backoff, LONG_DELAY_CAP};
use crate::jobs;

/// Limits of one call to DynamoDB or SQS.
///
/// A good answer takes milliseconds. [`crate::deadline`] keeps two operations
/// free at the end of an invocation.
pub const CALL_LIMITS: CallLimits =
    CallLimits { attempt: Duration::from_millis(700), operation: Duration::from_millis(1_800) };

/// What the template tells the consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How AWS is reached.
    pub access: Access,
    /// The queue that its records come from.
    pub queue_url: QueueUrl,
    /// Where messages go that nobody can run.
    pub dead_letter_queue_url: QueueUrl,
    /// The job table.
    pub table_name: String,
    /// Whether jobs that are claimed or settled at the same time are written
    /// in one call.
    pub group_writes: bool,
    /// How it treats its records.
    pub settings: Settings,
    /// What its handlers need to know.
    pub jobs: jobs::Settings,
    /// How much is logged.
    pub log_level: LogLevel,
    /// The namespace of the metrics.
    pub metrics_namespace: String,
}

/// The numbers that decide how records are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The queue's `maxReceiveCount`: the last receive of each copy.
    pub max_receive_count: u32,
    /// `QUEUE_RETENTION_SECONDS`: how long the queue keeps a message.
    pub retention: Duration,
    /// The function's timeout, for events whose deadline is unknown.
    pub function_timeout: Duration,
    /// Jobs of one batch that run at the same time. Those that wait for AWS or
    /// for a receiver cost little memory and no CPU meanwhile, and jobs that
    /// settle together share calls to the table.
    pub concurrency: usize,
    /// How long a failed record waits.
    pub backoff: Backoff,
    /// Larger results are not stored; far under the 400 KB that DynamoDB
    /// takes for a whole item.
    pub max_result_bytes: usize,
    /// How long a job entry lives after its last claim.
    pub entry_ttl: EntryTtl,
}

impl Config {
    /// Reads the configuration by `lookup`.
    ///
    /// # Errors
    ///
    /// Everything that is missing or wrong, in one line.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut env = Environment::new(lookup);
        let access = Access::read(&mut env);
        let queue_url = env.required("QUEUE_URL");
        let dead_letter_queue_url = env.required("DEAD_LETTER_QUEUE_URL");
        let table_name = env.required("TABLE_NAME");
        let group_writes = env.optional("GROUP_WRITES", true);
        let log_level = LogLevel::read(&mut env);
        let metrics_namespace = env.optional("METRICS_NAMESPACE", DEFAULT_NAMESPACE.to_owned());
        let settings = read_settings(&mut env);
        let jobs = jobs::Settings::read(&mut env);
        env.finish(|| {
            Some(Self {
                access: access?,
                queue_url: queue_url?,
                dead_letter_queue_url: dead_letter_queue_url?,
                table_name: table_name?,
                group_writes: group_writes?,
                settings: settings?,
                jobs: jobs?,
                log_level: log_level?,
                metrics_namespace: metrics_namespace?,
            })
        })
    }
}

fn read_settings<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Settings> {
    let receives = env.required("MAX_RECEIVE_COUNT");
    let receives = env.within("MAX_RECEIVE_COUNT", receives, &(1..=1_000));
    let timeout = env.required("FUNCTION_TIMEOUT_SECONDS");
    let timeout = env.within("FUNCTION_TIMEOUT_SECONDS", timeout, &(10..=900));
    let concurrency = env.optional("CONCURRENCY", 100);
    let concurrency = env.within("CONCURRENCY", concurrency, &(1..=1_000));
    let result_bytes = env.optional("MAX_RESULT_BYTES", 64 * 1024);
    let result_bytes = env.within("MAX_RESULT_BYTES", result_bytes, &(0..=256 * 1024));
    let entry_ttl = env.optional("ENTRY_TTL_DAYS", EntryTtl::DEFAULT);
    let retention = env.required("QUEUE_RETENTION_SECONDS");
    let retention = env.within("QUEUE_RETENTION_SECONDS", retention, &(60..=1_209_600_u64));
    let backoff = read_backoff(env, receives, retention);
    Some(Settings {
        max_receive_count: receives?,
        retention: Duration::from_secs(retention?),
        function_timeout: Duration::from_secs(timeout?),
        concurrency: concurrency?,
        backoff: backoff?,
        max_result_bytes: result_bytes?,
        entry_ttl: entry_ttl?,
    })
}

/// A job that waits longest before each of its receives must not outlive the
/// queue's retention, or SQS would delete it unseen.
fn read_backoff<L: Fn(&str) -> Option<String>>(
    env: &mut Environment<L>,
    receives: Option<u32>,
    retention: Option<u64>,
) -> Option<Backoff> {
    let base = env.optional("BACKOFF_BASE_SECONDS", 30);
    let base = env.within("BACKOFF_BASE_SECONDS", base, &(1..=3_600));
    let cap = env.optional("BACKOFF_CAP_SECONDS", 900_u64);
    let cap = env.within("BACKOFF_CAP_SECONDS", cap, &(1..=39_600));
    let (receives, base, cap, retention) = (receives?, base?, cap?, retention?);
    if base > cap {
        return env.problem("BACKOFF_BASE_SECONDS is larger than BACKOFF_CAP_SECONDS".to_owned());
    }
    let longest = cap.max(LONG_DELAY_CAP.as_secs());
    if longest.saturating_mul(u64::from(receives)) >= retention {
        return env.problem(format!(
            "the longest wait ({longest} s, of BACKOFF_CAP_SECONDS and an outage's) times \
             MAX_RECEIVE_COUNT ({receives}) must be less than QUEUE_RETENTION_SECONDS ({retention})"
        ));
    }
    Some(Backoff { base: Duration::from_secs(base), cap: Duration::from_secs(cap) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn from(changes: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let mut variables = HashMap::from([
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("QUEUE_URL", "https://sqs.example/1/jobs"),
            ("DEAD_LETTER_QUEUE_URL", "https://sqs.example/1/jobs-dead"),
            ("TABLE_NAME", "jobs"),
            ("MAX_RECEIVE_COUNT", "5"),
            ("FUNCTION_TIMEOUT_SECONDS", "30"),
            ("QUEUE_RETENTION_SECONDS", "345600"),
        ]);
        variables.extend(changes.iter().copied());
        Config::from_lookup(|name| variables.get(name).map(|text| (*text).to_owned()))
    }

    fn check(changes: &[(&str, &str)], problem: &str) {
        let error = from(changes).expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }

    #[test]
    fn defaults_are_filled_in() {
        let config = from(&[]).unwrap();
        assert!(config.group_writes);
        let settings = config.settings;
        assert_eq!(settings.concurrency, 100);
        assert_eq!(settings.backoff.base, Duration::from_secs(30));
        assert_eq!(settings.backoff.cap, Duration::from_mins(15));
        assert_eq!(settings.entry_ttl, EntryTtl::DEFAULT);
    }

    #[test]
    fn nothing_at_all_names_every_variable() {
        let error = Config::from_lookup(|_| None).unwrap_err().to_string();
        for name in [
            "AWS_REGION",
            "QUEUE_URL",
            "DEAD_LETTER_QUEUE_URL",
            "TABLE_NAME",
            "MAX_RECEIVE_COUNT",
            "FUNCTION_TIMEOUT_SECONDS",
            "QUEUE_RETENTION_SECONDS",
        ] {
            assert!(error.contains(&format!("{name} is not set")), "{error}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        check(&[("QUEUE_URL", "https://sqs.example/1/jobs.fifo")], "FIFO");
        check(&[("TABLE_NAME", " ")], "TABLE_NAME is not set");
        check(&[("FUNCTION_TIMEOUT_SECONDS", "9")], "between 10 and 900");
        check(&[("BACKOFF_CAP_SECONDS", "29")], "larger than BACKOFF_CAP_SECONDS");
        check(&[("QUEUE_RETENTION_SECONDS", "18000")], "must be less than QUEUE_RETENTION_SECONDS");
        check(&[("ENTRY_TTL_DAYS", "7")], "ENTRY_TTL_DAYS");
        check(&[("GROUP_WRITES", "sometimes")], "GROUP_WRITES");
    }

    #[test]
    fn what_is_wrong_with_the_kinds_shows_with_the_rest_but_no_secret_does() {
        let error = from(&[
            ("TABLE_NAME", ""),
            ("WEBHOOK_ALLOWED_HOSTS", "https://erp.internal"),
            ("WEBHOOK_ALLOW_HTTP", "yes"),
            ("WEBHOOK_SECRETS", r#"{"partner.example":["hunter2"]}"#),
            ("SMTP_URL", "smtp://user:hunter2@mail.example.org?tls=maybe"),
            ("EMAIL_FROM", "nobody"),
        ]);
        let error = error.unwrap_err().to_string();
        for name in [
            "TABLE_NAME",
            "WEBHOOK_ALLOWED_HOSTS",
            "WEBHOOK_ALLOW_HTTP",
            "WEBHOOK_SECRETS",
            "SMTP_URL",
            "EMAIL_FROM",
        ] {
            assert!(error.contains(name), "{name} in {error}");
        }
        assert!(!error.contains("hunter2"), "{error}");
        check(&[("EMAIL_FROM", "hello@relevo.example")], "SMTP_URL and EMAIL_FROM go together");
        check(&[("SMTP_URL", "smtps://mail.example.org")], "SMTP_URL and EMAIL_FROM go together");
    }
}
