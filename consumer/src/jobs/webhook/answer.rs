//! What a receiver's answer means.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use reqwest::Response;
use serde::Serialize;
use shared::Timestamp;

use crate::handler::JobError;

/// Bytes of an answer that are kept; the rest is not even read.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// Headers of an answer that are kept. No cookies, no credentials.
const KEPT_HEADERS: [&str; 6] =
    ["content-type", "date", "etag", "location", "x-correlation-id", "x-request-id"];

/// By this header, with the value [`ABORT`], a receiver says that it does not
/// want the message again.
const DELIVERY: &str = "webhook-delivery";
const ABORT: &str = "abort-message";

/// What the receiver answered.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(in crate::jobs) struct Delivery {
    status: u16,
    headers: BTreeMap<&'static str, String>,
    /// As far as it was read; what is no UTF-8 is replaced.
    body: String,
    /// Whether there was more.
    truncated: bool,
}

/// What follows from a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Again,
    Never,
}

/// Why the receiver did not take the message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("the receiver answered {0}, and redirects are not followed")]
    Redirect(StatusCode),
    #[error("the receiver answered {0}, and does not want the message again")]
    Aborted(StatusCode),
    #[error("the receiver answered {0}")]
    Status(StatusCode),
}

/// Reads an answer that came at `now`.
///
/// # Errors
///
/// The receiver did not accept the message.
pub(super) async fn read(answer: Response, now: Timestamp) -> Result<Delivery, JobError> {
    let status = answer.status();
    match verdict(status, answer.headers()) {
        Verdict::Accepted => Ok(delivery(answer).await),
        Verdict::Never => Err(JobError::permanent(refusal(status, answer.headers()))),
        Verdict::Again => {
            let refusal = Refusal::Status(status);
            Err(match retry_after(answer.headers(), now) {
                Some(not_before) => JobError::retryable_at(not_before, refusal),
                None => JobError::retryable(refusal),
            })
        }
    }
}

/// 2xx is success, whatever else is said. Retried is what may pass: conflicts
/// and time-outs of the receiver's own, too many requests, and its failures,
/// except for those that say that it never will (501, 505).
fn verdict(status: StatusCode, headers: &HeaderMap) -> Verdict {
    let may_pass = matches!(status.as_u16(), 408 | 409 | 425 | 429 | 500 | 502..=504 | 506..=599);
    if status.is_success() {
        Verdict::Accepted
    } else if may_pass && !is_aborted(headers) {
        Verdict::Again
    } else {
        Verdict::Never
    }
}

fn is_aborted(headers: &HeaderMap) -> bool {
    headers
        .get_all(DELIVERY)
        .iter()
        .any(|value| value.as_bytes().eq_ignore_ascii_case(ABORT.as_bytes()))
}

fn refusal(status: StatusCode, headers: &HeaderMap) -> Refusal {
    if is_aborted(headers) {
        Refusal::Aborted(status)
    } else if status.is_redirection() {
        Refusal::Redirect(status)
    } else {
        Refusal::Status(status)
    }
}

/// The moment that `Retry-After` names, in seconds or as a date (RFC 9110,
/// 10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Timestamp> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // So many seconds that they are no number are for ever.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(now + Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since_epoch = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Timestamp::default() + since_epoch)
}

/// The message was accepted, so an answer that breaks off is no failure.
async fn delivery(mut answer: Response) -> Delivery {
    let (mut body, mut truncated) = (Vec::new(), false);
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => {
                let room = MAX_BODY_BYTES - body.len();
                body.extend(chunk.iter().take(room));
                truncated = chunk.len() > room;
            }
            Ok(None) => break,
            Err(_) => truncated = true,
        }
        if truncated {
            break;
        }
    }
    let mut body = String::from_utf8_lossy(&body).into_owned();
    // What JSON escapes sixfold would make the whole result too large to keep.
    while serde_json::to_string(&body).is_ok_and(|json| json.len() > 2 * MAX_BODY_BYTES) {
        body.truncate(body.floor_char_boundary(body.len() / 2));
        truncated = true;
    }
    let kept = KEPT_HEADERS.into_iter().filter_map(|name| {
        let value = answer.headers().get(name)?.to_str().ok()?;
        Some((name, value.to_owned()))
    });
    Delivery { status: answer.status().as_u16(), headers: kept.collect(), body, truncated }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn a_status_decides() {
        for status in 200..600_u16 {
            let expected = match status {
                200..=299 => Verdict::Accepted,
                501 | 505 => Verdict::Never,
                408 | 409 | 425 | 429 | 500.. => Verdict::Again,
                _ => Verdict::Never,
            };
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(verdict(status, &HeaderMap::new()), expected, "{status}");
        }
    }

    #[test]
    fn a_receiver_can_call_the_message_off() {
        let abort = headers(DELIVERY, "Abort-Message");
        assert_eq!(verdict(StatusCode::SERVICE_UNAVAILABLE, &abort), Verdict::Never);
        assert_eq!(verdict(StatusCode::TOO_MANY_REQUESTS, &abort), Verdict::Never);
        assert_eq!(verdict(StatusCode::OK, &abort), Verdict::Accepted);
        let other = headers(DELIVERY, "something-else");
        assert_eq!(verdict(StatusCode::SERVICE_UNAVAILABLE, &other), Verdict::Again);
    }

    #[test]
    fn errors_say_what_happened() {
        let text = |status, headers| refusal(status, &headers).to_string();
        assert_eq!(text(StatusCode::GONE, HeaderMap::new()), "the receiver answered 410 Gone");
        assert!(text(StatusCode::FOUND, HeaderMap::new()).ends_with("redirects are not followed"));
        assert!(text(StatusCode::GONE, headers(DELIVERY, ABORT)).ends_with("message again"));
    }

    #[test]
    fn retry_after_comes_in_two_forms() {
        let check = |text: &str, expected: Option<Timestamp>| {
            assert_eq!(retry_after(&headers("retry-after", text), NOW), expected, "{text}");
        };
        check("0", Some(NOW));
        check("120", Some(NOW + Duration::from_mins(2)));
        check(" 7 ", Some(NOW + Duration::from_secs(7)));
        check("99999999999999999999999", Some(Timestamp::from_millis(u64::MAX)));
        let date = Timestamp::from_millis(1_800_000_060_000);
        check("Fri, 15 Jan 2027 08:01:00 GMT", Some(date));
        check("Friday, 15-Jan-27 08:01:00 GMT", Some(date));
        check("Fri Jan 15 08:01:00 2027", Some(date));
        for other in ["", "-1", "1.5", "soon", "Fri, 99 Jan 2027 08:01:00 GMT"] {
            check(other, None);
        }
        assert_eq!(retry_after(&HeaderMap::new(), NOW), None);
    }
}
