//! Conditions and updates as DynamoDB reads them.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use uuid::Uuid;

use super::{Item, number, string};
use crate::entry::State;
use crate::principal::Principal;
use crate::sources::Timestamp;
use crate::table::{Again, PutIf, Settlement};

/// The expression of a condition and the values in it.
///
/// `token` is the lease token of the entry that is put, if it has one.
pub(super) fn put_condition(
    condition: &PutIf,
    token: Option<Uuid>,
    now: Timestamp,
) -> (String, Item) {
    let mut values = Item::from([(":now_seconds".to_owned(), number(now.as_seconds()))]);
    let absent = "attribute_not_exists(#job_id) OR #expires_at <= :now_seconds";
    let expression = match condition {
        PutIf::Absent => absent.to_owned(),
        PutIf::Claimable { fingerprint, again } => {
            let claimable = claimable(*again, token, now, &mut values);
            match fingerprint {
                Some(fingerprint) => {
                    values.insert(":fingerprint".to_owned(), string(fingerprint.as_str()));
                    format!("{absent} OR (#fingerprint = :fingerprint AND ({claimable}))")
                }
                None => format!("{absent} OR ({claimable})"),
            }
        }
        PutIf::Unclaimed { fingerprint } => {
            values.insert(":queued".to_owned(), string(State::Queued.as_str()));
            values.insert(":fingerprint".to_owned(), string(fingerprint.as_str()));
            format!("{absent} OR (#state = :queued AND #fingerprint = :fingerprint)")
        }
    };
    (expression, values)
}

/// The condition that a job may run, and was not claimed under `token` before;
/// the values in it are added to `values`.
fn claimable(again: Again, token: Option<Uuid>, now: Timestamp, values: &mut Item) -> String {
    values.insert(":failed".to_owned(), string(State::Failed.as_str()));
    values.insert(":queued".to_owned(), string(State::Queued.as_str()));
    values.insert(":now_ms".to_owned(), number(now.as_millis()));
    let again = match again {
        Again::Any => {
            values.insert(":running".to_owned(), string(State::Running.as_str()));
            "#state = :failed OR (#state = :running AND #lease_until < :now_ms)"
        }
        Again::FailedBefore(moment) => {
            values.insert(":failed_before".to_owned(), number(moment.as_millis()));
            "(#state = :failed AND #updated_at < :failed_before)"
        }
    };
    let claimable = format!(
        "{again} OR (#state = :queued AND \
         (attribute_not_exists(#not_before) OR #not_before <= :now_ms))"
    );
    let Some(token) = token else { return claimable };
    values.insert(":token".to_owned(), string(token.to_string()));
    format!("({claimable}) AND (attribute_not_exists(#lease_token) OR #lease_token <> :token)")
}

/// What an update sets and what it removes.
pub(super) struct Change {
    pub(super) set: Vec<(&'static str, AttributeValue)>,
    pub(super) remove: Vec<&'static str>,
}

/// What a settlement changes.
pub(super) fn settle_change(settlement: &Settlement, now: Timestamp) -> Change {
    let mut set = vec![];
    match settlement {
        Settlement::Complete { result, result_omitted } => {
            set.extend(result.as_deref().map(|result| ("result", string(result))));
            set.push(("result_omitted", AttributeValue::Bool(*result_omitted)));
        }
        Settlement::Release { error, not_before } => {
            set.push(("error", string(error)));
            set.push(("not_before", number(not_before.as_millis())));
        }
        Settlement::Fail(failure) | Settlement::Hold(failure) => {
            set.push(("reason", string(failure.reason)));
            set.push(("error", string(&failure.error)));
        }
    }
    change(settlement.state(), now, set)
}

/// What a cancellation changes.
pub(super) fn cancel_change(now: Timestamp) -> Change {
    change(State::Cancelled, now, vec![])
}

/// The condition of a cancellation; the values in it are added to `values`.
///
/// It fails where there is no item: no attribute of it exists then.
pub(super) fn cancel_condition(
    principal: &Principal,
    now: Timestamp,
    values: &mut Item,
) -> &'static str {
    values.extend(
        [
            (":principal", string(principal.as_str())),
            (":now_seconds", number(now.as_seconds())),
            (":now_ms", number(now.as_millis())),
            (":queued", string(State::Queued.as_str())),
            (":running", string(State::Running.as_str())),
            (":no", AttributeValue::Bool(false)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    "#principal = :principal AND #expires_at > :now_seconds AND (#state = :queued \
     OR (#state = :running AND #lease_until < :now_ms AND #last_attempt = :no))"
}

/// A change to `state` that sets `set` and removes what else the last attempt
/// left.
pub(super) fn change(
    state: State,
    now: Timestamp,
    mut set: Vec<(&'static str, AttributeValue)>,
) -> Change {
    set.push(("state", string(state.as_str())));
    set.push(("updated_at", number(now.as_millis())));
    let mut remove = vec!["lease_until", "not_before", "reason", "error"];
    remove.retain(|attribute| set.iter().all(|(name, _)| name != attribute));
    Change { set, remove }
}

impl Change {
    /// The update expression and the values in it.
    pub(super) fn expression(self) -> (String, Item) {
        let assignments: Vec<_> =
            self.set.iter().map(|(name, _)| format!("#{name} = :set_{name}")).collect();
        let removals: Vec<_> = self.remove.iter().map(|name| format!("#{name}")).collect();
        let expression = format!("SET {} REMOVE {}", assignments.join(", "), removals.join(", "));
        let values =
            self.set.into_iter().map(|(name, value)| (format!(":set_{name}"), value)).collect();
        (expression, values)
    }
}

/// Maps each `#name` of an expression to the attribute `name`, so that no
/// attribute can clash with DynamoDB's reserved words.
pub(super) fn names_in(expression: &str) -> HashMap<String, String> {
    expression
        .split('#')
        .skip(1)
        .map(|rest| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name = rest.split(|c| !is_name(c)).next().unwrap_or_default();
            (format!("#{name}"), name.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_of_an_expression_goes_through_a_placeholder() {
        let names = names_in("SET #a = :a, #b_c = :b REMOVE #d attribute_not_exists(#e)");
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort();
        let expected = ["a", "b_c", "d", "e"].map(|name| (format!("#{name}"), name.to_owned()));
        assert_eq!(names, expected);
    }
}
