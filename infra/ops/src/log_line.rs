//! A function's log line, for people: time, function, level, message, fields.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::logs::Line;
use crate::output::{Color, Style};

/// What Lambda itself writes around each invocation; `--json` shows it.
const OF_LAMBDA: [&str; 4] = ["INIT_START ", "START RequestId: ", "END RequestId: ", "REPORT "];

/// Fields that have a place of their own, and the name of the code's module, which
/// the message tells as well.
const NO_FIELDS: [&str; 4] = ["timestamp", "level", "message", "target"];

/// The field that makes metrics of a line, which is for CloudWatch to read;
/// `--json` shows it.
const METRICS: &str = "_aws";

/// What is shown of a line of `function`; nothing of Lambda's own lines.
#[must_use]
pub fn show(style: Style, function: &str, line: &Line) -> Option<String> {
    let message = line.message.trim_end();
    if style == Style::Json {
        return Some(document(function, message, line.event()));
    }
    match line.event() {
        Some(Value::Object(event)) if event.contains_key(METRICS) => None,
        Some(Value::Object(event)) => Some(show_event(style, function, &event)),
        _ if OF_LAMBDA.iter().any(|start| message.starts_with(start)) => None,
        // A panic's text, or what the emulator has to say.
        _ => Some(format!("{function:<8} {message}")),
    }
}

/// One JSON object, also of a line that is none, with the name of its function.
fn document(function: &str, message: &str, event: Option<Value>) -> String {
    let mut document = match event {
        Some(Value::Object(event)) => event,
        _ => Map::from_iter([("message".to_owned(), message.into())]),
    };
    document.insert("function".to_owned(), function.into());
    Value::Object(document).to_string()
}

fn show_event(style: Style, function: &str, event: &Map<String, Value>) -> String {
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    let level = text("level");
    let mut shown = format!(
        "{} {function:<8} {} {}",
        style.paint(Color::Dim, time_of_day(text("timestamp"))),
        style.paint(color(level), &format!("{level:<5}")),
        text("message"),
    );
    for (name, value) in event.iter().filter(|(name, _)| !NO_FIELDS.contains(&name.as_str())) {
        // Writing to a String cannot fail.
        let _ = write!(shown, " {}{}", style.paint(Color::Dim, &format!("{name}=")), field(value));
    }
    shown
}

fn color(level: &str) -> Color {
    match level {
        "ERROR" => Color::Red,
        "WARN" => Color::Yellow,
        "INFO" => Color::Green,
        _ => Color::Dim,
    }
}

/// To the millisecond, of an RFC 3339 time in UTC.
fn time_of_day(timestamp: &str) -> &str {
    timestamp.get("2026-11-30T".len().."2026-11-30T00:00:00.000".len()).unwrap_or(timestamp)
}

/// Text as it is where nobody can mistake its end, else as JSON, which also
/// keeps control characters from the terminal.
fn field(value: &Value) -> String {
    match value {
        Value::String(text) if is_one_word(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_one_word(text: &str) -> bool {
    let unclear = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '=');
    !text.is_empty() && !text.contains(unclear)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(style: Style, message: &str) -> Option<String> {
        let line = Line {
            log_stream_name: "a stream".to_owned(),
            event_id: None,
            timestamp: 0,
            message: message.to_owned(),
        };
        show(style, "consumer", &line)
    }

    const EVENT: &str = r#"{"timestamp":"2026-11-30T17:53:01.511907Z","level":"WARN","message":"record settled","job.attempt":2,"error":"failed as asked","outcome":"released","name":"weekly","target":"consumer::finish"}"#;

    #[test]
    fn an_event_is_one_readable_line() {
        assert_eq!(
            shown(Style::Plain, EVENT).unwrap(),
            r#"17:53:01.511 consumer WARN  record settled error="failed as asked" job.attempt=2 name=weekly outcome=released"#
        );
    }

    #[test]
    fn colors_change_nothing_but_colors() {
        let colored = shown(Style::Colored, EVENT).unwrap();
        assert!(colored.contains("\u{1b}[33mWARN \u{1b}[0m"), "{colored}");
        let mut bare = String::new();
        for part in colored.split('\u{1b}') {
            bare.push_str(
                part.split_once('m').filter(|_| part.starts_with('[')).map_or(part, |p| p.1),
            );
        }
        assert_eq!(bare, shown(Style::Plain, EVENT).unwrap());
    }

    #[test]
    fn json_is_what_was_logged_and_by_which_function() {
        let document =
            |line| -> Value { serde_json::from_str(&shown(Style::Json, line).unwrap()).unwrap() };
        let mut event: Value = serde_json::from_str(EVENT).unwrap();
        event["function"] = "consumer".into();
        assert_eq!(document(EVENT), event);
        let started = json!({ "function": "consumer", "message": "START RequestId: 1" });
        assert_eq!(document("START RequestId: 1\n"), started);
    }

    #[test]
    fn metrics_are_left_out() {
        let line = r#"{"_aws":{"Timestamp":1},"JobsAccepted":1}"#;
        assert_eq!(shown(Style::Plain, line), None);
        assert!(shown(Style::Json, line).unwrap().contains("_aws"));
    }

    #[test]
    fn lines_of_lambda_are_left_out_and_those_of_a_panic_are_not() {
        for line in
            ["START RequestId: 1 Version: $LATEST", "END RequestId: 1", "REPORT RequestId: 1"]
        {
            assert_eq!(shown(Style::Plain, line), None);
        }
        assert_eq!(
            shown(Style::Plain, "thread 'main' panicked at src/x.rs\n").unwrap(),
            "consumer thread 'main' panicked at src/x.rs"
        );
    }

    #[test]
    fn no_field_reaches_the_terminal_with_control_characters() {
        let line = shown(Style::Plain, r#"{"message":"m","error":"\u001b[2J\nx=1"}"#).unwrap();
        assert!(!line.contains(char::is_control), "{line}");
    }
}
