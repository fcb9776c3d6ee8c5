//! The fingerprint: a hash of kind and payload, which tells two jobs under one
//! id apart.
//!
//! It is SHA-256 over the kind and the payload as the client sent it, made
//! canonical: keys sorted, no white space, strings in one spelling, and the
//! text of numbers kept. So the order of keys does not matter, and a deploy
//! that adds a field to a payload type changes no fingerprint.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::raw::Text;

/// Levels of arrays and objects that a payload may nest.
///
/// Each level reads its text again, so this bounds both the stack and the
/// time that a hostile payload can cost.
pub const MAX_DEPTH: usize = 64;

/// SHA-256 in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of `payload` for a job of this `kind`.
    ///
    /// # Errors
    ///
    /// [`NotCanonical`] if the payload nests too deep or holds text that is
    /// not Unicode. It stays so however often it is tried.
    pub fn of(kind: &str, payload: &RawValue) -> Result<Self, NotCanonical> {
        let mut canonical = Vec::with_capacity(payload.get().len());
        write_canonical(payload, 0, &mut canonical)?;
        let mut hash = Sha256::new();
        hash.update(format!("{}:{kind}", kind.len()));
        hash.update(&canonical);
        Ok(Self(hex::encode(hash.finalize())))
    }

    /// The text that a message or an entry holds.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text for a message or an entry.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a payload has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum NotCanonical {
    /// More levels than [`MAX_DEPTH`].
    #[error("nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A string holds half of a surrogate pair.
    #[error("holds a string that is not valid Unicode")]
    NotUnicode(#[source] serde_json::Error),
}

fn write_canonical(value: &RawValue, depth: usize, out: &mut Vec<u8>) -> Result<(), NotCanonical> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => write_object(text, depth, out),
        Some(b'[') => write_array(text, depth, out),
        Some(b'"') => {
            let Text(string) = read(text)?;
            write_string(&string, out)
        }
        _ => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
}

fn write_object(text: &str, depth: usize, out: &mut Vec<u8>) -> Result<(), NotCanonical> {
    let depth = deeper(depth)?;
    let Members(mut members) = read(text)?;
    // Stable: of a key that stands twice, the order of its values counts.
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    out.push(b'{');
    for (position, (Text(key), value)) in members.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_string(&key, out)?;
        out.push(b':');
        write_canonical(value, depth, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_array(text: &str, depth: usize, out: &mut Vec<u8>) -> Result<(), NotCanonical> {
    let depth = deeper(depth)?;
    let elements: Vec<&RawValue> = read(text)?;
    out.push(b'[');
    for (position, element) in elements.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_canonical(element, depth, out)?;
    }
    out.push(b']');
    Ok(())
}

fn write_string(string: &str, out: &mut Vec<u8>) -> Result<(), NotCanonical> {
    serde_json::to_writer(out, string).map_err(NotCanonical::NotUnicode)
}

const fn deeper(depth: usize) -> Result<usize, NotCanonical> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(NotCanonical::TooDeep) }
}

/// Reads a part of a text that is known to be JSON: what can still be wrong
/// are escapes of surrogates.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, NotCanonical> {
    serde_json::from_str(text).map_err(NotCanonical::NotUnicode)
}

/// The members of an object in the order of the text, repeated keys included.
struct Members<'a>(Vec<(Text<'a>, &'a RawValue)>);

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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(payload: &str) -> Result<Fingerprint, NotCanonical> {
        Fingerprint::of("report", &RawValue::from_string(payload.to_owned()).unwrap())
    }

    fn canonical(payload: &str) -> String {
        let mut out = Vec::new();
        write_canonical(&RawValue::from_string(payload.to_owned()).unwrap(), 0, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn golden_values_never_change() {
        assert_eq!(
            of("{}").unwrap().as_str(),
            "9f8621c3c5faac76a155f6d17b538acb18643c171b9bc40b167d148e8e057546"
        );
        assert_eq!(
            of(r#"{"b":[1.0,true,null],"a":"\u00e9"}"#).unwrap().as_str(),
            "fadcc2513216191919fdfa69e169bbba040da76810af67a0d95e44ddcd672afc"
        );
    }

    #[test]
    fn order_of_keys_white_space_and_escapes_do_not_matter() {
        let sent = r#" {"b" : [ 1 , 2 ], "a":{"d":"\u0041\/","c":null}} "#;
        assert_eq!(canonical(sent.trim()), r#"{"a":{"c":null,"d":"A/"},"b":[1,2]}"#);
    }

    #[test]
    fn the_text_of_numbers_is_kept() {
        assert_eq!(
            canonical("[1.0,1e2,10000000000000000000001]"),
            "[1.0,1e2,10000000000000000000001]"
        );
        assert_ne!(of("1.0").unwrap(), of("1").unwrap());
    }

    #[test]
    fn kind_and_order_of_elements_matter() {
        let payload = RawValue::from_string("[1,2]".to_owned()).unwrap();
        assert_ne!(of("[1,2]").unwrap(), of("[2,1]").unwrap());
        assert_ne!(of("[1,2]").unwrap(), Fingerprint::of("other", &payload).unwrap());
    }

    #[test]
    fn hostile_payloads_are_refused() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(of(&nested(MAX_DEPTH)).is_ok());
        assert!(matches!(of(&nested(MAX_DEPTH + 1)), Err(NotCanonical::TooDeep)));
        assert!(matches!(of(r#"["\ud800"]"#), Err(NotCanonical::NotUnicode(_))));
    }
}
