//! JSON laid out for people, with every value written as it was.

use std::fmt::Write;

/// Spaces of a level.
const STEP: usize = 2;

/// The same JSON with line breaks and indentation. Numbers and strings keep
/// their text, which reading and writing them would not.
pub(super) fn indent(json: &str) -> String {
    let mut out = String::new();
    let mut level = 0_usize;
    let mut rest = json.trim_start();
    while let Some(first) = rest.chars().next() {
        // White space in strings counts, and what looks like brackets is none.
        let end = if first == '"' { end_of_string(rest) } else { first.len_utf8() };
        let (token, behind) = rest.split_at(end);
        rest = behind.trim_start();
        match first {
            '{' | '[' => {
                out.push(first);
                if !rest.starts_with(['}', ']']) {
                    level += 1;
                    break_line(&mut out, level);
                }
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    level = level.saturating_sub(1);
                    break_line(&mut out, level);
                }
                out.push(first);
            }
            ',' => {
                out.push(first);
                break_line(&mut out, level);
            }
            ':' => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
    out
}

fn break_line(out: &mut String, level: usize) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\n{:1$}", "", level * STEP);
}

/// Where the string ends that `text` begins with.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (position, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return position + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_between_values_changes() {
        let json = r#"{"a":[1.0,1e2 , {"b":{}, "c":[ ]}],"d":"[\" ,{ \\","é":null}"#;
        let expected = "{\n  \"a\": [\n    1.0,\n    1e2,\n    {\n      \"b\": {},\n      \
                        \"c\": []\n    }\n  ],\n";
        let indented = indent(json);
        assert!(indented.starts_with(expected), "{indented}");
        let without = |text: &str| text.replace(['\n', ' '], "");
        assert_eq!(without(&indented), without(json));
        assert_eq!(indent(&indented), indented);
        assert_eq!(indent(" \"x\" "), "\"x\"");
    }
}
