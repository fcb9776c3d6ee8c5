//! What a client sends to have a job done, read and checked once.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use shared::fingerprint::NotCanonical;
use shared::job::InvalidJob;
use shared::jobs::Rules;
use shared::raw::text;
use shared::validation::{Invalid, read};
use shared::{Fingerprint, Job};

use crate::idempotency_key::IdempotencyKey;
use crate::json::{self, Flaw};
use crate::problem::ProblemType;
use crate::refusal::Refusal;

/// Seconds by which SQS can delay a message.
pub(crate) const MAX_DELAY_SECONDS: u16 = 900;

/// Characters of a group's name.
pub(crate) const MAX_GROUP_CHARS: usize = 128;

/// Where a client names its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// In the header `Idempotency-Key`: the request is one job.
    InHeader,
    /// In the field `idempotency_key` of each job.
    InBody,
}

/// A job that a client asks for, valid in all its parts.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    /// The job that the payload is.
    pub job: Job,
    /// The payload as the client sent it.
    pub payload: &'a RawValue,
    /// Tells the job from others under the same key.
    pub fingerprint: Fingerprint,
    /// Seconds until the job may start, at most 900.
    pub delay_seconds: u16,
    /// A name within the caller's jobs, which share the queue fairly with
    /// those of other names.
    pub group: Option<String>,
    /// The client's name for the job, where the body is the place for it.
    pub key: Option<IdempotencyKey>,
}

/// A job that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = NewJob))]
pub(crate) struct UncheckedSubmission<'a> {
    /// What is to be done.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    kind: Option<&'a RawValue>,
    /// What it is to be done with, as the kind says.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    payload: Option<&'a RawValue>,
    /// Seconds until the job may start.
    #[serde(borrow, default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u16>, maximum = 900, nullable = false))]
    delay_seconds: Option<&'a RawValue>,
    /// A name within the caller's jobs: jobs of different names share the
    /// queue fairly.
    #[serde(borrow, default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, min_length = 1, max_length = 128, nullable = false))]
    group: Option<&'a RawValue>,
    /// The client's name for the job, as the header `Idempotency-Key` gives it
    /// to a single one.
    #[serde(borrow, default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(
        value_type = Option<String>, min_length = 1, max_length = 255, nullable = false,
        pattern = "^[ -~]*[!-~][ -~]*$"
    ))]
    idempotency_key: Option<&'a RawValue>,
}

impl<'a> Submission<'a> {
    /// Reads a submission from the text of a body, or of a part of one.
    ///
    /// `limit` is that of a message in bytes: a payload beyond it is refused
    /// before time is spent on its fields. `rules` say what it may ask for.
    ///
    /// # Errors
    ///
    /// 400 where the text is no JSON object, 413 and 422 where it is no job
    /// that can be done.
    pub(crate) fn read(
        text: &'a str,
        keys: Keys,
        limit: usize,
        rules: &Rules,
    ) -> Result<Self, Refusal> {
        json::check(text).map_err(|flaw| {
            let kind = match flaw {
                Flaw::TooDeep => ProblemType::InvalidJob,
                Flaw::Syntax(_) | Flaw::DuplicateKey(_) => ProblemType::Malformed,
            };
            Refusal::new(kind, flaw.to_string())
        })?;
        if !text.trim_start().starts_with('{') {
            let detail = "A job must be a JSON object with \"kind\" and \"payload\".";
            return Err(Refusal::new(ProblemType::Malformed, detail));
        }
        let object: &RawValue = serde_json::from_str(text)
            .map_err(|error| Refusal::new(ProblemType::Malformed, error.to_string()))?;
        let unchecked: UncheckedSubmission<'a> = read(object)?;
        if unchecked.payload.is_some_and(|payload| payload.get().len() > limit) {
            return Err(too_large(limit));
        }
        Ok(unchecked.check(keys, rules)?)
    }
}

impl<'a> UncheckedSubmission<'a> {
    fn check(self, keys: Keys, rules: &Rules) -> Result<Submission<'a>, Invalid> {
        let mut invalid = Invalid::default();
        let delay_seconds = self.delay_seconds.map_or(Some(0), |delay| {
            let delay = delay.get().parse().ok().filter(|delay| *delay <= MAX_DELAY_SECONDS);
            if delay.is_none() {
                invalid.push("/delay_seconds", "must be a whole number from 0 to 900");
            }
            delay
        });
        let group = self.group.map_or(Some(None), |group| {
            let fits = |group: &String| (1..=MAX_GROUP_CHARS).contains(&group.chars().count());
            let group = text(group).map(Cow::into_owned).filter(fits);
            if group.is_none() {
                invalid.push("/group", "must be a string of 1 to 128 characters");
            }
            group.map(Some)
        });
        let key = self.idempotency_key.map_or(Ok(None), |key| check_key(key, keys).map(Some));
        let key = key.map_err(|detail| invalid.push("/idempotency_key", detail)).ok();
        let work = check_work(self.kind, self.payload, rules)
            .map_err(|errors| invalid.extend("", errors))
            .ok();
        match (delay_seconds, group, key, work, self.payload) {
            (
                Some(delay_seconds),
                Some(group),
                Some(key),
                Some((job, fingerprint)),
                Some(payload),
            ) => Ok(Submission { job, payload, fingerprint, delay_seconds, group, key }),
            _ => Err(invalid),
        }
    }
}

fn check_key(key: &RawValue, keys: Keys) -> Result<IdempotencyKey, String> {
    match keys {
        Keys::InHeader => Err("must be sent as the header Idempotency-Key".to_owned()),
        Keys::InBody => {
            let key = text(key).ok_or("must be a string")?;
            IdempotencyKey::from_text(key.into_owned()).map_err(str::to_owned)
        }
    }
}

