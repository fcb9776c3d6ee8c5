//! The message: how a job travels through the queue.
//!
//! JSON with a version, see [`VERSION`]. Readers accept fields that they do
//! not know (from a newer producer) and refuse a version that they do not
//! know. The payload is the text that the client sent and the producer
//! validated, digit for digit.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::entry::JobEntry;
use crate::fingerprint::Fingerprint;
use crate::job::{InvalidJob, Job};
use crate::job_id::JobId;
use crate::principal::Principal;
use crate::raw::text;
use crate::sources::Timestamp;
use crate::validation::Invalid;

/// The version of the wire format that this code writes and reads.
pub const VERSION: u64 = 1;

/// Bytes of the longest text beside the payload. All of them go into the job's
/// entry, for which DynamoDB has 400 KB. The longest principals are the issuer
/// and subject of a token, and these are far shorter.
const MAX_METADATA_BYTES: usize = 8 * 1024;

/// A message that is about to be sent.
#[derive(Debug, Serialize)]
pub struct NewMessage<'a> {
    v: u64,
    id: JobId,
    kind: &'a str,
    payload: &'a RawValue,
    principal: &'a Principal,
    fingerprint: &'a Fingerprint,
    created_at: Timestamp,
}

impl<'a> NewMessage<'a> {
    /// The message of the job that `kind` and `payload` make.
    #[must_use]
    pub const fn new(
        id: JobId,
        kind: &'a str,
        payload: &'a RawValue,
        principal: &'a Principal,
        fingerprint: &'a Fingerprint,
        created_at: Timestamp,
    ) -> Self {
        Self { v: VERSION, id, kind, payload, principal, fingerprint, created_at }
    }

    /// The body for SQS.
    ///
    /// # Errors
    ///
    /// None that is known: every part is text or number already.
    pub fn encode(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// A message that was read and whose job is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Names the work.
    pub id: JobId,
    /// What is to be done.
    pub job: Job,
    /// Who asked for it.
    pub principal: Principal,
    /// Of its kind and payload: tells it from another job under the same id.
    pub fingerprint: Fingerprint,
    /// When the producer accepted it, if the message says so.
    pub created_at: Option<Timestamp>,
}

impl Message {
    /// Reads the body of an SQS record.
    ///
    /// `v`, `principal`, `fingerprint` and `created_at` may be left out, for
    /// messages that people and other producers write: the version is then
    /// this one, the principal `anonymous`, and the fingerprint is computed.
    ///
    /// # Errors
    ///
    /// See [`DecodeError`], which says what a retry can do.
    pub fn decode(body: &str) -> Result<Self, DecodeError> {
        // Else serde would take an array for the fields in their order.
        if body.trim_start().starts_with('[') {
            return Err(Unreadable::NotJson { line: 1, column: 1 }.into());
        }
        let wire: Wire<'_> = serde_json::from_str(body).map_err(Unreadable::not_json)?;
        let id = wire.id()?;
        let known = wire.known_job(id);
        known.map_err(|(problem, fingerprint)| {
            DecodeError::NotYetKnown(Box::new(NotYetKnown {
                id,
                kind: wire.kind.and_then(metadata),
                principal: wire.principal(),
                fingerprint,
                created_at: wire.created_at(),
                problem,
            }))
        })
    }

    /// The entry of its job, as if it had just been accepted.
    #[must_use]
    pub fn queued_entry(&self, now: Timestamp, ttl: Duration) -> JobEntry {
        let (principal, fingerprint) = (self.principal.clone(), self.fingerprint.clone());
        JobEntry {
            created_at: self.created_at.unwrap_or(now),
            ..JobEntry::queued(self.id, self.job.kind(), principal, fingerprint, now, ttl)
        }
    }
}

impl NotYetKnown {
    /// The entry of its job, as if it had just been accepted; `None` if the
    /// message has no fingerprint.
    #[must_use]
    pub fn queued_entry(&self, now: Timestamp, ttl: Duration) -> Option<JobEntry> {
        let (principal, fingerprint) = (self.principal.clone(), self.fingerprint.clone()?);
        let kind = self.kind.as_deref().unwrap_or("unknown");
        Some(JobEntry {
            created_at: self.created_at.unwrap_or(now),
            ..JobEntry::queued(self.id, kind, principal, fingerprint, now, ttl)
        })
    }
}

/// The fields, unread, so that a message that cannot be understood still
/// tells its id.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    v: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    principal: Option<&'a RawValue>,
    #[serde(borrow)]
    fingerprint: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
}

