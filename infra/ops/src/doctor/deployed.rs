//! What is deployed, as the services say it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aws_sdk_dynamodb::types::TimeToLiveStatus;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use crate::mapping::{Mapping, number};
use crate::queue_attributes::QueueAttributes;
use crate::stack::Stack;

/// A stack's settings, those that the rules look at.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// The stack's name.
    pub stack: String,
    /// Whether it is on AWS. The emulator expires no entries and tells of no alarms.
    pub is_on_aws: bool,
    /// Everything that takes messages from the queue to a function.
    pub mappings: Vec<Mapping>,
    /// The queue between the functions.
    pub queue: Queue,
    /// The dead-letter queue.
    pub dead_letters: Queue,
    /// The producer.
    pub producer: Function,
    /// The consumer.
    pub consumer: Function,
    /// The table's name.
    pub table: String,
    /// The table's attribute that entries expire by, if they do.
    pub expires_by: Option<String>,
    /// The ARN of where alarms are told.
    pub topic: String,
    /// Who is told of alarms, and has confirmed that.
    pub subscribers: usize,
}

/// A queue's settings; times in seconds.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Its address.
    pub url: String,
    /// Its name for policies.
    pub arn: String,
    /// How long a received message is hidden.
    pub visibility: u64,
    /// How long a message is kept.
    pub retention: u64,
    /// The ARN of where messages go after so many receives.
    pub redrive: Option<(String, u64)>,
}

/// A function's settings.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// In seconds.
    pub timeout: u64,
    /// In megabytes.
    pub memory: u64,
    /// Its environment.
    pub variables: BTreeMap<String, String>,
    /// What is set aside for it, if that is anything.
    pub reserved: Option<u64>,
}

impl Function {
    /// A variable that is a number.
    #[must_use]
    pub fn number(&self, variable: &str) -> Option<u64> {
        self.variables.get(variable)?.parse().ok()
    }
}

impl Deployed {
    /// Asks the services, all at the same time.
    ///
    /// # Errors
    ///
    /// One of them did not answer, or we may not ask it.
    pub async fn read(stack: &Stack) -> Result<Self> {
        let outputs = &stack.outputs;
        // On the heap: seven futures in one are larger than a caller's stack likes.
        let answers = Box::pin(async {
            tokio::try_join!(
                Mapping::all(stack),
                queue(stack, &outputs.queue_url),
                queue(stack, &outputs.dead_letter_queue_url),
                function(stack, &outputs.producer),
                function(stack, &outputs.consumer),
                expires_by(stack),
                subscribers(stack),
            )
        });
        let (mappings, queue, dead_letters, producer, consumer, expires_by, subscribers) =
            answers.await?;
        let is_on_aws = stack.connection.endpoint().is_none();
        Ok(Self {
            stack: stack.name.clone(),
            is_on_aws,
            mappings,
            queue,
            dead_letters,
            producer,
            consumer,
            table: outputs.table_name.clone(),
            expires_by,
            topic: outputs.alarm_topic.clone(),
            subscribers,
        })
    }
}

async fn queue(stack: &Stack, url: &str) -> Result<Queue> {
    let queue = QueueAttributes::read(&stack.sqs, url).await?;
    let redrive = queue.get(&QueueAttributeName::RedrivePolicy).and_then(|policy| {
        let policy: Value = serde_json::from_str(policy).ok()?;
        let target = policy.get("deadLetterTargetArn")?.as_str()?.to_owned();
        Some((target, number(policy.get("maxReceiveCount"))?))
    });
    Ok(Queue {
        url: url.to_owned(),
        arn: queue.get(&QueueAttributeName::QueueArn).unwrap_or_default().to_owned(),
        visibility: queue.number(&QueueAttributeName::VisibilityTimeout).unwrap_or_default(),
        retention: queue.number(&QueueAttributeName::MessageRetentionPeriod).unwrap_or_default(),
        redrive,
    })
}

async fn function(stack: &Stack, name: &str) -> Result<Function> {
    let of_it = |operation| ["lambda", operation, "--function-name", name];
    let configuration = of_it("get-function-configuration");
    let concurrency = of_it("get-function-concurrency");
    let (configuration, concurrency) =
        tokio::try_join!(stack.aws.json(&configuration), stack.aws.json(&concurrency))?;
    let variables = configuration.pointer("/Environment/Variables").and_then(Value::as_object);
    let variables = variables.into_iter().flatten();
    Ok(Function {
        name: name.to_owned(),
        timeout: number(configuration.get("Timeout")).unwrap_or_default(),
        memory: number(configuration.get("MemorySize")).unwrap_or_default(),
        variables: variables
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
        reserved: number(concurrency.get("ReservedConcurrentExecutions")),
    })
}

async fn expires_by(stack: &Stack) -> Result<Option<String>> {
    let request = stack.dynamodb.describe_time_to_live().table_name(&stack.outputs.table_name);
    let answer = request.send().await.context("could not read how the table's entries expire")?;
    let setting = answer.time_to_live_description().filter(|setting| {
        matches!(
            setting.time_to_live_status(),
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        )
    });
    Ok(setting.and_then(|setting| setting.attribute_name()).map(str::to_owned))
}

async fn subscribers(stack: &Stack) -> Result<usize> {
    let topic = stack.outputs.alarm_topic.as_str();
    let listed =
        stack.aws.json(&["sns", "list-subscriptions-by-topic", "--topic-arn", topic]).await?;
    let all = listed.get("Subscriptions").and_then(Value::as_array);
    // One that nobody has confirmed says so in place of its ARN.
    let is_confirmed = |subscription: &&Value| {
        let arn = subscription.get("SubscriptionArn").and_then(Value::as_str);
        arn.is_some_and(|arn| arn.starts_with("arn:"))
    };
    Ok(all.into_iter().flatten().filter(is_confirmed).count())
}
