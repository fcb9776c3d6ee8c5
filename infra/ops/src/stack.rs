//! A deployed stack, in an account or in the emulator, and clients for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;

use crate::api::{Api, Caller};
use crate::aws::AwsCli;
use crate::connection::Connection;
use crate::emulator::Emulator;
use crate::logs::Logs;
use crate::messages::MOST_RECEIVED;
use crate::outputs::Outputs;
use crate::queue_attributes::QueueAttributes;
use crate::tools::Tools;

/// A job entry's attributes by name.
pub type Entry = std::collections::HashMap<String, AttributeValue>;

/// Where the packaged functions are put for the deployment.
const BUCKET: &str = "relevo-artifacts";

/// One deployment of the template.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The stack's name.
    pub name: String,
    /// What it is made of.
    pub outputs: Outputs,
    /// Its HTTP API.
    pub api: Api,
    /// Its functions' logs.
    pub logs: Logs,
    /// For its queues.
    pub sqs: aws_sdk_sqs::Client,
    /// For its table.
    pub dynamodb: aws_sdk_dynamodb::Client,
    /// For everything else.
    pub aws: AwsCli,
    /// Where it lies.
    pub connection: Connection,
}

impl Stack {
    /// A stack that is deployed already, called by whoever the connection is.
    ///
    /// # Errors
    ///
    /// There is none of this name, or it is not one of this template.
    pub async fn open(tools: &Tools, connection: Connection, name: &str) -> Result<Self> {
        let aws = AwsCli::new(tools.clone(), connection.clone());
        let region = connection.region()?;
        let describe = ["cloudformation", "describe-stacks", "--stack-name", name];
        let described = aws.json(&describe).await.map_err(|error| {
            if error.to_string().ends_with("does not exist") {
                anyhow!(
                    "there is no stack {name} in {region} in this account; choose another with \
                     --stack, --region or --profile"
                )
            } else {
                error
            }
        })?;
        let outputs = Outputs::read(&described)
            .with_context(|| format!("the stack {name} is not made of infra/template.yaml"))?;
        let mut stack = Self::known(aws, connection, name, outputs)?;
        let caller = Caller::Signature(stack.connection.credentials().await?);
        stack.api = stack.api.called_by(caller);
        Ok(stack)
    }

