//! The X-Ray trace that a request belongs to.

/// Characters that a trace header may have. Lambda's are about 100 long.
const MAX_CHARS: usize = 500;

/// A trace header that SQS takes as `AWSTraceHeader`.
///
/// SQS refuses the whole message for a malformed one, and clients can send
/// what they like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHeader(String);

impl TraceHeader {
    /// Reads `Root=1-<8 hex>-<24 hex>`, alone or with more `key=value` parts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.' | '_');
        let mut has_root = false;
        for part in text.split(';') {
            let (key, value) = part.trim().split_once('=')?;
            if key.is_empty() || !key.chars().all(plain) || !value.chars().all(plain) {
                return None;
            }
            has_root |= key == "Root" && is_trace_id(value);
        }
        (has_root && text.len() <= MAX_CHARS).then(|| Self(text.to_owned()))
    }

    /// The header's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_trace_id(text: &str) -> bool {
    let is_hex =
        |part: &str, chars| part.len() == chars && part.chars().all(|c| c.is_ascii_hexdigit());
    let mut parts = text.split('-');
    let (version, time, number) = (parts.next(), parts.next(), parts.next());
    version == Some("1")
        && time.is_some_and(|time| is_hex(time, 8))
        && number.is_some_and(|number| is_hex(number, 24))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trace_headers_are_passed_on() {
        for sound in [
            "Root=1-5759e988-bd862e3fe1be46a994272793",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
            "Self=1-5759e988-bd862e3fe1be46a994272793;Root=1-5759e988-bd862e3fe1be46a994272793",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0;Lineage=1:a87bd80c:0",
        ] {
            assert_eq!(TraceHeader::parse(sound).as_ref().map(TraceHeader::as_str), Some(sound));
        }
        for other in [
            "",
            "Root=",
            "Root=1-5759e988-bd862e3fe1be46a99427279",
            "Parent=53995c3f42cd8ad8",
            "Root=1-5759e988-bd862e3fe1be46a994272793;x",
            "Root=1-5759e988-bd862e3fe1be46a994272793;a=\"b\"",
            &format!("Root=1-5759e988-bd862e3fe1be46a994272793;a={}", "b".repeat(500)),
        ] {
            assert_eq!(TraceHeader::parse(other), None, "{other}");
        }
    }
}