impl Wire<'_> {
    fn id(&self) -> Result<JobId, Unreadable> {
        self.id.and_then(text).and_then(|id| id.parse().ok()).ok_or(Unreadable::NoId)
    }

    fn principal(&self) -> Principal {
        self.principal.and_then(metadata).map_or_else(Principal::anonymous, Principal::from_text)
    }

    fn created_at(&self) -> Option<Timestamp> {
        self.created_at.and_then(|millis| serde_json::from_str(millis.get()).ok())
    }

    fn known_job(&self, id: JobId) -> Result<Message, (NotUnderstood, Option<Fingerprint>)> {
        let sent = self.fingerprint.and_then(metadata).map(Fingerprint::from_text);
        let refuse = |problem| (problem, sent.clone());
        let version = self.v.map_or(Some(VERSION), |v| v.get().parse().ok());
        if version != Some(VERSION) {
            return Err(refuse(NotUnderstood::Version(version)));
        }
        let is_long = |text: Option<&RawValue>| {
            text.is_some_and(|text| text.get().len() > MAX_METADATA_BYTES)
        };
        if is_long(self.principal) || is_long(self.fingerprint) || is_long(self.kind) {
            return Err(refuse(NotUnderstood::TooLong));
        }
        let kind = self.kind.and_then(text).ok_or_else(|| refuse(NotUnderstood::Incomplete))?;
        let payload = self.payload.ok_or_else(|| refuse(NotUnderstood::Incomplete))?;
        let job =
            Job::parse(&kind, payload).map_err(|invalid| refuse(NotUnderstood::Job(invalid)))?;
        let fingerprint = match sent {
            Some(sent) => sent,
            None => Fingerprint::of(&kind, payload).map_err(|error| {
                let invalid = Invalid::one("", error.to_string());
                (NotUnderstood::Job(InvalidJob::Payload(invalid)), None)
            })?,
        };
        let (principal, created_at) = (self.principal(), self.created_at());
        Ok(Message { id, job, principal, fingerprint, created_at })
    }
}

/// The string that `value` is, if it is one that may go into an entry.
fn metadata(value: &RawValue) -> Option<String> {
    text(value).filter(|text| text.len() <= MAX_METADATA_BYTES).map(Cow::into_owned)
}

/// Why a body is no message that this code can run.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Nobody will ever be able to read it.
    #[error("unreadable message")]
    Unreadable(#[from] Unreadable),
    /// It names a job; a newer consumer may be able to run it, so it must
    /// come back.
    #[error("message is not understood: {}", .0.problem)]
    NotYetKnown(Box<NotYetKnown>),
}

/// Why a body names no job.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// No JSON object, or a field stands in it twice. What the parser says of
    /// it is left out: it may quote the body, and this is logged.
    #[error("not a JSON object, line {line} column {column}")]
    NotJson {
        /// Where it ceases to be one, from 1.
        line: usize,
        /// Where in the line, in bytes from 1; 0 before its first.
        column: usize,
    },
    /// No `id`, or one that is not a UUID.
    #[error("no job id")]
    NoId,
}

impl Unreadable {
    #[expect(clippy::needless_pass_by_value, reason = "it is used up: `map_err` gives it away")]
    fn not_json(error: serde_json::Error) -> Self {
        Self::NotJson { line: error.line(), column: error.column() }
    }
}

/// What could be read of a message that was not understood.
#[derive(Debug)]
pub struct NotYetKnown {
    /// Names the work.
    pub id: JobId,
    /// The kind, if the message has a text there.
    pub kind: Option<String>,
    /// Who asked for it.
    pub principal: Principal,
    /// The fingerprint, if the message holds one.
    pub fingerprint: Option<Fingerprint>,
    /// When the producer accepted it, if the message says so.
    pub created_at: Option<Timestamp>,
    /// What was not understood.
    pub problem: NotUnderstood,
}

