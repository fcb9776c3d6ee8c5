//! Dead letters that failed alike, counted.

use std::collections::HashMap;

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;

use super::age::age;
use super::found::Summary;
use crate::output::{Style, print, print_json, table, with_ids};

/// The groups so far.
#[derive(Debug, Default)]
pub(super) struct Groups(HashMap<Alike, Group>);

/// What the letters of a group have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Alike {
    reason: String,
    kind: Option<String>,
    error: String,
}

/// Letters that failed alike.
#[derive(Clone, Debug, Serialize)]
struct Group {
    count: usize,
    reason: String,
    kind: Option<String>,
    /// That of the oldest.
    error: Option<String>,
    oldest_sent_at: String,
    #[serde(skip)]
    oldest_age_seconds: u64,
    /// The oldest, for `dlq show`.
    message_id: String,
}

impl Groups {
    /// Puts a letter into its group.
    pub(super) fn add(&mut self, letter: &Summary) {
        let Summary { reason, kind, error, .. } = letter.clone();
        let shape = error.as_deref().map(shape).unwrap_or_default();
        let alike = Alike { reason: reason.clone(), kind: kind.clone(), error: shape };
        let group = self.0.entry(alike).or_insert_with(|| Group {
            count: 0,
            reason,
            kind,
            error,
            oldest_sent_at: letter.sent_at.clone(),
            oldest_age_seconds: letter.age_seconds,
            message_id: letter.message_id.clone(),
        });
        group.count += 1;
        if letter.sent_at < group.oldest_sent_at {
            group.error.clone_from(&letter.error);
            group.oldest_sent_at.clone_from(&letter.sent_at);
            group.oldest_age_seconds = letter.age_seconds;
            group.message_id.clone_from(&letter.message_id);
        }
    }

    /// The largest first.
    fn sorted(&self) -> Vec<&Group> {
        let mut groups: Vec<_> = self.0.values().collect();
        groups.sort_by(|a, b| {
            let order = |group: &Group| (group.reason.clone(), group.error.clone());
            b.count.cmp(&a.count).then_with(|| order(a).cmp(&order(b)))
        });
        groups
    }
}

/// An error without what differs from job to job: ids and numbers.
fn shape(error: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut shape = String::new();
    let mut rest = error;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_part(c) != is_part(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        shape.push_str(if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word });
        rest = behind;
    }
    shape
}

/// Shows the groups, the largest first.
pub(super) fn show(groups: &Groups, style: Style) -> Result<()> {
    match style {
        Style::Json => groups.sorted().into_iter().try_for_each(print_json),
        Style::Colored | Style::Plain if groups.0.is_empty() => print("there are no dead letters"),
        Style::Colored | Style::Plain => print(&rows(groups).to_string()),
    }
}

/// The groups, the largest first.
pub(super) fn rows(groups: &Groups) -> Table {
    let mut rows = with_ids(3, table(["Letters", "Why", "Age", "Error and letter of the oldest"]));
    for group in groups.sorted() {
        let why = format!("{}\n{}", group.reason, group.kind.as_deref().unwrap_or("no kind"));
        let (count, oldest) = (group.count.to_string(), age(group.oldest_age_seconds));
        let error = group.error.as_deref().unwrap_or("no error");
        let error = format!("{error}\n{}", group.message_id);
        rows.add_row([count.as_str(), &why, &oldest, &error]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::found::Found;
    use super::super::found::tests::{NOW, letter, report, written};
    use super::*;

    #[test]
    fn what_differs_from_job_to_job_does_not_make_another_error() {
        assert_eq!(
            shape("job abfc2f07-0372-443d-8266-36440aa5df13: 503 after 12 ms"),
            "job #: # after # ms"
        );
        assert_eq!(shape("connection refused (é)"), "connection refused (é)");
        assert_eq!(shape(""), "");
    }

    #[test]
    fn equal_errors_are_counted_and_the_largest_group_comes_first() {
        let summary = |reason: &str, error: &str, age: u64| {
            let mut written = written(reason);
            written[1] = ("error", error);
            let mut letter = letter(&report(), &written);
            letter.sent_at = NOW - std::time::Duration::from_secs(age);
            Found::new(letter).summary(NOW)
        };
        let mut groups = Groups::default();
        groups.add(&summary("permanent", "gone", 5));
        groups.add(&summary("permanent", "busy for 3 s", 7));
        groups.add(&summary("permanent", "busy for 9 s", 9));
        groups.add(&summary("retries-exhausted", "busy for 9 s", 1));
        let groups = groups.sorted();
        let seen: Vec<_> = groups
            .iter()
            .map(|group| (group.count, group.reason.as_str(), group.error.as_deref().unwrap()))
            .collect();
        assert_eq!(
            seen,
            [
                (2, "permanent", "busy for 9 s"),
                (1, "permanent", "gone"),
                (1, "retries-exhausted", "busy for 9 s"),
            ]
        );
        assert_eq!(groups[0].oldest_age_seconds, 9);
    }
}
