//! `Idempotency-Key`: the client's own name for a job.
//!
//! The header is that of the IETF's `draft-ietf-httpapi-idempotency-key-header`:
//! a structured-field string (RFC 8941, 3.3.3) such as `"order-42"`. Since most
//! clients send a bare token, `order-42` is read as the same key.
//!
//! A key names one job of one principal for as long as the job's entry lives
//! (`ENTRY_TTL_DAYS`, counted from its last claim).

use lambda_http::http::{HeaderMap, HeaderValue};

use crate::problem::ProblemType;
use crate::refusal::Refusal;

/// The header's name.
pub(crate) const HEADER: &str = "idempotency-key";

/// Characters of a key. UUIDs have 36; names of orders and payments fit.
pub(crate) const MAX_CHARS: usize = 255;

/// A key that was read and is sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key of a request, if it has one.
    ///
    /// # Errors
    ///
    /// 400 where the header is there, but is not one key. To go on without
    /// one would make each retry of the client another job.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let mut values = headers.get_all(HEADER).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => Self::parse(value).map(Some).map_err(refuse),
            (Some(_), Some(_)) => Err(refuse("must be sent once")),
        }
    }

    fn parse(value: &HeaderValue) -> Result<Self, &'static str> {
        let text = value.to_str().map_err(|_| "must have printable ASCII characters only")?;
        let text = text.trim_matches([' ', '\t']);
        let key = match text.strip_prefix('"') {
            Some(rest) => read_string(rest)?,
            None => read_token(text)?,
        };
        Self::from_text(key)
    }

    /// The key that `key` is, as it stands: in the body of a batch it needs no
    /// quotes of its own.
    ///
    /// # Errors
    ///
    /// What a key must be.
    pub(crate) fn from_text(key: String) -> Result<Self, &'static str> {
        if !key.chars().all(is_printable) {
            return Err("must have printable ASCII characters only");
        }
        if key.trim().is_empty() {
            return Err("must not be empty or blank");
        }
        // Only one-byte characters have come through.
        if key.len() > MAX_CHARS {
            return Err("must have at most 255 characters");
        }
        Ok(Self(key))
    }

    /// Refuses the header on a request of several jobs.
    ///
    /// # Errors
    ///
    /// 400 where it is there. One key cannot name several jobs.
    pub(crate) fn none_in(headers: &HeaderMap) -> Result<(), Refusal> {
        if headers.contains_key(HEADER) {
            return Err(refuse("cannot name a batch; each job may have an \"idempotency_key\""));
        }
        Ok(())
    }

    /// The key itself, without quotes.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads a structured-field string behind its first quote.
fn read_string(text: &str) -> Result<String, &'static str> {
    let mut key = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next() {
            Some('"') if chars.as_str().is_empty() => return Ok(key),
            Some('"') => return Err("must be one string, with nothing behind it"),
            Some('\\') => match chars.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err("may escape only quotes and backslashes"),
            },
            Some(printable) if is_printable(printable) => key.push(printable),
            Some(_) => return Err("must have printable ASCII characters only"),
            None => return Err("has no closing quote"),
        }
    }
}

const fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~')
}

/// Reads a bare token. Gateways join repeated headers by commas, so a comma
/// means two keys unless it stands in quotes.
fn read_token(text: &str) -> Result<String, &'static str> {
    if text.contains(',') {
        return Err("must be sent once, and stand in quotes if it has a comma");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') {
        return Err("must stand in quotes if it has blanks or quotes in it");
    }
    Ok(text.to_owned())
}

fn refuse(problem: &str) -> Refusal {
    let detail =
        format!("The header Idempotency-Key {problem}. An example of a key is \"order-42\".");
    Refusal::new(ProblemType::InvalidIdempotencyKey, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&[u8]]) -> Result<Option<String>, u16> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        IdempotencyKey::from_headers(&headers)
            .map(|key| key.map(|key| key.as_str().to_owned()))
            .map_err(|refusal| refusal.problem.to_answer().status.as_u16())
    }

    #[test]
    fn a_key_may_be_quoted_or_bare() {
        for (value, key) in [
            ("order-42", "order-42"),
            ("\"order-42\"", "order-42"),
            (" \"a, b\" ", "a, b"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            ("YWJj+/=;:", "YWJj+/=;:"),
        ] {
            assert_eq!(read(&[value.as_bytes()]), Ok(Some(key.to_owned())), "{value}");
        }
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["k".repeat(255).as_bytes()]), Ok(Some("k".repeat(255))));
    }

    #[test]
    fn anything_else_is_refused() {
        for value in [
            &b""[..],
            b"   ",
            b"\"\"",
            b"\"   \"",
            b"\"open",
            b"\"a\";b=c",
            b"\"a\", \"b\"",
            b"a,b",
            b"a b",
            b"a\"b",
            b"\"a\\b\"",
            b"a\tb",
            "\u{fc}".as_bytes(),
            "\"\u{20ac}\"".as_bytes(),
            "k".repeat(256).as_bytes(),
            "k".repeat(2049).as_bytes(),
        ] {
            assert_eq!(read(&[value]), Err(400), "{}", String::from_utf8_lossy(value));
        }
        assert_eq!(read(&[b"a", b"a"]), Err(400));
    }
}
