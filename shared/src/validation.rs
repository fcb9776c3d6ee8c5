//! What is wrong with an input, field by field.
//!
//! Pointers are JSON pointers (RFC 6901) into the payload, so that a client
//! can mark the field.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};

/// Errors kept of one input; the rest are counted only, so that an answer
/// about 10,000 bad rows stays readable and small.
pub const MAX_ERRORS: usize = 100;

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// JSON pointer to the field.
    pub pointer: String,
    /// What is wrong with it, as a sentence without its subject.
    pub detail: String,
}

/// Everything that is wrong with an input: never empty when it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invalid {
    errors: Vec<FieldError>,
    count: usize,
}

impl Invalid {
    /// The one thing that is wrong.
    #[must_use]
    pub fn one(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let mut invalid = Self::default();
        invalid.push(pointer, detail);
        invalid
    }

    /// Notes one more wrong field.
    pub fn push(&mut self, pointer: impl Into<String>, detail: impl Into<String>) {
        self.count += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(FieldError { pointer: pointer.into(), detail: detail.into() });
        }
    }

    /// Notes everything of `other`, whose pointers start at `prefix`.
    pub fn extend(&mut self, prefix: &str, other: Self) {
        let room = MAX_ERRORS - self.errors.len();
        self.count += other.count;
        self.errors.extend(other.errors.into_iter().take(room).map(|error| FieldError {
            pointer: format!("{prefix}{}", error.pointer),
            detail: error.detail,
        }));
    }

    /// The value, if nothing is wrong.
    ///
    /// # Errors
    ///
    /// All that was noted. The input stays wrong however often it is tried.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.count == 0 { Ok(value) } else { Err(self) }
    }

    /// The first [`MAX_ERRORS`] wrong fields.
    #[must_use]
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    /// How many fields are wrong.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }
}

/// For logs: where, but not what. Details may quote the payload, and so does
/// the name of a field that is not known.
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} invalid field{}", self.count, if self.count == 1 { "" } else { "s" })?;
        if let Some(first) = self.errors.first() {
            let known = first.pointer.rsplit_once('/').map_or("", |(known, _)| known);
            let is_unknown = first.detail.starts_with("unknown field");
            let pointer = if is_unknown { known } else { &first.pointer };
            write!(f, ", the first at \"{pointer}\"")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

/// Reads `text`, an object, as a `T`, borrowing from it.
///
/// # Errors
///
/// The pointer to the first field that does not fit, and why.
pub fn read<'a, T: serde::Deserialize<'a>>(text: &'a RawValue) -> Result<T, Invalid> {
    // Else serde would take an array for a struct, field by field.
    if !text.get().starts_with('{') {
        return Err(Invalid::one("", "must be an object"));
    }
    let mut json = serde_json::Deserializer::from_str(text.get());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let pointer = json_pointer(error.path());
        Invalid::one(pointer, without_position(error.inner()))
    })
}

/// The JSON pointer to the member of an object with this `key`.
#[must_use]
pub fn pointer_to(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The path as a JSON pointer.
fn json_pointer(path: &Path) -> String {
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Map { key } => pointer + &pointer_to(key),
        Segment::Seq { index } => format!("{pointer}/{index}"),
        Segment::Enum { .. } | Segment::Unknown => pointer,
    })
}

/// The error's text without its line and column: those count within the
/// fragment that was read, not within what the client sent.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text.get(..at).unwrap_or_default().to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_many_errors_is_counted() {
        let mut invalid = Invalid::default();
        for row in 0..150 {
            invalid.push(format!("/rows/{row}"), "is wrong");
        }
        let mut outer = Invalid::one("/title", "is missing");
        outer.extend("/payload", invalid);
        assert_eq!((outer.errors().len(), outer.count()), (MAX_ERRORS, 151));
        assert_eq!(outer.errors()[1].pointer, "/payload/rows/0");
    }

    #[test]
    fn a_value_passes_only_where_nothing_is_wrong() {
        assert_eq!(Invalid::default().or(1), Ok(1));
        assert!(Invalid::one("", "is wrong").or(1).is_err());
    }

    #[test]
    fn pointers_escape_what_json_pointers_escape() {
        let text = RawValue::from_string(r#"{"a/b~c":[1,"x"]}"#.to_owned()).unwrap();
        let invalid = read::<std::collections::BTreeMap<String, Vec<u8>>>(&text).unwrap_err();
        assert_eq!(invalid.errors()[0].pointer, "/a~1b~0c/1");
        assert!(!invalid.errors()[0].detail.contains("line"));
    }
}
