//! A dead letter as a line of an export: JSON, versioned, the body as it is.
//!
//! What is exported can be imported again, so this knows what SQS takes.

use std::collections::BTreeMap;

use aws_smithy_types::base64;
use serde::{Deserialize, Serialize};

/// The version of the format that this code writes and reads.
pub const VERSION: u64 = 1;

/// The most that SQS takes in one message, attributes included, and in all the
/// messages of one call.
///
/// Source: Amazon SQS message quotas (1 MiB since August 2025).
pub const MOST_BYTES: usize = 1_048_576;

/// Attributes of one message.
///
/// Source: Amazon SQS message metadata.
const MOST_ATTRIBUTES: usize = 10;

/// Characters of an attribute's name, and of its type.
///
/// Source: Amazon SQS message metadata.
const LONGEST_NAME: usize = 256;

/// Characters of a `MessageGroupId`.
///
/// Source: Amazon SQS API reference, `SendMessage`.
const LONGEST_GROUP_ID: usize = 128;

/// What a message is made of that can be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The body, byte for byte.
    pub body: String,
    /// The message attributes by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// The fair-queue key.
    pub group_id: Option<String>,
    /// The X-Ray trace.
    pub trace_header: Option<String>,
}

/// A message attribute.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// `String`, `Number` or `Binary`, perhaps with a label behind a dot.
    #[serde(rename = "type")]
    pub data_type: String,
    /// The text; Base64 where the type is `Binary`.
    pub value: String,
}

impl Attribute {
    /// Whether the value stands for bytes.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.base_type() == "Binary"
    }

    fn base_type(&self) -> &str {
        self.data_type.split('.').next().unwrap_or_default()
    }

    /// Bytes of the value as SQS counts them.
    fn value_bytes(&self) -> usize {
        let padding = self.value.bytes().rev().take_while(|byte| *byte == b'=').count();
        if self.is_binary() {
            (self.value.len() / 4 * 3).saturating_sub(padding)
        } else {
            self.value.len()
        }
    }
}

impl Content {
    /// Bytes of the message as SQS counts them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes =
            attributes.map(|(name, it)| name.len() + it.data_type.len() + it.value_bytes());
        self.body.len() + attributes.sum::<usize>()
    }

    /// What SQS would refuse about it.
    fn problem(&self) -> Option<String> {
        if self.body.is_empty() {
            return Some("the body is empty".to_owned());
        }
        if !is_text(&self.body) {
            return Some("the body has a character that SQS does not take".to_owned());
        }
        if self.attributes.len() > MOST_ATTRIBUTES {
            return Some(format!("there are more than {MOST_ATTRIBUTES} attributes"));
        }
        for (name, attribute) in &self.attributes {
            if let Some(problem) = problem_of(name, attribute) {
                return Some(format!("attribute \"{name}\": {problem}"));
            }
        }
        if self.group_id.as_deref().is_some_and(|id| !is_group_id(id)) {
            return Some(format!(
                "group_id is not 1 to {LONGEST_GROUP_ID} letters, digits and punctuation marks"
            ));
        }
        if self.trace_header.as_deref().is_some_and(|header| !is_text(header) || header.is_empty())
        {
            return Some("trace_header is not a text that SQS takes".to_owned());
        }
        if self.bytes() > MOST_BYTES {
            return Some(format!("body and attributes have more than {MOST_BYTES} bytes"));
        }
        None
    }
}

fn problem_of(name: &str, attribute: &Attribute) -> Option<&'static str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name) {
        return Some("the name may have 1 to 256 of the characters A-Z a-z 0-9 _ - .");
    }
    if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return Some("the name may not begin or end with a dot, or have two in a row");
    }
    if lower.starts_with("aws.") || lower.starts_with("amazon.") {
        return Some("names that begin with AWS. or Amazon. are SQS's own");
    }
    if attribute.data_type.len() > LONGEST_NAME || !is_text(&attribute.data_type) {
        return Some("the type is too long, or has a character that SQS does not take");
    }
    match attribute.base_type() {
        "String" | "Number" if attribute.value.is_empty() => Some("the value is empty"),
        "String" | "Number" if is_text(&attribute.value) => None,
        "String" | "Number" => Some("the value has a character that SQS does not take"),
        "Binary" => match base64::decode(&attribute.value) {
            Ok(bytes) if bytes.is_empty() => Some("the value is empty"),
            Ok(_) => None,
            Err(_) => Some("the value is not Base64"),
        },
        _ => Some("the type is not String, Number or Binary"),
    }
}

/// The characters that SQS takes.
///
/// Source: Amazon SQS API reference, `SendMessage`, `MessageBody`.
fn is_text(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        other => other >= ' ',
    })
}

fn is_group_id(id: &str) -> bool {
    (1..=LONGEST_GROUP_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A line, in the order in which it is written.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    v: u64,
    /// What SQS called the letter where it was exported; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// When it was sent there, in RFC 3339; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace_header: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, Attribute>,
    body: String,
}

/// All that must be known of a line before it can be read.
#[derive(Deserialize)]
struct Version {
    v: Option<u64>,
}

/// Why a line is no dead letter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLine {
    /// No JSON, or not the fields of a line.
    #[error("{0}")]
    NotALine(String),
    /// Another version of the format.
    #[error("\"v\" is {}, and only {VERSION} is known here", .0.map_or("missing".to_owned(), |v| v.to_string()))]
    Version(Option<u64>),
    /// SQS would not take the message.
    #[error("{0}")]
    NotAMessage(String),
}

