//! The deployed event source mapping: what takes messages to the consumer.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::Watchdog;
use crate::stack::Stack;

/// What Lambda needs to be told, or it deletes failed records with the rest.
pub const REPORTS_FAILURES: &str = "ReportBatchItemFailures";

/// The settings that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its name, of a kind.
    pub uuid: String,
    /// `Enabled`, `Disabled`, or on the way to one of them.
    pub state: String,
    /// The most records of a batch.
    pub batch_size: u64,
    /// How long records are gathered, in seconds.
    pub window: u64,
    /// Whether Lambda looks at the list of failed records.
    pub reports_failures: bool,
    /// The most batches at a time, if there is a limit.
    pub maximum_concurrency: Option<u64>,
}

impl Mapping {
    /// The mapping between a stack's queue and its consumer.
    ///
    /// # Errors
    ///
    /// There is none, or more than one.
    pub async fn of(stack: &Stack) -> Result<Self> {
        let consumer = &stack.outputs.consumer;
        let all = Self::all(stack).await?;
        match <[Self; 1]>::try_from(all) {
            Ok([mapping]) => Ok(mapping),
            Err(all) => bail!(
                "{consumer} has {} event source mappings, and the template makes one: \
                 `cargo ops doctor` says more",
                all.len()
            ),
        }
    }

    /// Every mapping that leads to a stack's consumer, or to its alias.
    ///
    /// # Errors
    ///
    /// Lambda did not answer.
    pub async fn all(stack: &Stack) -> Result<Vec<Self>> {
        let queue = stack.queue_arn().await?;
        let arguments =
            ["lambda", "list-event-source-mappings", "--event-source-arn", queue.as_str()];
        let listed = stack.aws.json(&arguments).await?;
        let all = listed.get("EventSourceMappings").and_then(Value::as_array);
        all.into_iter().flatten().map(Self::read).collect()
    }

    fn read(mapping: &Value) -> Result<Self> {
        let text = |name| mapping.get(name).and_then(Value::as_str).map(str::to_owned);
        let responses = mapping.get("FunctionResponseTypes").and_then(Value::as_array);
        Ok(Self {
            uuid: text("UUID").context("an event source mapping has no UUID")?,
            state: text("State").unwrap_or_default(),
            batch_size: number(mapping.get("BatchSize")).unwrap_or(10),
            window: number(mapping.get("MaximumBatchingWindowInSeconds")).unwrap_or(0),
            reports_failures: responses.into_iter().flatten().any(|one| one == REPORTS_FAILURES),
            maximum_concurrency: number(mapping.pointer("/ScalingConfig/MaximumConcurrency")),
        })
    }

    /// Whether it takes messages, or is about to.
    #[must_use]
    pub fn is_on(&self) -> bool {
        matches!(&*self.state, "Enabled" | "Enabling" | "Creating" | "Updating")
    }

    /// Stops it from taking messages.
    ///
    /// # Errors
    ///
    /// Lambda refused.
    pub async fn switch_off(&self, stack: &Stack) -> Result<()> {
        stack.aws.call(&self.update("--no-enabled")).await
    }

    /// Lets it take messages again when what is returned is dropped, and also
    /// when this process is killed before.
    ///
    /// # Errors
    ///
    /// It could not be prepared.
    pub async fn switch_on_afterwards(&self, stack: &Stack) -> Result<Watchdog> {
        stack.aws.call_afterwards(&self.update("--enabled")).await
    }

    fn update<'a>(&'a self, change: &'a str) -> [&'a str; 5] {
        ["lambda", "update-event-source-mapping", "--uuid", &self.uuid, change]
    }
}

/// A number that may be written as text, as the emulator does where the template
/// has a parameter.
#[must_use]
pub fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_may_be_text() {
        let mapping = json!({
            "UUID": "u", "State": "Enabled", "BatchSize": 10, "FunctionArn": "x",
            "MaximumBatchingWindowInSeconds": "1",
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": { "MaximumConcurrency": 2 },
        });
        let expected = Mapping {
            uuid: "u".to_owned(),
            state: "Enabled".to_owned(),
            batch_size: 10,
            window: 1,
            reports_failures: true,
            maximum_concurrency: Some(2),
        };
        assert_eq!(Mapping::read(&mapping).unwrap(), expected);
    }

    #[test]
    fn what_is_left_out_is_what_lambda_takes_then() {
        let mapping = Mapping::read(&json!({ "UUID": "u" })).unwrap();
        assert_eq!((mapping.batch_size, mapping.window), (10, 0));
        assert!(!mapping.reports_failures);
        assert_eq!(mapping.maximum_concurrency, None);
    }
}
