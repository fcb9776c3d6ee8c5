//! The roles may do what the functions do, and nothing else.
//!
//! The emulator enforces IAM for every call that a function makes. It does not
//! for what AWS's own poller does in the consumer's name (receive, delete, read
//! the queue's attributes), and no claim here leads to the consumer's `GetItem`
//! (the emulator always returns the old item); for a group of writes it asks for
//! an action that AWS does not have. Those six are only evaluated.

use ops::messages::send_all;
use ops::role::Role;
use ops::stack::{Stack, eventually};

use crate::support::{PARAMETERS, PATIENCE, accepted, end_to_end, ended, new_id, probe, report};

/// Everything that one of the roles might be thought to need.
const ACTIONS: [&str; 15] = [
    "dynamodb:BatchWriteItem",
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PartiQLInsert",
    "dynamodb:PartiQLUpdate",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:Scan",
    "dynamodb:UpdateItem",
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:PurgeQueue",
    "sqs:ReceiveMessage",
    "sqs:SendMessage",
];

#[test]
fn each_role_may_do_exactly_what_it_needs() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let outputs = &stack.outputs;
        let queue = queue_arn(stack, &outputs.queue_url).await;
        let letters = queue_arn(stack, &outputs.dead_letter_queue_url).await;
        let arguments = ["dynamodb", "describe-table", "--table-name", &outputs.table_name];
        let table = stack.aws.json(&arguments).await.unwrap()["Table"]["TableArn"].clone();
        let table = table.as_str().unwrap();

        let producer = Role::of(stack, &outputs.producer).await.unwrap();
        let of_the_queue = ["sqs:GetQueueAttributes", "sqs:SendMessage"];
        may_exactly(stack, &producer, &of_the_queue, &queue).await;
        may_exactly(stack, &producer, &[], &letters).await;
        let of_the_table = [
            "dynamodb:GetItem",
            "dynamodb:PartiQLInsert",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ];
        may_exactly(stack, &producer, &of_the_table, table).await;

        let consumer = Role::of(stack, &outputs.consumer).await.unwrap();
        let of_the_queue = [
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ReceiveMessage",
        ];
        may_exactly(stack, &consumer, &of_the_queue, &queue).await;
        may_exactly(stack, &consumer, &["sqs:SendMessage"], &letters).await;
        let of_the_table = [
            "dynamodb:GetItem",
            "dynamodb:PartiQLUpdate",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ];
        may_exactly(stack, &consumer, &of_the_table, table).await;
        for role in [producer, consumer] {
            may_exactly(stack, &role, &[], "arn:aws:sqs:us-east-1:000000000000:another-queue")
                .await;
            may_exactly(stack, &role, &[], "arn:aws:dynamodb:us-east-1:000000000000:table/another")
                .await;
        }
    });
}

/// A refused call is an error of the set-up, so the answer is 500, never 202.
#[test]
fn the_producer_needs_each_of_its_actions() {
    end_to_end(async |local| {
        let stack = local.another_stack("producer-policy", &PARAMETERS).await.unwrap();
        let role = Role::of(&stack, &stack.outputs.producer).await.unwrap();
        let request = report("Policy").to_string();
        let id = accepted(&stack, &report("Policy"), None).await;

        let policy = role.without("queue", "sqs:SendMessage*").await.unwrap();
        let unkeyed = stack.api.post_job(request.as_str(), None).await.unwrap();
        assert_eq!(unkeyed.status, 500, "sqs:SendMessage: {}", unkeyed.body);
        role.restore("queue", &policy).await.unwrap();

        let policy = role.without("table", "dynamodb:PutItem").await.unwrap();
        let keyed = stack.api.post_job(request.as_str(), Some(&new_id())).await.unwrap();
        assert_eq!(keyed.status, 500, "dynamodb:PutItem: {}", keyed.body);
        role.restore("table", &policy).await.unwrap();

        let policy = role.without("table", "dynamodb:GetItem").await.unwrap();
        let job = stack.api.job(&id).await.unwrap();
        assert_eq!(job.status, 500, "dynamodb:GetItem: {}", job.body);
        role.restore("table", &policy).await.unwrap();

        let policy = role.without("table", "dynamodb:UpdateItem").await.unwrap();
        let cancelled = stack.api.cancel(&id).await.unwrap();
        assert_eq!(cancelled.status, 500, "dynamodb:UpdateItem: {}", cancelled.body);
        role.restore("table", &policy).await.unwrap();

        assert_eq!(stack.api.job(&id).await.unwrap().status, 200);
    });
}

#[test]
fn the_consumer_needs_each_of_its_actions() {
    end_to_end(async |local| {
        let stack = local.another_stack("consumer-policy", &PARAMETERS).await.unwrap();
        let role = Role::of(&stack, &stack.outputs.consumer).await.unwrap();

        let policy = role.without("dead-letters", "sqs:SendMessage").await.unwrap();
        send_all(&stack, &["no job".to_owned()]).await.unwrap();
        wait_for_log(&stack, "dead letter not sent").await;
        role.restore("dead-letters", &policy).await.unwrap();

        let policy = role.without("queue", "sqs:ChangeMessageVisibility").await.unwrap();
        accepted(&stack, &probe(&["fail", "succeed"]), None).await;
        wait_for_log(&stack, "visibility not changed").await;
        role.restore("queue", &policy).await.unwrap();

        let policy = role.without("table", "dynamodb:UpdateItem").await.unwrap();
        accepted(&stack, &report("Update"), None).await;
        wait_for_log(&stack, "\"outcome\":\"not-stored\"").await;
        role.restore("table", &policy).await.unwrap();

        let policy = role.without("table", "dynamodb:PutItem").await.unwrap();
        accepted(&stack, &report("Put"), None).await;
        wait_for_log(&stack, "\"outcome\":\"table-unreachable\"").await;
        role.restore("table", &policy).await.unwrap();

        let id = accepted(&stack, &report("Restored"), None).await;
        assert_eq!(ended(&stack, &id).await["state"], "succeeded");
    });
}

/// Checks all of [`ACTIONS`] on `resource` against those that are `allowed`.
async fn may_exactly(stack: &Stack, role: &Role<'_>, allowed: &[&str], resource: &str) {
    let mut arguments = vec!["iam", "simulate-principal-policy"];
    arguments.extend(["--policy-source-arn", &role.arn, "--resource-arns", resource]);
    arguments.push("--action-names");
    arguments.extend(ACTIONS);
    let answer = stack.aws.json(&arguments).await.unwrap();
    let results = answer["EvaluationResults"].as_array().unwrap();
    assert_eq!(results.len(), ACTIONS.len());
    let granted: Vec<_> = results
        .iter()
        .filter(|result| result["EvalDecision"] == "allowed")
        .map(|result| result["EvalActionName"].as_str().unwrap())
        .collect();
    assert_eq!(granted, allowed, "{} on {resource}", role.name);
}

async fn queue_arn(stack: &Stack, url: &str) -> String {
    let mut arguments = vec!["sqs", "get-queue-attributes", "--queue-url", url];
    arguments.extend(["--attribute-names", "QueueArn"]);
    let answer = stack.aws.json(&arguments).await.unwrap();
    answer["Attributes"]["QueueArn"].as_str().unwrap().to_owned()
}

async fn wait_for_log(stack: &Stack, text: &str) {
    let what = format!("the consumer logs {text}");
    let logged = eventually(PATIENCE, &what, async || {
        let lines = stack.logs.of_function(&stack.outputs.consumer, 0).await?;
        Ok(lines.iter().any(|line| line.message.contains(text)).then_some(()))
    });
    logged.await.unwrap();
}
