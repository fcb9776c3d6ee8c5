//! Strings within JSON that is otherwise left as it stands.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A string, which is copied only where it has escapes. (A bare `Cow` would be
/// copied always: serde borrows for it only where it is told to.)
#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The string that `value` is, if it is one.
#[must_use]
pub fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(value.get()).ok().map(|Text(text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_read_and_nothing_else_is_one() {
        let text_of = |json: &str| {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            text(value).map(|text| (text.to_string(), matches!(text, Cow::Borrowed(_))))
        };
        assert_eq!(text_of(r#""plain""#), Some(("plain".to_owned(), true)));
        assert_eq!(text_of(r#""a\"b""#), Some(("a\"b".to_owned(), false)));
        for other in ["7", "null", "{}", r#"["a"]"#, r#""\ud800""#] {
            assert_eq!(text_of(other), None, "{other}");
        }
    }
}
