//! What SQS tells of a queue: its settings, and how much it holds.

use std::collections::HashMap;
use std::str::FromStr;

use anyhow::{Context, Result};
use aws_sdk_sqs::types::QueueAttributeName;

/// All attributes of one queue.
#[derive(Clone, Debug)]
pub struct QueueAttributes {
    url: String,
    all: HashMap<QueueAttributeName, String>,
}

impl QueueAttributes {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// The queue did not answer.
    pub async fn read(client: &aws_sdk_sqs::Client, url: &str) -> Result<Self> {
        let request = client.get_queue_attributes().queue_url(url);
        let answer = request.attribute_names(QueueAttributeName::All).send().await;
        let answer = answer.with_context(|| format!("could not read the attributes of {url}"))?;
        Ok(Self { url: url.to_owned(), all: answer.attributes.unwrap_or_default() })
    }

    /// One of them, if the queue has it.
    #[must_use]
    pub fn get(&self, name: &QueueAttributeName) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    /// One that every queue has.
    ///
    /// # Errors
    ///
    /// SQS does not tell it.
    pub fn text(&self, name: &QueueAttributeName) -> Result<&str> {
        let value = self.get(name);
        value.with_context(|| format!("SQS does not tell {} of {}", name.as_str(), self.url))
    }

    /// A count, or a time in seconds.
    ///
    /// # Errors
    ///
    /// SQS does not tell it, or as something else than a whole number.
    pub fn number<T: FromStr>(&self, name: &QueueAttributeName) -> Result<T> {
        let number = self.text(name)?.parse().ok();
        number.with_context(|| format!("{} of {} is no whole number", name.as_str(), self.url))
    }
}