fn check_work(
    kind: Option<&RawValue>,
    payload: Option<&RawValue>,
    rules: &Rules,
) -> Result<(Job, Fingerprint), Invalid> {
    let mut invalid = Invalid::default();
    let unknown = || format!("must be one of {}", Job::KINDS.join(", "));
    let name = kind.and_then(text);
    if kind.is_none() {
        invalid.push("/kind", "is missing");
    } else if name.is_none() {
        invalid.push("/kind", unknown());
    }
    if payload.is_none() {
        invalid.push("/payload", "is missing");
    }
    let (Some(kind), Some(payload)) = (name, payload) else {
        return Err(invalid);
    };
    let in_payload = |errors| {
        let mut invalid = Invalid::default();
        invalid.extend("/payload", errors);
        invalid
    };
    let job = Job::parse(&kind, payload).map_err(|error| match error {
        InvalidJob::UnknownKind(_) => Invalid::one("/kind", unknown()),
        InvalidJob::Payload(errors) => in_payload(errors),
    })?;
    job.check(rules).map_err(in_payload)?;
    let fingerprint = Fingerprint::of(&kind, payload)
        .map_err(|error: NotCanonical| Invalid::one("/payload", error.to_string()))?;
    Ok((job, fingerprint))
}

/// A field that is there, `null` included: a client whose variable is not set
/// must hear of it, and not lose its key.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(field).map(Some)
}

/// 413: the job makes a message of more than `limit` bytes.
pub(crate) fn too_large(limit: usize) -> Refusal {
    let detail = format!(
        "The job makes a message of more than {limit} bytes, which is the limit. Make the \
         payload smaller or split it into several jobs."
    );
    Refusal::new(ProblemType::TooLarge, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &str = r#"{"title":"t","rows":[{"group":"a","amount":"1"}]}"#;

    fn pointers(text: &str) -> Vec<String> {
        let answer = Submission::read(text, Keys::InBody, 1 << 20, &Rules::default())
            .expect_err(text)
            .problem
            .to_answer();
        assert_eq!(answer.status.as_u16(), 422, "{answer:?}");
        let body: serde_json::Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
        let errors = body["errors"].as_array().unwrap();
        errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn everything_that_is_wrong_is_pointed_at() {
        assert_eq!(pointers("{}"), ["/kind", "/payload"]);
        assert_eq!(pointers(r#"{"kind":null,"payload":{}}"#), ["/kind"]);
        assert_eq!(pointers(r#"{"kind":7,"payload":{}}"#), ["/kind"]);
        assert_eq!(pointers(r#"{"kind":7}"#), ["/kind", "/payload"]);
        assert_eq!(pointers(r#"{"kind":"unheard-of","payload":{}}"#), ["/kind"]);
        assert_eq!(pointers(r#"{"kind":"report","payload":{},"extra":1}"#), ["/extra"]);
        assert_eq!(
            pointers(
                r#"{"kind":"report","payload":{"title":"t","rows":[{"group":"a","amount":1}]},
                    "delay_seconds":901,"group":"","idempotency_key":" "}"#
            ),
            ["/delay_seconds", "/group", "/idempotency_key", "/payload/rows/0/amount"]
        );
    }

    #[test]
    fn a_delay_is_a_whole_number_that_sqs_takes() {
        let read = |delay: &str| {
            let text =
                format!(r#"{{"kind":"report","payload":{PAYLOAD},"delay_seconds":{delay}}}"#);
            Submission::read(&text, Keys::InBody, 1 << 20, &Rules::default())
                .map(|submission| submission.delay_seconds)
                .ok()
        };
        for (delay, expected) in [("0", 0), ("900", 900), (" 7 ", 7)] {
            assert_eq!(read(delay), Some(expected), "{delay}");
        }
        for delay in ["-1", "901", "1.5", "1e2", "\"5\"", "true", "null", "65536000000000000000000"]
        {
            assert_eq!(read(delay), None, "{delay}");
        }
    }

    #[test]
    fn a_key_is_read_where_it_belongs() {
        let text = |key: &str| {
            format!(r#"{{"kind":"report","payload":{PAYLOAD},"idempotency_key":{key}}}"#)
        };
        let read = |keys, key: &str| {
            let text = text(key);
            Submission::read(&text, keys, 1 << 20, &Rules::default())
                .ok()
                .map(|submission| submission.key)
        };
        let key = IdempotencyKey::from_text("order-42".to_owned()).unwrap();
        assert_eq!(read(Keys::InBody, "\"order-42\""), Some(Some(key)));
        assert_eq!(read(Keys::InBody, "null"), None);
        assert_eq!(read(Keys::InHeader, "null"), None);
        assert_eq!(read(Keys::InHeader, "\"order-42\""), None);
        for key in ["7", "\"\"", "\" \"", "[\"a\"]", r#""\u0000""#, "\"\u{fc}\""] {
            assert_eq!(read(Keys::InBody, key), None, "{key}");
        }
    }

    #[test]
    fn the_payload_stays_as_it_was_sent() {
        let payload = r#"{ "rows": [ {"amount":"1.50", "group":"\u0061"} ] , "title":"t" }"#;
        let text = format!(r#" {{"payload": {payload} ,"kind":"report","group":"g"}} "#);
        let submission = Submission::read(&text, Keys::InBody, 1 << 20, &Rules::default()).unwrap();
        assert_eq!(submission.payload.get(), payload);
        assert_eq!(submission.group.as_deref(), Some("g"));
    }
}
