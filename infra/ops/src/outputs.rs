//! What the template says of the stack that was made of it.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The template's outputs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Outputs {
    /// `ApiId`.
    pub api_id: String,
    /// `ApiUrl`.
    pub api_url: String,
    /// `QueueUrl`.
    pub queue_url: String,
    /// `DeadLetterQueueUrl`.
    pub dead_letter_queue_url: String,
    /// `TableName`.
    pub table_name: String,
    /// `AlarmTopicArn`.
    pub alarm_topic: String,
    /// `ProducerFunction`.
    pub producer: String,
    /// `ConsumerFunction`.
    pub consumer: String,
}

impl Outputs {
    /// Reads what `describe-stacks` answered.
    ///
    /// # Errors
    ///
    /// An output is missing.
    pub fn read(described: &Value) -> Result<Self> {
        let outputs = described.pointer("/Stacks/0/Outputs").and_then(Value::as_array);
        let find = |key: &str| {
            let mut all = outputs.into_iter().flatten();
            all.find(|output| output.get("OutputKey").and_then(Value::as_str) == Some(key))
                .and_then(|output| Some(output.get("OutputValue")?.as_str()?.to_owned()))
                .with_context(|| format!("the stack has no output {key}"))
        };
        Ok(Self {
            api_id: find("ApiId")?,
            api_url: find("ApiUrl")?,
            queue_url: find("QueueUrl")?,
            dead_letter_queue_url: find("DeadLetterQueueUrl")?,
            table_name: find("TableName")?,
            alarm_topic: find("AlarmTopicArn")?,
            producer: find("ProducerFunction")?,
            consumer: find("ConsumerFunction")?,
        })
    }

    /// The path of a named stage, such as `/prod`; else empty.
    #[must_use]
    pub fn stage(&self) -> &str {
        stage(&self.api_url)
    }
}

/// What follows the host in the API's address.
fn stage(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |position| position + 3);
    let (_, rest) = url.split_at(after_scheme);
    rest.find('/').map_or("", |slash| rest.split_at(slash).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_named_stage_has_a_path() {
        assert_eq!(stage("https://a1.execute-api.us-east-1.amazonaws.com"), "");
        assert_eq!(stage("https://a1.execute-api.us-east-1.amazonaws.com/prod"), "/prod");
    }
}