/// Writes a line, without the line break.
///
/// # Errors
///
/// None that is known: every part is text.
pub fn write(
    content: &Content,
    message_id: &str,
    sent_at: String,
) -> Result<String, serde_json::Error> {
    let Content { body, attributes, group_id, trace_header } = content.clone();
    let (message_id, sent_at) = (Some(message_id.to_owned()), Some(sent_at));
    serde_json::to_string(&Line {
        v: VERSION,
        message_id,
        sent_at,
        group_id,
        trace_header,
        attributes,
        body,
    })
}

/// Reads a line.
///
/// # Errors
///
/// It is not one, or SQS would not take what it says.
pub fn parse(line: &str) -> Result<Content, InvalidLine> {
    // Which line it is, others know.
    let not_a_line = |error: serde_json::Error| {
        InvalidLine::NotALine(error.to_string().replace(" at line 1 column ", " at column "))
    };
    let version: Version = serde_json::from_str(line).map_err(not_a_line)?;
    if version.v != Some(VERSION) {
        return Err(InvalidLine::Version(version.v));
    }
    let line: Line = serde_json::from_str(line).map_err(not_a_line)?;
    let Line { group_id, trace_header, attributes, body, .. } = line;
    let content = Content { body, attributes, group_id, trace_header };
    match content.problem() {
        Some(problem) => Err(InvalidLine::NotAMessage(problem)),
        None => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(data_type: &str, value: &str) -> Attribute {
        Attribute { data_type: data_type.to_owned(), value: value.to_owned() }
    }

    fn content() -> Content {
        Content {
            body: "{ \"a\" :\t1.0}\u{1f600}\r\n".to_owned(),
            attributes: BTreeMap::from([
                ("reason".to_owned(), attribute("String", "permanent")),
                ("picture".to_owned(), attribute("Binary.png", "AAH/")),
            ]),
            group_id: Some("a1-B2".to_owned()),
            trace_header: Some("Root=1-5759e988-bd862e3fe1be46a994272793".to_owned()),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for content in [content(), Content { body: "x".to_owned(), ..Content::default() }] {
            let line = write(&content, "m", "2026-11-30T00:00:00.000Z".to_owned()).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(parse(&line), Ok(content));
        }
    }

    #[test]
    fn the_format_is_this() {
        let content = Content { body: "{\"id\": 1}".to_owned(), ..Content::default() };
        assert_eq!(
            write(&content, "m", "2026".to_owned()).unwrap(),
            r#"{"v":1,"message_id":"m","sent_at":"2026","body":"{\"id\": 1}"}"#
        );
    }

    #[test]
    fn bytes_are_counted_as_sqs_counts_them() {
        let names = "reason".len() + "picture".len();
        let types = "String".len() + "Binary.png".len();
        assert_eq!(content().bytes(), content().body.len() + names + types + 9 + 3);
        assert_eq!(attribute("Binary", "AA==").value_bytes(), 1);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let check = |line: &str, expected: &str| {
            assert_eq!(parse(line).unwrap_err().to_string(), expected, "{line}");
        };
        check("", "EOF while parsing a value at column 0");
        check("{}", "\"v\" is missing, and only 1 is known here");
        check(r#"{"v":2,"new":1}"#, "\"v\" is 2, and only 1 is known here");
        check(r#"{"v":1}"#, "missing field `body` at column 7");
        check(r#"{"v":1,"body":""}"#, "the body is empty");
        check(r#"{"v":1,"body":"\u0000"}"#, "the body has a character that SQS does not take");
        check(
            r#"{"v":1,"body":"x","group_id":""}"#,
            "group_id is not 1 to 128 letters, digits and punctuation marks",
        );
        let with =
            |attributes: &str| format!(r#"{{"v":1,"body":"x","attributes":{{{attributes}}}}}"#);
        check(
            &with(r#""a":{"type":"Text","value":"x"}"#),
            "attribute \"a\": the type is not String, Number or Binary",
        );
        check(
            &with(r#""a":{"type":"Binary","value":"?"}"#),
            "attribute \"a\": the value is not Base64",
        );
        check(&with(r#""a":{"type":"String","value":""}"#), "attribute \"a\": the value is empty");
        check(
            &with(r#""AWS.x":{"type":"String","value":"x"}"#),
            "attribute \"AWS.x\": names that begin with AWS. or Amazon. are SQS's own",
        );
        let long = format!(r#"{{"v":1,"body":"{}"}}"#, "x".repeat(MOST_BYTES + 1));
        check(&long, "body and attributes have more than 1048576 bytes");
    }

    #[test]
    fn what_the_fuzzer_has_kept_is_read_or_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/dead_letter_line");
        for file in std::fs::read_dir(folder).unwrap() {
            let line = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let Ok(content) = parse(&line) else { continue };
            let again = write(&content, "m", String::new()).unwrap();
            assert_eq!(parse(&again), Ok(content), "{line}");
        }
    }
}
