//! Why something was refused, by the API (RFC 9457) or before it was asked.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use super::job::State;
use crate::api::Answer;

/// Fields that a table names.
const SHOWN_FIELDS: usize = 10;

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    /// The type in words.
    pub(super) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The API's status for it.
    pub(super) status: Option<u16>,
    /// What is wrong in this case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) detail: String,
    /// Where the job stands that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<State>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_count: Option<usize>,
}

/// One field that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct FieldError {
    pointer: String,
    detail: String,
}

impl Problem {
    /// What was found before anybody was asked.
    pub(super) fn found(title: &str, detail: impl Into<String>) -> Self {
        Self { title: title.to_owned(), detail: detail.into(), ..Self::default() }
    }

    /// What an answer tells. Gateways have a form of their own.
    pub(super) fn of(answer: &Answer) -> Self {
        if answer.content_type == "application/problem+json"
            && let Ok(problem) = serde_json::from_str(&answer.raw)
        {
            return problem;
        }
        let status = http::StatusCode::from_u16(answer.status).ok();
        let title = status.and_then(|status| status.canonical_reason()).unwrap_or("Unexpected");
        let status = Some(answer.status);
        Self { status, ..Self::found(title, answer.text("/message")) }
    }

    /// Whether the functions had an answer, and their log has what it leaves out.
    fn is_the_stacks_own(&self) -> bool {
        self.r#type.is_some() && self.status.is_some_and(|status| status >= 500)
    }

    /// The same for the part of a request that `prefix` points to.
    pub(super) fn seen_from(mut self, prefix: &str) -> Self {
        for error in &mut self.errors {
            if let Some(rest) = error.pointer.strip_prefix(prefix) {
                error.pointer = rest.to_owned();
            }
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(status) = self.status {
            write!(f, "{status} ")?;
        }
        f.write_str(&self.title)?;
        // The fields say all that the detail says of them.
        if !self.detail.is_empty() && self.errors.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        for FieldError { pointer, detail } in self.errors.iter().take(SHOWN_FIELDS) {
            f.write_char('\n')?;
            if !pointer.is_empty() {
                write!(f, "{pointer}: ")?;
            }
            f.write_str(detail)?;
        }
        // The API tells no client why, be it an outage or a permission that is missing.
        if self.is_the_stacks_own() {
            f.write_str(" (`cargo ops logs` says why)")?;
        }
        let count = self.error_count.unwrap_or(self.errors.len());
        match count.saturating_sub(SHOWN_FIELDS) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(status: u16, content_type: &str, raw: &str) -> Answer {
        Answer {
            status,
            content_type: content_type.to_owned(),
            body: serde_json::from_str(raw).unwrap(),
            raw: raw.to_owned(),
            retry_after: None,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn fields_are_named_as_they_stand_in_the_job() {
        let raw = r#"{"type":"urn:x","title":"Invalid job","status":422,"detail":"Two.",
            "errors":[{"pointer":"/jobs/7/payload","detail":"missing"},
                      {"pointer":"/jobs/7","detail":"odd"}],"error_count":2}"#;
        let problem = Problem::of(&answer(422, "application/problem+json", raw));
        let shown = problem.seen_from("/jobs/7").to_string();
        assert_eq!(shown, "422 Invalid job\n/payload: missing\nodd");
    }

    #[test]
    fn of_many_fields_the_first_are_named() {
        let errors = vec![FieldError { pointer: "/a".to_owned(), detail: "b".to_owned() }; 12];
        let problem = Problem { errors, error_count: Some(40), ..Problem::found("T", "d") };
        let shown = problem.to_string();
        assert_eq!(shown.lines().count(), 12, "{shown}");
        assert!(shown.starts_with("T\n/a: b\n") && shown.ends_with("… and 30 more"), "{shown}");
    }

    #[test]
    fn what_the_api_keeps_to_itself_is_in_the_logs() {
        let told = |status: u16, content_type| {
            let raw = format!(r#"{{"type":"urn:x","title":"T","status":{status},"detail":"d"}}"#);
            Problem::of(&answer(status, content_type, &raw)).to_string()
        };
        for status in [500, 503] {
            let expected = format!("{status} T: d (`cargo ops logs` says why)");
            assert_eq!(told(status, "application/problem+json"), expected);
        }
        assert_eq!(told(409, "application/problem+json"), "409 T: d");
        // The gateway had no answer of the functions.
        assert_eq!(told(503, "application/json"), "503 Service Unavailable");
    }

    #[test]
    fn a_gateways_answer_is_a_problem_too() {
        let gateway = answer(429, "application/json", r#"{"message":"Slow down"}"#);
        assert_eq!(Problem::of(&gateway).to_string(), "429 Too Many Requests: Slow down");
    }
}
