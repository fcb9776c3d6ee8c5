//! The job table in DynamoDB: the only place that knows attribute names and
//! condition expressions.

mod expression;
mod group;
mod operator;

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use aws_types::SdkConfig;
use uuid::Uuid;

use self::expression::{cancel_change, cancel_condition, names_in, put_condition, settle_change};
pub use self::operator::{Cause, Verdict};
use super::{Cancellation, JobTable, PutIf, Settlement, TableError, Written};
use crate::aws::CallError;
use crate::entry::{JobEntry, State};
use crate::fingerprint::Fingerprint;
use crate::job_id::JobId;
use crate::principal::Principal;
use crate::sources::Timestamp;

type Item = HashMap<String, AttributeValue>;

/// The table's key, a String.
const JOB_ID: &str = "job_id";

/// Epoch **seconds**, the attribute of the table's TTL setting.
const EXPIRES_AT: &str = "expires_at";

/// Job entries in a DynamoDB table.
#[derive(Clone, Debug)]
pub struct DynamoJobTable {
    client: Client,
    name: String,
    /// How long the call of a group may take.
    group_timeouts: TimeoutConfig,
}

impl DynamoJobTable {
    /// The table `name`, reached as `config` says.
    #[must_use]
    pub fn new(config: &SdkConfig, name: impl Into<String>) -> Self {
        let group_timeouts = group::timeouts(config);
        Self { client: Client::new(config), name: name.into(), group_timeouts }
    }

    /// The request that changes an item if `condition` holds, and tells the
    /// item that there was if it does not.
    fn update(
        &self,
        id: JobId,
        update: String,
        condition: &str,
        values: Item,
    ) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.name)
            .key(JOB_ID, string(id.to_string()))
            .set_expression_attribute_names(Some(names_in(&format!("{update} {condition}"))))
            .set_expression_attribute_values(Some(values))
            .update_expression(update)
            .condition_expression(condition)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }
}

// The SDK's futures are kilobytes each. Boxed, they are not part of every job's.
impl JobTable for DynamoJobTable {
    async fn get(&self, id: JobId) -> Result<Option<JobEntry>, TableError> {
        let request = self
            .client
            .get_item()
            .table_name(&self.name)
            .key(JOB_ID, string(id.to_string()))
            .consistent_read(true);
        let answer = Box::pin(request.send()).await;
        let answer = answer.map_err(|error| CallError::new("GetItem", error))?;
        answer.item.map(|item| read_item(id, &item)).transpose()
    }

    async fn put(
        &self,
        entry: &JobEntry,
        condition: &PutIf,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let (condition, values) = put_condition(condition, entry.lease_token, now);
        let request = self
            .client
            .put_item()
            .table_name(&self.name)
            .set_item(Some(write_item(entry)))
            .set_expression_attribute_names(Some(names_in(&condition)))
            .set_expression_attribute_values(Some(values))
            .condition_expression(condition)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match Box::pin(request.send()).await {
            Ok(_) => Ok(Written::Yes),
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Written::No(read_optional(entry.id, refused.item())?))
                }
                _ => Err(CallError::new("PutItem", error).into()),
            },
        }
    }

    async fn settle(
        &self,
        id: JobId,
        token: Uuid,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let condition = "#state = :running AND #lease_token = :token";
        let (update, mut values) = settle_change(settlement, now).expression();
        values.insert(":running".to_owned(), string(State::Running.as_str()));
        values.insert(":token".to_owned(), string(token.to_string()));
        let request = self.update(id, update, condition, values);
        match Box::pin(request.send()).await {
            Ok(_) => Ok(Written::Yes),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Written::No(read_optional(id, refused.item())?))
                }
                _ => Err(CallError::new("UpdateItem", error).into()),
            },
        }
    }

    async fn cancel(
        &self,
        id: JobId,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Cancellation, TableError> {
        let (update, mut values) = cancel_change(now).expression();
        let condition = cancel_condition(principal, now, &mut values);
        let request = self.update(id, update, condition, values);
        match Box::pin(request.return_values(ReturnValue::AllNew).send()).await {
            // An answer without the item that was asked for reads as an item
            // without attributes: an error.
            Ok(answer) => {
                let item = answer.attributes.unwrap_or_default();
                Ok(Cancellation::Done(Box::new(read_item(id, &item)?)))
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Cancellation::Refused(read_optional(id, refused.item())?))
                }
                _ => Err(CallError::new("UpdateItem", error).into()),
            },
        }
    }
}

