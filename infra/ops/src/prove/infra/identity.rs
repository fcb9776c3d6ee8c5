//! What a stack is made of that must outlive its updates.

use anyhow::Result;
use serde_json::Value;

use crate::stack::Stack;

/// What a replacement would change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    table: Value,
    queues: [Value; 2],
}

impl Identity {
    pub(super) async fn of(stack: &Stack) -> Result<Self> {
        let name = &stack.outputs.table_name;
        let query = ["--query", "Table.TableId"];
        let table = ["dynamodb", "describe-table", "--table-name", name];
        let table = stack.aws.json(&[&table[..], &query].concat()).await?;
        let queue = async |url: &str| {
            let arguments = ["sqs", "get-queue-attributes", "--queue-url", url];
            let names = ["--attribute-names", "QueueArn", "CreatedTimestamp"];
            stack.aws.json(&[&arguments[..], &names].concat()).await
        };
        let queues = [
            queue(&stack.outputs.queue_url).await?,
            queue(&stack.outputs.dead_letter_queue_url).await?,
        ];
        Ok(Self { table, queues })
    }
}

/// Whether the table or a queue is there.
pub(super) async fn exists(stack: &Stack) -> bool {
    let url = &stack.outputs.queue_url;
    let queue = ["sqs", "get-queue-attributes", "--queue-url", url];
    let table = ["dynamodb", "describe-table", "--table-name", &stack.outputs.table_name];
    stack.aws.call(&queue).await.is_ok() || stack.aws.call(&table).await.is_ok()
}

/// Deletes a stack, and waits until it is gone.
pub(super) async fn delete(stack: &Stack) -> Result<()> {
    stack.aws.call(&["cloudformation", "delete-stack", "--stack-name", &stack.name]).await?;
    let wait = ["cloudformation", "wait", "stack-delete-complete", "--stack-name", &stack.name];
    stack.aws.call(&wait).await
}
