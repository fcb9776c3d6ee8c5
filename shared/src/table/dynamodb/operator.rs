//! What only an operator does with the job table, by the command line.

use std::collections::HashMap;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::KeysAndAttributes;

use super::expression::change;
use super::{DynamoJobTable, Item, JOB_ID, number, read_item, read_optional, string};
use crate::aws::CallError;
use crate::entry::{JobEntry, State};
use crate::job_id::JobId;
use crate::sources::Timestamp;
use crate::table::{TableError, Written};

/// Keys of one `BatchGetItem`.
///
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html>
const MOST_KEYS: usize = 100;

/// What an operator decides about a job whose message is a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may run again: its message is sent back.
    Again,
    /// It has failed.
    Failed(Cause),
    /// It was interrupted, and must not run again by itself.
    Held(Cause),
}

/// Why a job has not succeeded, as its dead letter tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// A word such as `permanent`.
    pub reason: String,
    /// One sentence.
    pub error: String,
}

impl DynamoJobTable {
    /// Reads the entries of several jobs as [`super::JobTable::get`] reads one,
    /// in any order. Jobs without an entry are left out.
    ///
    /// # Errors
    ///
    /// There is no answer to rely on, or an item is no entry.
    pub async fn get_all(&self, ids: &[JobId]) -> Result<Vec<JobEntry>, TableError> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        // DynamoDB refuses a call that names a key twice.
        ids.dedup();
        let mut found = Vec::new();
        for some in ids.chunks(MOST_KEYS) {
            let keys =
                some.iter().map(|id| Item::from([(JOB_ID.to_owned(), string(id.to_string()))]));
            let keys = KeysAndAttributes::builder().set_keys(Some(keys.collect()));
            let keys = keys.consistent_read(true).build();
            let keys = keys.map_err(|error| failed_read(error.into()))?;
            let mut open = Some(HashMap::from([(self.name.clone(), keys)]));
            // What would have made the answer too large is left for another call.
            while let Some(request) = open.filter(|request| !request.is_empty()) {
                let answer = self.client.batch_get_item().set_request_items(Some(request));
                let answer = answer.send().await.map_err(failed_read)?;
                for item in answer.responses.unwrap_or_default().into_values().flatten() {
                    // Only what was asked for is answered, so every item has its key.
                    let id = item.get(JOB_ID).and_then(|id| id.as_s().ok()?.parse().ok());
                    found.extend(id.map(|id| read_item(id, &item)).transpose()?);
                }
                open = answer.unprocessed_keys;
            }
        }
        Ok(found)
    }

    /// Writes a verdict, if the entry is still as it was `seen`: nobody has
    /// claimed, given back or ended the job since.
    ///
    /// # Errors
    ///
    /// There is no answer to rely on. The write may have taken effect.
    pub async fn rule(
        &self,
        seen: &JobEntry,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<Written, TableError> {
        let (state, cause) = match verdict {
            Verdict::Again => (State::Queued, None),
            Verdict::Failed(cause) => (State::Failed, Some(cause)),
            Verdict::Held(cause) => (State::Held, Some(cause)),
        };
        let set = cause.into_iter().flat_map(|Cause { reason, error }| {
            [("reason", string(reason)), ("error", string(error))]
        });
        let (update, mut values) = change(state, now, set.collect()).expression();
        let condition = unchanged(seen, &mut values);
        match self.update(seen.id, update, &condition, values).send().await {
            Ok(_) => Ok(Written::Yes),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    Ok(Written::No(read_optional(seen.id, refused.item())?))
                }
                _ => Err(CallError::new("UpdateItem", error).into()),
            },
        }
    }
}

/// The condition that an entry is as it was seen: each write of a function
/// changes one of these. The values in it are added to `values`.
fn unchanged(seen: &JobEntry, values: &mut Item) -> String {
    values.insert(":seen_state".to_owned(), string(seen.state.as_str()));
    values.insert(":seen_at".to_owned(), number(seen.updated_at.as_millis()));
    let token = match seen.lease_token {
        Some(token) => {
            values.insert(":seen_token".to_owned(), string(token.to_string()));
            "#lease_token = :seen_token"
        }
        None => "attribute_not_exists(#lease_token)",
    };
    format!("#state = :seen_state AND #updated_at = :seen_at AND {token}")
}

fn failed_read(error: SdkError<BatchGetItemError, HttpResponse>) -> CallError {
    CallError::new("BatchGetItem", error)
}
