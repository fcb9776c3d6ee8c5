//! A job as it will be sent: the document, and what the options add to it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::problem::Problem;

/// What the options say of all jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// Makes each document the payload of a job of this kind.
    pub(super) kind: Option<String>,
    /// Seconds.
    pub(super) delay: Option<u16>,
    /// A name within the caller's jobs.
    pub(super) group: Option<String>,
}

impl Fields {
    /// The text of a job, with every digit of the document, and with a key.
    ///
    /// # Errors
    ///
    /// It is none.
    pub(super) fn job(&self, document: &RawValue, key: &str) -> Result<String, Problem> {
        let mut added = vec![("idempotency_key", json!(key))];
        added.extend(self.delay.map(|delay| ("delay_seconds", json!(delay))));
        added.extend(self.group.as_ref().map(|group| ("group", json!(group))));
        if let Some(kind) = &self.kind {
            let job = format!(r#"{{"kind":{},"payload":{document}}}"#, json!(kind));
            return Ok(with_fields(&job, &added));
        }
        let not_a_job = |detail| Problem::found("Not a job", detail);
        if !document.get().starts_with('{') {
            return Err(not_a_job("it must be a JSON object with `kind` and `payload`".to_owned()));
        }
        // Values are not looked at: those that stand there win, also where the
        // API will not have them.
        let own: HashMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(document.get()).map_err(|error| not_a_job(error.to_string()))?;
        added.retain(|(name, _)| !own.contains_key(*name));
        Ok(with_fields(document.get(), &added))
    }
}

/// A JSON object with more fields in front.
pub(super) fn with_fields(object: &str, fields: &[(&str, Value)]) -> String {
    let rest = object.trim_start().strip_prefix('{').unwrap_or(object);
    let is_empty = rest.trim_start().starts_with('}');
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    let comma = if fields.is_empty() || is_empty { "" } else { "," };
    format!("{{{}{comma}{rest}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(fields: &Fields, document: &str) -> String {
        let document: &RawValue = serde_json::from_str(document).unwrap();
        match fields.job(document, "k\"1") {
            Ok(job) => job,
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn what_the_document_says_stays_as_it_is() {
        let document = r#" { "kind" : "a", "payload": {"x":1.0, "y": 12345678901234567890.50 } } "#;
        assert_eq!(
            draft(&Fields::default(), document),
            r#"{"idempotency_key":"k\"1", "kind" : "a", "payload": {"x":1.0, "y": 12345678901234567890.50 } }"#
        );
        assert_eq!(draft(&Fields::default(), "{ }"), r#"{"idempotency_key":"k\"1" }"#);
    }

    #[test]
    fn what_a_job_says_itself_wins() {
        let group = Some("g".to_owned());
        let fields = Fields { kind: None, delay: Some(5), group };
        let own = r#"{"delay_seconds":7,"idempotency_key":null,"group":""}"#;
        assert_eq!(draft(&fields, own), own);
        assert_eq!(
            draft(&fields, r#"{"kind":"a"}"#),
            r#"{"idempotency_key":"k\"1","delay_seconds":5,"group":"g","kind":"a"}"#
        );
    }

    #[test]
    fn a_bare_payload_is_wrapped() {
        let fields = Fields { kind: Some("a".to_owned()), ..Fields::default() };
        assert_eq!(
            draft(&fields, r#"{"idempotency_key":1.0}"#),
            r#"{"idempotency_key":"k\"1","kind":"a","payload":{"idempotency_key":1.0}}"#
        );
    }

    #[test]
    fn what_is_no_object_is_no_job() {
        let expected = "Not a job: it must be a JSON object with `kind` and `payload`";
        for document in ["[{}]", "7", "\"{}\"", "null"] {
            assert_eq!(draft(&Fields::default(), document), expected);
        }
    }
}
