//! Bodies of messages and payloads, as a fuzzer makes them up.
//!
//! The fuzzer (`infra/fuzz`) calls these functions with whatever it thinks of;
//! here they run over what it has kept.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use shared::message::{Message, NewMessage};
use shared::{Fingerprint, Job};

/// The body of a message. What can be read is written and read again as the
/// same.
pub(crate) fn message(data: &[u8]) {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        payload: &'a RawValue,
    }

    let Ok(body) = str::from_utf8(data) else { return };
    let Ok(message) = Message::decode(body) else { return };
    let Body { payload } = serde_json::from_str(body).unwrap();
    let Message { id, job, principal, fingerprint, created_at } = &message;
    let created_at = created_at.unwrap_or_default();
    let again = NewMessage::new(*id, job.kind(), payload, principal, fingerprint, created_at);
    let again = Message::decode(&again.encode().unwrap()).unwrap();
    assert_eq!(again, Message { created_at: Some(created_at), ..message });
}

/// A payload. In other words, it makes the same job of each kind, or none.
pub(crate) fn payload(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(payload) = serde_json::from_str::<&RawValue>(text) else { return };
    let fingerprints = Job::KINDS.iter().map(|kind| Fingerprint::of(kind, payload));
    let fingerprints: Result<Vec<_>, _> = fingerprints.collect();
    let jobs = Job::KINDS.iter().map(|kind| Job::parse(kind, payload));
    let jobs: Vec<_> = jobs.map(Result::ok).collect();
    let Ok(fingerprints) = fingerprints else { return };
    let mut other = String::new();
    say_otherwise(payload, &mut other);
    let other: &RawValue = serde_json::from_str(&other).unwrap();
    for (kind, (fingerprint, job)) in Job::KINDS.iter().zip(fingerprints.iter().zip(jobs)) {
        assert_eq!(Fingerprint::of(kind, other).unwrap(), *fingerprint, "{other}");
        assert_eq!(Job::parse(kind, other).ok(), job, "{other}");
    }
}

/// The same JSON with its keys turned round, all characters escaped, and space
/// everywhere. A key that stands twice keeps the order of its values.
fn say_otherwise(value: &RawValue, out: &mut String) {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let Members(mut members) = serde_json::from_str(text).unwrap();
            members.sort_by(|(one, _), (other, _)| other.cmp(one));
            out.push_str("{ ");
            for (position, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if position > 0 { "\t, " } else { "" });
                escape(&key, out);
                out.push_str("\n :\r");
                say_otherwise(value, out);
            }
            out.push_str(" }");
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            out.push_str("[ ");
            for (position, element) in elements.into_iter().enumerate() {
                out.push_str(if position > 0 { " ,\n" } else { "" });
                say_otherwise(element, out);
            }
            out.push_str(" ]");
        }
        Some(b'"') => escape(&serde_json::from_str::<String>(text).unwrap(), out),
        _ => out.push_str(text),
    }
}

fn escape(text: &str, out: &mut String) {
    out.push('"');
    out.extend(text.encode_utf16().map(|unit| format!("\\u{unit:04X}")));
    out.push('"');
}

/// The members of an object as they stand there.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[test]
fn what_the_fuzzer_kept_of_messages_is_read_twice_as_the_same() {
    for input in corpus("message") {
        message(&input);
    }
}

#[test]
fn what_the_fuzzer_kept_of_payloads_means_the_same_in_other_words() {
    for input in corpus("payload") {
        payload(&input);
    }
}

#[cfg(test)]
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/../infra/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).unwrap();
    let files: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(files.len() > 4, "{target} has no corpus");
    files
}
