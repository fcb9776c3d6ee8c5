//! Writes of several jobs in one call to DynamoDB.
//!
//! `BatchExecuteStatement` carries out up to 25 statements, each on a condition
//! of its own, for the write units of single calls, and tells of each whether
//! it failed. Two for the same item are refused with all the others. An
//! `INSERT` writes nothing where there is an item, and an `UPDATE` nothing where
//! its `WHERE` does not hold or its item is not there. `PartiQL` has no
//! placeholders for names, so they are quoted.
//!
//! <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html>
//! <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchStatementError.html>
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html>
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.update.html>

use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::types::BatchStatementErrorCodeEnum as Code;
use aws_sdk_dynamodb::types::{AttributeValue, BatchStatementRequest, BatchStatementResponse};
use aws_types::SdkConfig;

use super::expression::{Change, settle_change};
use super::{DynamoJobTable, JOB_ID, attributes, present, string};
use crate::aws::CallError;
use crate::entry::{JobEntry, State};
use crate::table::{GroupError, GroupTable, GroupWrite};

/// Codes of a call that was refused, and will be the next time: the operation,
/// its statements, or the caller's right to it is not known there.
const NOT_SUPPORTED: [&str; 3] =
    ["ValidationException", "AccessDeniedException", "UnknownOperationException"];

/// Tells a job from others under its id.
const FINGERPRINT: &str = "fingerprint";

/// Room for a statement, so that it need not grow.
const STATEMENT_BYTES: usize = 768;

/// Half the time of other calls: what a group did not answer is asked again, and
/// whoever waits has the time of one call for both.
pub(super) fn timeouts(config: &SdkConfig) -> TimeoutConfig {
    let timeouts = config.timeout_config().cloned().unwrap_or(TimeoutConfig::disabled());
    let half = timeouts.operation_timeout().map(|limit| limit / 2);
    let mut timeouts = timeouts.into_builder();
    timeouts.set_operation_timeout(half);
    timeouts.build()
}

impl GroupTable for DynamoJobTable {
    async fn write_group(&self, writes: &[GroupWrite]) -> Result<Vec<bool>, GroupError> {
        let statements: Result<_, _> =
            writes.iter().map(|write| statement(&self.name, write)).collect();
        let answer = match statements {
            Ok(statements) => {
                let call = self.client.batch_execute_statement().set_statements(Some(statements));
                let timeouts = Builder::new().timeout_config(self.group_timeouts.clone());
                call.customize().config_override(timeouts).send().await
            }
            Err(error) => Err(SdkError::construction_failure(error)),
        };
        match answer.map_err(|error| CallError::new("BatchExecuteStatement", error)) {
            Ok(answer) => read_answers(writes.len(), answer.responses()),
            Err(error) if error.code().is_some_and(|code| NOT_SUPPORTED.contains(&code)) => {
                Err(GroupError::NotSupported(error.describe()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Which statements were carried out, in their order.
fn read_answers(
    statements: usize,
    answers: &[BatchStatementResponse],
) -> Result<Vec<bool>, GroupError> {
    if answers.len() != statements {
        // Nobody knows which answer is whose.
        return Ok(vec![false; statements]);
    }
    if let Some(refusals) = answers.iter().map(not_supported).collect::<Option<Vec<_>>>()
        && let Some(refusal) = refusals.first()
    {
        return Err(GroupError::NotSupported(format!("each statement was refused: {refusal}")));
    }
    Ok(answers.iter().map(|answer| answer.error().is_none()).collect())
}

/// What a statement was told that is not understood or not allowed.
fn not_supported(answer: &BatchStatementResponse) -> Option<&str> {
    let error = answer.error()?;
    let is_refused = matches!(error.code()?, Code::ValidationError | Code::AccessDenied);
    is_refused.then(|| error.message().unwrap_or("no message"))
}

/// The statement that makes a write in `table`.
fn statement(table: &str, write: &GroupWrite) -> Result<BatchStatementRequest, BuildError> {
    match write {
        GroupWrite::Create { entry } => insert(table, entry),
        GroupWrite::Claim { entry, fingerprint } => {
            let mut equal = vec![
                (JOB_ID, string(entry.id.to_string())),
                ("state", string(State::Queued.as_str())),
            ];
            let mut change = claim_change(entry);
            if let Some(fingerprint) = fingerprint {
                equal.push((FINGERPRINT, string(fingerprint.as_str())));
                if *fingerprint == entry.fingerprint {
                    // It would be the longest value of all, and is there already.
                    change.set.retain(|(name, _)| *name != FINGERPRINT);
                }
            }
            update(table, change, equal, &["lease_token", "not_before"])
        }
        GroupWrite::Settle { id, token, settlement, now } => {
            let equal = vec![
                (JOB_ID, string(id.to_string())),
                ("state", string(State::Running.as_str())),
                ("lease_token", string(token.to_string())),
            ];
            update(table, settle_change(settlement, *now), equal, &[])
        }
    }
}

fn insert(table: &str, entry: &JobEntry) -> Result<BatchStatementRequest, BuildError> {
    let mut statement = String::with_capacity(STATEMENT_BYTES);
    statement.extend(["INSERT INTO \"", table, "\" VALUE {"]);
    let mut parameters = Vec::new();
    for (name, value) in present(entry) {
        let separator = if parameters.is_empty() { "" } else { "," };
        statement.extend([separator, "'", name, "':?"]);
        parameters.push(value);
    }
    statement.push('}');
    BatchStatementRequest::builder().statement(statement).set_parameters(Some(parameters)).build()
}

/// What a claim may have to change: everything, so that the item becomes what a put of
/// `entry` makes of it. It keeps only attributes that this code does not know.
fn claim_change(entry: &JobEntry) -> Change {
    let (mut set, mut remove) = (vec![], vec![]);
    for (name, value) in attributes(entry).into_iter().filter(|(name, _)| *name != JOB_ID) {
        match value {
            Some(value) => set.push((name, value)),
            None => remove.push(name),
        }
    }
    Change { set, remove }
}

/// An update of the item whose attributes are `equal` to these, if it has none
/// of those that are to be `missing`.
fn update(
    table: &str,
    change: Change,
    equal: Vec<(&str, AttributeValue)>,
    missing: &[&str],
) -> Result<BatchStatementRequest, BuildError> {
    let mut statement = String::with_capacity(STATEMENT_BYTES);
    statement.extend(["UPDATE \"", table, "\""]);
    let mut parameters = Vec::with_capacity(change.set.len() + equal.len());
    for (name, value) in change.set {
        statement.extend([" SET \"", name, "\"=?"]);
        parameters.push(value);
    }
    for name in change.remove {
        statement.extend([" REMOVE \"", name, "\""]);
    }
    let mut separator = " WHERE \"";
    for (name, value) in equal {
        statement.extend([separator, name, "\"=?"]);
        parameters.push(value);
        separator = " AND \"";
    }
    for name in missing {
        statement.extend([" AND \"", name, "\" IS MISSING"]);
    }
    BatchStatementRequest::builder().statement(statement).set_parameters(Some(parameters)).build()
}