    /// A stack whose outputs are known, called by nobody in particular.
    ///
    /// # Errors
    ///
    /// The connection has no region.
    pub fn known(
        aws: AwsCli,
        connection: Connection,
        name: &str,
        outputs: Outputs,
    ) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            api: Api::of_stack(&connection, &outputs)?,
            logs: Logs::new(connection.clone()),
            sqs: connection.sqs(),
            dynamodb: connection.dynamodb(),
            outputs,
            aws,
            connection,
        })
    }

    /// Packages and deploys `template`, with the functions that lie where it says.
    ///
    /// # Errors
    ///
    /// The template or the functions were refused.
    pub async fn deploy(
        emulator: &Emulator,
        tools: &Tools,
        template: &Path,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Self> {
        let connection = Connection::emulator(&emulator.endpoint());
        let aws = AwsCli::new(tools.clone(), connection.clone());
        let packaged = emulator.state().join(format!("{name}.json"));
        package(&aws, template, &packaged).await?;
        deploy(&aws, &packaged, name, parameters).await?;
        let mut stack = Self::open(tools, connection, name).await?;
        stack.api = stack.api.called_by(Caller::Anyone);
        Ok(stack)
    }

    /// A job's entry as it is stored, or `None`.
    ///
    /// # Errors
    ///
    /// The table did not answer.
    pub async fn entry(&self, id: &str) -> Result<Option<Entry>> {
        let answer = self
            .dynamodb
            .get_item()
            .table_name(&self.outputs.table_name)
            .key("job_id", AttributeValue::S(id.to_owned()))
            .consistent_read(true)
            .send()
            .await
            .context("could not read the job's entry")?;
        Ok(answer.item)
    }

    /// Waits until the queue holds nothing, visible or not.
    ///
    /// # Errors
    ///
    /// It still did after `patience`, or did not answer.
    pub async fn wait_until_queue_is_empty(&self, patience: Duration) -> Result<()> {
        eventually(patience, "the queue is empty", async || {
            Ok(self.queue_depth().await?.is_empty().then_some(()))
        })
        .await
    }

    /// A function's own variables.
    ///
    /// # Errors
    ///
    /// Lambda did not answer.
    pub async fn variables(&self, function: &str) -> Result<BTreeMap<String, String>> {
        let mut arguments = vec!["lambda", "get-function-configuration", "--function-name"];
        arguments.extend([function, "--query", "Environment.Variables"]);
        let variables = self.aws.json(&arguments).await?;
        serde_json::from_value(variables).with_context(|| format!("{function} has no variables"))
    }

    /// The queue's ARN.
    ///
    /// # Errors
    ///
    /// The queue did not answer.
    pub async fn queue_arn(&self) -> Result<String> {
        let queue = QueueAttributes::read(&self.sqs, &self.outputs.queue_url).await?;
        Ok(queue.text(&QueueAttributeName::QueueArn)?.to_owned())
    }

    /// How many messages the queue holds.
    ///
    /// # Errors
    ///
    /// The queue did not answer.
    pub async fn queue_depth(&self) -> Result<Depth> {
        use aws_sdk_sqs::types::QueueAttributeName as Name;
        let queue = QueueAttributes::read(&self.sqs, &self.outputs.queue_url).await?;
        Ok(Depth {
            visible: queue.number(&Name::ApproximateNumberOfMessages).unwrap_or_default(),
            in_flight: queue
                .number(&Name::ApproximateNumberOfMessagesNotVisible)
                .unwrap_or_default(),
        })
    }

    /// Takes the dead letter whose body is `body` out of the dead-letter queue.
    ///
    /// # Errors
    ///
    /// It was not there within `patience`, or the queue did not answer.
    pub async fn wait_for_dead_letter(
        &self,
        body: &str,
        patience: Duration,
    ) -> Result<aws_sdk_sqs::types::Message> {
        eventually(patience, "the message is in the dead-letter queue", async || {
            self.find_dead_letter(|letter| letter == body).await
        })
        .await
    }

    /// Takes a dead letter that names this job out of the dead-letter queue.
    ///
    /// # Errors
    ///
    /// There was none within `patience`, or the queue did not answer.
    pub async fn wait_for_letter_of(
        &self,
        id: &str,
        patience: Duration,
    ) -> Result<aws_sdk_sqs::types::Message> {
        eventually(patience, "the job's message is in the dead-letter queue", async || {
            self.find_dead_letter(|letter| letter.contains(id)).await
        })
        .await
    }

    async fn find_dead_letter(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Option<aws_sdk_sqs::types::Message>> {
        let url = &self.outputs.dead_letter_queue_url;
        let received = self
            .sqs
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(MOST_RECEIVED)
            // Both short, so that others who look at the same queue find theirs soon.
            .wait_time_seconds(0)
            .visibility_timeout(1)
            .message_attribute_names("All")
            .send()
            .await
            .context("could not read the dead-letter queue")?;
        let mut letters = received.messages().iter();
        let letter = letters.find(|letter| letter.body().is_some_and(&is_wanted));
        if let Some(handle) = letter.and_then(|letter| letter.receipt_handle()) {
            let delete = self.sqs.delete_message().queue_url(url).receipt_handle(handle);
            delete.send().await.context("could not delete the dead letter")?;
        }
        Ok(letter.cloned())
    }
}

/// How many messages a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Waiting to be received.
    pub visible: u32,
    /// Received and not deleted yet.
    pub in_flight: u32,
}

impl Depth {
    const fn is_empty(self) -> bool {
        self.visible == 0 && self.in_flight == 0
    }
}

/// Asks again and again until there is an answer.
///
/// # Errors
///
/// There was none within `patience`, or asking failed.
pub async fn eventually<T>(
    patience: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    const PAUSE: Duration = Duration::from_millis(50);
    let waiting = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(patience, waiting)
        .await
        .with_context(|| format!("{what}: not within {} s", patience.as_secs()))?
}

/// Uploads the functions, and writes the template that says where to.
async fn package(aws: &AwsCli, template: &Path, packaged: &Path) -> Result<()> {
    let (template, packaged) = (template.to_string_lossy(), packaged.to_string_lossy());
    aws.call(&["s3", "mb", &format!("s3://{BUCKET}")]).await?;
    let mut package = vec!["cloudformation", "package", "--use-json", "--s3-bucket", BUCKET];
    package.extend(["--template-file", &*template, "--output-template-file", &*packaged]);
    aws.call(&package).await
}

async fn deploy(
    aws: &AwsCli,
    packaged: &Path,
    name: &str,
    parameters: &[(&str, &str)],
) -> Result<()> {
    let packaged = packaged.to_string_lossy();
    let overrides: Vec<_> =
        parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut deploy = vec!["cloudformation", "deploy", "--stack-name", name];
    deploy.extend(["--template-file", &*packaged]);
    // The template is larger than what a request may carry.
    deploy.extend(["--s3-bucket", BUCKET, "--capabilities", "CAPABILITY_IAM"]);
    deploy.push("--parameter-overrides");
    deploy.extend(overrides.iter().map(String::as_str));
    aws.call(&deploy).await
}
