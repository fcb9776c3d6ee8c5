//! What Lambda's poller makes of a consumer's answer.
//!
//! The rules are those of "Implementing partial batch responses" (success and
//! failure conditions) and of the errors of an invocation, in
//! <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>.
//! That page is silent about an identifier that no record has. Only a defect sends
//! one, and nobody can tell which record it meant, so it counts as malformed.

use std::collections::HashSet;

use serde_json::Value;

/// What an invocation gave.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Whether the function failed, as the header `X-Amz-Function-Error` says.
    pub is_error: bool,
    /// What the function returned.
    pub body: &'a [u8],
}

/// What becomes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All records are done, except those with these message ids.
    Done {
        /// The message ids of those that failed.
        except: HashSet<String>,
    },
    /// Every record comes back.
    AllFailed {
        /// Why, for people.
        why: String,
    },
}

impl Answer<'_> {
    /// Decides on the batch of the records with these message ids.
    #[must_use]
    pub fn verdict(&self, records: &HashSet<&str>) -> Verdict {
        match self.failures(records) {
            Ok(except) => Verdict::Done { except },
            Err(why) => Verdict::AllFailed { why },
        }
    }

    fn failures(&self, records: &HashSet<&str>) -> Result<HashSet<String>, String> {
        if self.is_error || !(200..300).contains(&self.status) {
            return Err(format!("the invocation failed: {} {}", self.status, self.said()));
        }
        let answer = match serde_json::from_slice(self.body) {
            Ok(Value::Null) => return Ok(HashSet::new()),
            Ok(Value::Object(answer)) => answer,
            Ok(_) | Err(_) => return Err(format!("the answer is no object: {}", self.said())),
        };
        // `cargo lambda watch` passes on a start that failed as if it was an answer.
        // Lambda would mark it as an error.
        if answer.contains_key("errorType") && !answer.contains_key("batchItemFailures") {
            return Err(format!("the function did not start: {}", self.said()));
        }
        match answer.get("batchItemFailures") {
            None | Some(Value::Null) => Ok(HashSet::new()),
            Some(Value::Array(failures)) => {
                failures.iter().map(|failure| identifier(failure, records)).collect()
            }
            Some(other) => Err(format!("batchItemFailures is no list: {other}")),
        }
    }

    /// The beginning of the body, in one line.
    fn said(&self) -> String {
        const ENOUGH: usize = 300;
        let text = String::from_utf8_lossy(self.body);
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(ENOUGH).collect()
    }
}

fn identifier(failure: &Value, records: &HashSet<&str>) -> Result<String, String> {
    match failure.get("itemIdentifier").and_then(Value::as_str) {
        Some(id) if records.contains(id) => Ok(id.to_owned()),
        Some(id) => Err(format!("no record has the itemIdentifier {id:?}")),
        None => Err(format!("not an itemIdentifier: {failure}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &[&str] = &[];
    const ALL: &[&str] = &["a", "b", "c"];

    fn failed(answer: Answer<'_>) -> Vec<String> {
        let records = HashSet::from(["a", "b", "c"]);
        let failed = match answer.verdict(&records) {
            Verdict::Done { except } => except,
            Verdict::AllFailed { .. } => records.into_iter().map(str::to_owned).collect(),
        };
        let mut failed: Vec<_> = failed.into_iter().collect();
        failed.sort();
        failed
    }

    #[test]
    fn every_shape_of_answer_means_what_aws_says() {
        let table: &[(&str, &[&str])] = &[
            // Complete success.
            (r#"{"batchItemFailures":[]}"#, DONE),
            (r#"{"batchItemFailures":null}"#, DONE),
            ("{}", DONE),
            ("null", DONE),
            (r#"{"somethingElse":["a"]}"#, DONE),
            // Partial success.
            (r#"{"batchItemFailures":[{"itemIdentifier":"b"}]}"#, &["b"]),
            (
                r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"c"}]}"#,
                &["a", "c"],
            ),
            (r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"b"}]}"#, &["b"]),
            (r#"{"batchItemFailures":[{"itemIdentifier":"b","more":1}],"more":1}"#, &["b"]),
            // Complete failure: identifiers.
            (r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#, ALL),
            (r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#, ALL),
            (r#"{"batchItemFailures":[{"itemIdentifier":1}]}"#, ALL),
            (r#"{"batchItemFailures":[{"itemIdentifier":["b"]}]}"#, ALL),
            (r#"{"batchItemFailures":[{"messageId":"b"}]}"#, ALL),
            (r#"{"batchItemFailures":[{"ItemIdentifier":"b"}]}"#, ALL),
            (r#"{"batchItemFailures":[{"itemIdentifier":"unknown"}]}"#, ALL),
            (r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"unknown"}]}"#, ALL),
            (r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":""}]}"#, ALL),
            (r#"{"batchItemFailures":[{}]}"#, ALL),
            (r#"{"batchItemFailures":["b"]}"#, ALL),
            (r#"{"batchItemFailures":[null]}"#, ALL),
            // Complete failure: not what was asked for.
            (r#"{"batchItemFailures":{"itemIdentifier":"b"}}"#, ALL),
            (r#"{"batchItemFailures":"b"}"#, ALL),
            (r#"{"batchItemFailures":0}"#, ALL),
            (r#"{"batchItemFailures":[]"#, ALL),
            ("[]", ALL),
            (r#"[{"itemIdentifier":"b"}]"#, ALL),
            (r#""""#, ALL),
            (r#""done""#, ALL),
            ("true", ALL),
            ("0", ALL),
            ("done", ALL),
            ("", ALL),
            ("\u{feff}{}", ALL),
            // A start that failed, as `cargo lambda watch` passes it on.
            (r#"{"errorType":"X","errorMessage":"no QUEUE_URL"}"#, ALL),
        ];
        for (body, expected) in table {
            let answer = Answer { status: 200, is_error: false, body: body.as_bytes() };
            assert_eq!(failed(answer), *expected, "{body}");
        }
    }

    #[test]
    fn an_error_fails_the_batch_whatever_the_body_says() {
        let body = br#"{"batchItemFailures":[]}"#;
        for (status, is_error) in
            [(200, true), (400, false), (404, false), (500, false), (502, true)]
        {
            assert_eq!(failed(Answer { status, is_error, body }), ALL, "{status} {is_error}");
        }
        assert_eq!(failed(Answer { status: 202, is_error: false, body }), DONE);
    }

    #[test]
    fn it_says_why_in_one_line() {
        let records = HashSet::from(["a"]);
        let answer = Answer { status: 500, is_error: false, body: b"{\n  \"errorType\": \"X\"\n}" };
        let why = r#"the invocation failed: 500 { "errorType": "X" }"#.to_owned();
        assert_eq!(answer.verdict(&records), Verdict::AllFailed { why });
    }
}
