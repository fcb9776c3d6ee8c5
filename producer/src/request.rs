//! An HTTP request, whichever gateway it came through.

use lambda_http::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use lambda_http::http::{HeaderMap, Method};
use shared::Principal;

use crate::problem::ProblemType;
use crate::refusal::Refusal;
use crate::trace::TraceHeader;

/// What the routes need of a request.
#[derive(Debug)]
pub(crate) struct Request {
    /// The method.
    pub method: Method,
    /// The path as routes know it, without the stage.
    pub path: String,
    /// What stands before that path in the address that the client used:
    /// nothing, or `/` and the stage.
    pub base: String,
    /// All headers; names in any case.
    pub headers: HeaderMap,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// Who is calling.
    pub caller: Principal,
    /// The trace that the request belongs to.
    pub trace: Option<TraceHeader>,
}

impl Request {
    /// The JSON text of the body, not yet parsed.
    ///
    /// A body without a content type is read as JSON, since gateways and
    /// consoles leave it out. A leading byte order mark is skipped.
    ///
    /// # Errors
    ///
    /// 415, or 400 where there is no text.
    pub(crate) fn json_text(&self) -> Result<&str, Refusal> {
        if !self.headers.get_all(CONTENT_TYPE).iter().all(|value| is_json(value.as_bytes())) {
            let detail = "The body must be JSON, sent as Content-Type: application/json.";
            return Err(Refusal::new(ProblemType::UnsupportedMediaType, detail));
        }
        let mut encodings = self.headers.get_all(CONTENT_ENCODING).iter();
        if !encodings.all(|value| value.as_bytes().eq_ignore_ascii_case(b"identity")) {
            let detail = "The body must be sent as it is, without Content-Encoding.";
            return Err(Refusal::new(ProblemType::UnsupportedMediaType, detail));
        }
        let text = str::from_utf8(&self.body)
            .map_err(|_| Refusal::new(ProblemType::Malformed, "The body is not UTF-8 text."))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            let detail = "The body is missing. Send a job as JSON, with \"kind\" and \"payload\".";
            return Err(Refusal::new(ProblemType::BodyMissing, detail));
        }
        Ok(text)
    }
}

/// Whether a content type is none, `application/json` or `application/*+json`.
/// JSON has no parameters (RFC 8259, 11), so they are not looked at.
fn is_json(content_type: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(content_type) else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.strip_prefix("application/") {
        Some(subtype) => subtype == "json" || subtype.ends_with("+json") && !subtype.contains(','),
        None => essence.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_many_names() {
        for content_type in [
            "",
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.api+json",
            " application/json ",
        ] {
            assert!(is_json(content_type.as_bytes()), "{content_type}");
        }
        for content_type in [
            "application/x-www-form-urlencoded",
            "text/plain",
            "text/json",
            "application/jsonx",
            "application/xml, application/a+json",
            "json",
        ] {
            assert!(!is_json(content_type.as_bytes()), "{content_type}");
        }
    }
}