/// The entry that a refused write told of, if it did.
fn read_optional(id: JobId, item: Option<&Item>) -> Result<Option<Box<JobEntry>>, TableError> {
    item.map(|item| read_item(id, item).map(Box::new)).transpose()
}

/// Every attribute that an entry can have, with its value in this one.
fn attributes(entry: &JobEntry) -> [(&'static str, Option<AttributeValue>); 17] {
    [
        (JOB_ID, Some(string(entry.id.to_string()))),
        ("kind", Some(string(&entry.kind))),
        ("state", Some(string(entry.state.as_str()))),
        ("principal", Some(string(entry.principal.as_str()))),
        ("fingerprint", Some(string(entry.fingerprint.as_str()))),
        ("created_at", Some(number(entry.created_at.as_millis()))),
        ("updated_at", Some(number(entry.updated_at.as_millis()))),
        (EXPIRES_AT, Some(number(entry.expires_at.as_seconds()))),
        ("attempt", Some(number(u64::from(entry.attempt)))),
        ("last_attempt", Some(AttributeValue::Bool(entry.last_attempt))),
        ("result_omitted", Some(AttributeValue::Bool(entry.result_omitted))),
        ("lease_token", entry.lease_token.map(|token| string(token.to_string()))),
        ("lease_until", entry.lease_until.map(|until| number(until.as_millis()))),
        ("not_before", entry.not_before.map(|moment| number(moment.as_millis()))),
        ("reason", entry.reason.as_ref().map(string)),
        ("error", entry.error.as_ref().map(string)),
        ("result", entry.result.as_ref().map(string)),
    ]
}

/// The attributes that this entry has.
fn present(entry: &JobEntry) -> impl Iterator<Item = (&'static str, AttributeValue)> {
    attributes(entry).into_iter().filter_map(|(name, value)| Some((name, value?)))
}

fn write_item(entry: &JobEntry) -> Item {
    present(entry).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn read_item(id: JobId, item: &Item) -> Result<JobEntry, TableError> {
    let text = |name: &str| item.get(name)?.as_s().ok().map(String::as_str);
    let count = |name: &str| item.get(name)?.as_n().ok()?.parse::<u64>().ok();
    let millis = |name: &str| count(name).map(Timestamp::from_millis);
    let flag = |name: &str| item.get(name).and_then(|value| value.as_bool().ok().copied());
    let needed = |attribute| TableError::Unreadable { id, attribute };
    Ok(JobEntry {
        id,
        kind: text("kind").ok_or(needed("kind"))?.to_owned(),
        state: text("state").and_then(|state| state.parse().ok()).ok_or(needed("state"))?,
        principal: text("principal").map(Principal::from_text).ok_or(needed("principal"))?,
        fingerprint: text("fingerprint")
            .map(Fingerprint::from_text)
            .ok_or(needed("fingerprint"))?,
        created_at: millis("created_at").ok_or(needed("created_at"))?,
        updated_at: millis("updated_at").ok_or(needed("updated_at"))?,
        expires_at: count(EXPIRES_AT)
            .and_then(|seconds| seconds.checked_mul(1000))
            .map(Timestamp::from_millis)
            .ok_or(needed(EXPIRES_AT))?,
        attempt: count("attempt").and_then(|attempt| attempt.try_into().ok()).unwrap_or_default(),
        last_attempt: flag("last_attempt").unwrap_or_default(),
        lease_token: text("lease_token").and_then(|token| token.parse().ok()),
        lease_until: millis("lease_until"),
        not_before: millis("not_before"),
        reason: text("reason").map(str::to_owned),
        error: text("error").map(str::to_owned),
        result: text("result").map(str::to_owned),
        result_omitted: flag("result_omitted").unwrap_or_default(),
    })
}

fn string(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}
