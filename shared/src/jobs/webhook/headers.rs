//! Which headers a client may have sent, and what must be true of them.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::validation::{Invalid, pointer_to};

/// Headers that a client may set.
pub(super) const MAX_HEADERS: usize = 50;

/// Characters of a header's value.
const MAX_VALUE_CHARS: usize = 4_096;

/// Characters of a media type with its parameters.
const MAX_MEDIA_TYPE_CHARS: usize = 200;

/// Headers that belong to a connection (RFC 9110, 7.6.1), or that say where a
/// message ends or whom it is for: with them a client could smuggle a second
/// request into the first, or reach another host than the one in the URL.
const OF_THE_CONNECTION: [&str; 14] = [
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Headers that every delivery sets itself, and `content-type`, which goes with
/// the body.
const OF_THE_DELIVERY: [&str; 5] =
    ["content-type", "idempotency-key", "traceparent", "tracestate", "x-job-attempt"];

/// Standard Webhooks' own, such as `webhook-signature`.
const OF_THE_STANDARD: &str = "webhook-";

pub(super) fn parse(headers: &BTreeMap<String, String>) -> Result<HeaderMap, Invalid> {
    let mut invalid = Invalid::default();
    let mut parsed = HeaderMap::new();
    if headers.len() > MAX_HEADERS {
        invalid.push("", format!("has more than {MAX_HEADERS} headers"));
        return Err(invalid);
    }
    for (name, value) in headers {
        match (parse_name(name), parse_value(value)) {
            (Ok(name), Ok(_)) if parsed.contains_key(&name) => {
                invalid.push(pointer_to(name.as_str()), "is there twice, in another spelling");
            }
            (Ok(name), Ok(value)) => {
                parsed.insert(name, value);
            }
            (Err(detail), _) | (_, Err(detail)) => invalid.push(pointer_to(name), detail),
        }
    }
    invalid.or(parsed)
}

fn parse_name(name: &str) -> Result<HeaderName, String> {
    let name: HeaderName =
        name.parse().map_err(|_| "is no name that a header can have".to_owned())?;
    let text = name.as_str();
    if OF_THE_CONNECTION.contains(&text) {
        return Err("belongs to the connection, and cannot be set".to_owned());
    }
    if OF_THE_DELIVERY.contains(&text) || text.starts_with(OF_THE_STANDARD) {
        return Err("is set by the delivery itself".to_owned());
    }
    Ok(name)
}

/// Visible ASCII, spaces and tabs: no line break, and nothing that one server
/// reads differently from another.
fn parse_value(value: &str) -> Result<HeaderValue, String> {
    if value.len() > MAX_VALUE_CHARS {
        return Err(format!("must have at most {MAX_VALUE_CHARS} characters"));
    }
    let mut value = plain(value).ok_or("must be of visible ASCII characters, spaces and tabs")?;
    // It may be a credential: not for anybody's debug output.
    value.set_sensitive(true);
    Ok(value)
}

/// [`HeaderValue`]'s own parser also takes what is not ASCII.
fn plain(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    text.parse().ok().filter(|_| is_plain)
}

/// Reads a `type/subtype`, with or without parameters.
pub(super) fn media_type(text: &str) -> Result<HeaderValue, &'static str> {
    const DETAIL: &str = "must be a media type, such as \"text/plain; charset=utf-8\"";
    let is_token = |part: &str| part.parse::<HeaderName>().is_ok();
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_type =
        essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    if !is_type || text.len() > MAX_MEDIA_TYPE_CHARS {
        return Err(DETAIL);
    }
    plain(text).ok_or(DETAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Result<HeaderMap, Invalid> {
        parse(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn what_a_client_may_say_is_kept() {
        for (name, value) in [
            ("Authorization", "Bearer abc"),
            ("x-tenant", "7"),
            ("User-Agent", "billing/1"),
            ("cookie", "a=b"),
            ("x-empty", ""),
        ] {
            assert_eq!(check(name, value).unwrap()[name], value);
        }
        let debug = format!("{:?}", check("authorization", "Bearer abc").unwrap());
        assert!(!debug.contains("abc"), "{debug}");
    }

    #[test]
    fn headers_of_the_connection_are_refused_in_any_case() {
        for name in OF_THE_CONNECTION {
            assert!(check(name, "x").is_err(), "{name}");
            assert!(check(&name.to_uppercase(), "x").is_err(), "{name}");
        }
    }

    #[test]
    fn headers_of_the_delivery_cannot_be_forged() {
        for name in [
            "webhook-id",
            "Webhook-Signature",
            "WEBHOOK-TIMESTAMP",
            "Idempotency-Key",
            "X-Job-Attempt",
            "traceparent",
            "Content-Type",
        ] {
            assert!(check(name, "x").is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_can_be_injected() {
        for (name, value) in [
            ("x-a", "b\r\nx-injected: c"),
            ("x-a", "b\nc"),
            ("x-a", "b\0"),
            ("x-a", "\u{e9}"),
            ("x-a", "b\u{2028}"),
            ("x-a\r\nx-injected", "c"),
            ("x a", "b"),
            ("x-a:", "b"),
            ("", "b"),
            ("x-\u{fc}", "b"),
        ] {
            assert!(check(name, value).is_err(), "{name} {value}");
        }
        assert!(check("x-a", &"b".repeat(MAX_VALUE_CHARS + 1)).is_err());
    }

    #[test]
    fn a_header_is_there_once() {
        let twice = [("X-A", "1"), ("x-a", "2")];
        let twice = twice.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(parse(&BTreeMap::from(twice)).is_err());
        let many = (0..=MAX_HEADERS).map(|number| (format!("x-{number}"), String::new()));
        assert!(parse(&many.collect()).is_err());
    }
}
