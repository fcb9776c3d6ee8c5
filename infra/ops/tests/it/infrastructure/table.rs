//! What is kept.

use serde_json::json;

use super::{Break, Rule};

pub(super) const RULES: &[Rule] = &[
    ("what holds data is not replaced but by a person's word", |it| {
        // CloudFormation refuses to replace what has a name; an import needs it, too.
        it.properties("Table")["TableName"] == "relevo-jobs"
            && it.properties("Queue")["QueueName"] == "relevo-jobs"
            && it.properties("DeadLetterQueue")["QueueName"] == "relevo-dead-letters"
    }),
    ("the table grows by itself and forgets by itself", |it| {
        let table = it.properties("Table");
        let ttl = json!({ "AttributeName": "expires_at", "Enabled": true });
        table["BillingMode"] == "PAY_PER_REQUEST" && table["TimeToLiveSpecification"] == ttl
    }),
    ("the table can be put back to any second of the last month", |it| {
        let table = it.properties("Table");
        table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] == true
            && table["SSESpecification"]["SSEEnabled"] == true
    }),
    ("an update loses nothing, and a deletion only what may be lost", |it| {
        let keeps = it.parameter("KeepData") == "true";
        let policy = if keeps { "RetainExceptOnCreate" } else { "Delete" };
        it.properties("Table")["DeletionProtectionEnabled"] == keeps
            && ["Table", "Queue", "DeadLetterQueue"].iter().all(|id| {
                let resource = it.resource(id);
                resource["UpdateReplacePolicy"] == "Retain" && resource["DeletionPolicy"] == policy
            })
    }),
];

pub(super) const BREAKS: &[Break] = &[
    (
        "what holds data is not replaced but by a person's word",
        "Table/Properties/TableName",
        "null",
        0,
    ),
    (
        "the table grows by itself and forgets by itself",
        "Table/Properties/TimeToLiveSpecification/AttributeName",
        "\"ttl\"",
        0,
    ),
    (
        "the table can be put back to any second of the last month",
        "Table/Properties/PointInTimeRecoverySpecification",
        "{}",
        0,
    ),
    (
        "an update loses nothing, and a deletion only what may be lost",
        "Table/DeletionPolicy",
        "\"Delete\"",
        0,
    ),
];
