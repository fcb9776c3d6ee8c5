//! Makes an error's text fit for an entry and for an SQS attribute.

/// Longest text of an error, in bytes. It counts towards the size of an item
/// and of a dead letter, for which the producer leaves 8 KiB free.
const MAX_ERROR_BYTES: usize = 1024;

/// The text without what SQS refuses in an attribute, on one line, cut, and
/// never empty.
pub(crate) fn clean(text: &str) -> String {
    let allowed = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let cleaned: String = text.chars().map(|c| if allowed(c) { c } else { ' ' }).collect();
    let cut = cleaned.get(..cleaned.floor_char_boundary(MAX_ERROR_BYTES)).unwrap_or_default();
    match cut.trim() {
        "" => "no text".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cleaned_and_cut() {
        assert_eq!(clean("a\nb\u{0}c\u{ffff}d"), "a b c d");
        assert_eq!(clean(" \n"), "no text");
        assert_eq!(clean(&"é".repeat(1_000)).len(), MAX_ERROR_BYTES);
        assert_eq!(clean(&format!("x{}", "é".repeat(1_000))).len(), MAX_ERROR_BYTES - 1);
    }
}