/// What of a message was not understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    /// Another version of the wire format; `None` if it is no number.
    #[error("version {} instead of {VERSION}", .0.map_or("unreadable".to_owned(), |v| v.to_string()))]
    Version(Option<u64>),
    /// A text beside the payload is longer than any producer makes it.
    #[error("kind, principal or fingerprint is longer than {MAX_METADATA_BYTES} bytes")]
    TooLong,
    /// No readable `kind` or `payload`.
    #[error("kind or payload is missing")]
    Incomplete,
    /// An unknown kind, or a payload that does not fit its type.
    #[error(transparent)]
    Job(InvalidJob),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "abfc2f07-0372-443d-8266-36440aa5df13";
    const PAYLOAD: &str = r#"{"title":"t","rows":[{"group":"a","amount":"1.50"}]}"#;

    fn problem(body: &str) -> NotUnderstood {
        match Message::decode(body) {
            Err(DecodeError::NotYetKnown(message)) => message.problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_wire_format_is_this() {
        let payload = RawValue::from_string(r#"{ "a": 1.0 }"#.to_owned()).unwrap();
        let message = NewMessage::new(
            ID.parse().unwrap(),
            "report",
            &payload,
            &Principal::anonymous(),
            &Fingerprint::from_text("f"),
            Timestamp::from_millis(1_700_000_000_123),
        )
        .encode();
        assert_eq!(
            message.unwrap(),
            format!(
                r#"{{"v":1,"id":"{ID}","kind":"report","payload":{{ "a": 1.0 }},"principal":"anonymous","fingerprint":"f","created_at":1700000000123}}"#
            )
        );
    }

    #[test]
    fn unknown_fields_are_accepted_and_metadata_may_be_missing() {
        let body = format!(r#"{{"id":"{ID}","kind":"report","payload":{PAYLOAD},"new":[1]}}"#);
        let message = Message::decode(&body).unwrap();
        let payload = RawValue::from_string(PAYLOAD.to_owned()).unwrap();
        assert_eq!(message.principal, Principal::anonymous());
        assert_eq!(message.fingerprint, Fingerprint::of("report", &payload).unwrap());
        assert_eq!(message.created_at, None);
    }

    #[test]
    fn what_names_no_job_is_unreadable() {
        for body in [
            "",
            "not json",
            "[]",
            "null",
            "\"text\"",
            "{}",
            r#"{"id":""}"#,
            r#"{"id":7}"#,
            r#"{"id":"job-1"}"#,
            r#"{"Records":[]}"#,
            "{\"id\":\"\u{0}\"}",
            &format!(r#"{{"id":"{ID}","id":"{ID}"}}"#),
        ] {
            let result = Message::decode(body);
            assert!(matches!(result, Err(DecodeError::Unreadable(_))), "{body}: {result:?}");
        }
    }

    #[test]
    fn what_names_a_job_may_be_understood_later() {
        let with = |rest: &str| problem(&format!(r#"{{"id":"{ID}",{rest}}}"#));
        let complete = format!(r#""kind":"report","payload":{PAYLOAD}"#);
        assert_eq!(with(&format!(r#""v":2,{complete}"#)), NotUnderstood::Version(Some(2)));
        assert_eq!(with(&format!(r#""v":"1",{complete}"#)), NotUnderstood::Version(None));
        assert_eq!(with(r#""kind":"report""#), NotUnderstood::Incomplete);
        assert_eq!(with(r#""kind":1,"payload":{}"#), NotUnderstood::Incomplete);
        assert!(matches!(
            with(r#""kind":"new","payload":{}"#),
            NotUnderstood::Job(InvalidJob::UnknownKind(_))
        ));
        assert!(matches!(
            with(r#""kind":"report","payload":{}"#),
            NotUnderstood::Job(InvalidJob::Payload(_))
        ));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_to_the_same_job(
            title in "[^\u{0}-\u{1f}\"\\\\]{1,40}",
            amounts in prop::collection::vec("-?[0-9]{1,15}(\\.[0-9]{1,9})?", 1..20),
        ) {
            prop_assume!(!title.trim().is_empty());
            let rows: Vec<_> = amounts
                .iter()
                .map(|amount| format!(r#"{{"amount":"{amount}" , "group":"g"}}"#))
                .collect();
            let payload = format!(r#"{{"title":"{title}","rows":[{}]}}"#, rows.join(", "));
            let payload = RawValue::from_string(payload).unwrap();
            let job = Job::parse("report", &payload).unwrap();
            let expected = Message {
                id: ID.parse().unwrap(),
                job,
                principal: Principal::jwt("issuer", "subject"),
                fingerprint: Fingerprint::of("report", &payload).unwrap(),
                created_at: Some(Timestamp::from_millis(7)),
            };
            let body = NewMessage::new(
                expected.id,
                "report",
                &payload,
                &expected.principal,
                &expected.fingerprint,
                Timestamp::from_millis(7),
            )
            .encode()
            .unwrap();
            prop_assert!(body.contains(payload.get()));
            prop_assert_eq!(Message::decode(&body).unwrap(), expected);
        }
    }
}
