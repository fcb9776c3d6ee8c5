//! Checks the whole of a JSON text before anything is read from it.
//!
//! Parts of a request are handed on unread, as raw text. What a reader may
//! stumble over later is found here: half a surrogate pair, a number that no
//! float can hold, a key that stands twice in an object (which readers would
//! take for either value), and nesting without end.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use shared::fingerprint::MAX_DEPTH;
use shared::raw::Text;

use crate::problem::shorten;

/// Levels that a text may nest: those of a payload and of what is around it.
const MAX_LEVELS: usize = MAX_DEPTH + 4;

/// What is wrong with a text.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// Not JSON, or not representable.
    Syntax(serde_json::Error),
    /// A key stands twice in one object.
    DuplicateKey(String),
    /// More than [`MAX_LEVELS`] levels.
    TooDeep,
}

/// Checks that `text` is one JSON value, all of which can be read.
pub(crate) fn check(text: &str) -> Result<(), Flaw> {
    let flaw = RefCell::new(None);
    let mut json = serde_json::Deserializer::from_str(text);
    let read = Check { level: 0, flaw: &flaw }.deserialize(&mut json).and_then(|()| json.end());
    match (read, flaw.into_inner()) {
        (_, Some(flaw)) => Err(flaw),
        (Err(error), None) => Err(Flaw::Syntax(error)),
        (Ok(()), None) => Ok(()),
    }
}

/// Reads any value and keeps nothing.
#[derive(Clone, Copy)]
struct Check<'f> {
    level: usize,
    /// Set where the deserializer's own error cannot tell.
    flaw: &'f RefCell<Option<Flaw>>,
}

impl Check<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.level == MAX_LEVELS {
            return Err(self.fail(Flaw::TooDeep));
        }
        Ok(Self { level: self.level + 1, ..self })
    }

    fn fail<E: serde::de::Error>(self, flaw: Flaw) -> E {
        *self.flaw.borrow_mut() = Some(flaw);
        E::custom("flaw")
    }
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let element = self.deeper()?;
        while seq.next_element_seed(element)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let member = self.deeper()?;
        let mut keys = Vec::new();
        while let Some(Text(key)) = map.next_key()? {
            keys.push(key);
            map.next_value_seed(member)?;
        }
        keys.sort_unstable();
        match keys.array_windows().find(|[one, next]| one == next) {
            Some([key, _]) => Err(self.fail(Flaw::DuplicateKey(key.to_string()))),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "The body is not valid JSON: {error}."),
            Self::DuplicateKey(key) => {
                write!(f, "The body has an object in which \"{}\" stands twice.", shorten(key))
            }
            Self::TooDeep => write!(f, "The body nests deeper than {MAX_LEVELS} levels."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_text_passes() {
        for text in [
            r#" {"a":[1,-2.5e300,true,null,"\ud83d\ude00 \u0000"],"b":{"a":{"a":1}}} "#,
            "7",
            "18446744073709551616",
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_readers_stumble_over_is_found() {
        for text in [
            "",
            "{",
            "{}{}",
            r#"{"a":1,}"#,
            r#"["\ud83d"]"#,
            r#"{"\ude00":1}"#,
            "[1e999]",
            "[NaN]",
            "[01]",
            "[\"\u{1}\"]",
        ] {
            assert!(matches!(check(text), Err(Flaw::Syntax(_))), "{text}");
        }
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            assert!(matches!(check(text), Err(Flaw::DuplicateKey(key)) if key == "a"), "{text}");
        }
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(check(&nested(MAX_LEVELS)).is_ok());
        for levels in [MAX_LEVELS + 1, 1_000_000] {
            assert!(matches!(check(&nested(levels)), Err(Flaw::TooDeep)), "{levels}");
        }
    }
}
