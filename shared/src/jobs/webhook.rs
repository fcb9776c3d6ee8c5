//! The payload of `webhook`: an HTTP request to somebody else's system.
//!
//! What must be true of every request is checked when it is parsed. Where it may
//! go is configuration ([`Destinations`]). To which addresses a name leads is
//! checked last, when the consumer connects.

mod addresses;
mod destination;
mod headers;
pub mod hosts;
mod rules;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use url::Url;

pub use self::addresses::is_public;
pub use self::rules::{Destinations, Forbidden};
use super::Rules;
use crate::job::Payload;
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::validation::{Invalid, read};

/// Seconds that a request may take, answer included, if nothing else is asked
/// for: what most receivers of webhooks are given elsewhere.
const DEFAULT_TIMEOUT_SECONDS: u64 = 15;

/// The most that can be asked for. One slow receiver must not eat up the time
/// of a whole batch.
const MAX_TIMEOUT_SECONDS: u64 = 30;

/// Asks for an HTTP request to somebody else's system.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// Where it goes: `http` or `https`, without user info.
    pub url: Url,
    /// Its method.
    pub method: Method,
    /// Headers of the one who asks, and the body's media type. None of them is
    /// one that HTTP needs itself, or that the delivery sets. They may hold
    /// credentials.
    pub headers: HeaderMap,
    /// What is sent, every byte of it.
    pub body: Option<String>,
    /// How long it may take, answer included.
    pub timeout: Duration,
}

/// Asks for an HTTP request to somebody else's system.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Webhook))]
struct UncheckedWebhook<'a> {
    /// Where it goes; `https`, unless the deployment allows `http`. Only public
    /// addresses are connected to, unless the deployment names the host. It may
    /// allow no other hosts than those.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(
        value_type = String, max_length = 2083, pattern = r"^https?://[^\s/?#@\\]+([/?#]\S*)?$"
    ))]
    url: Cow<'a, str>,
    /// `POST`, unless it says otherwise.
    #[serde(default)]
    method: UncheckedMethod,
    /// Headers to send, at most 50. Those of the connection, `Host`, `Content-Type` and those
    /// that the delivery sets itself are refused.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Any JSON, sent digit for digit as `application/json`. With a
    /// `content_type` it must be a string, whose text is sent as that.
    #[serde(borrow, default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    body: Option<&'a RawValue>,
    /// The media type of a `body` that is a string to be sent as it is.
    #[cfg_attr(
        feature = "openapi",
        schema(nullable = false, pattern = r"^[!-~]+( *;[ -~]+)?$", max_length = 200)
    )]
    #[serde(default, deserialize_with = "present")]
    content_type: Option<String>,
    /// Seconds that the request may take, answer included.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 30, default = 15))]
    #[serde(default = "default_timeout")]
    timeout_seconds: u64,
}

/// A request's method.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WebhookMethod))]
enum UncheckedMethod {
    #[default]
    Post,
    Put,
    Patch,
    Delete,
    Get,
}

impl From<UncheckedMethod> for Method {
    fn from(method: UncheckedMethod) -> Self {
        match method {
            UncheckedMethod::Post => Self::POST,
            UncheckedMethod::Put => Self::PUT,
            UncheckedMethod::Patch => Self::PATCH,
            UncheckedMethod::Delete => Self::DELETE,
            UncheckedMethod::Get => Self::GET,
        }
    }
}

impl Payload for Webhook {
    const KIND: &'static str = "webhook";

    #[cfg(feature = "openapi")]
    fn schema() -> Schemas {
        Schemas::of::<UncheckedWebhook<'_>>()
    }

    fn parse(payload: &RawValue) -> Result<Self, Invalid> {
        let unchecked: UncheckedWebhook<'_> = read(payload)?;
        let mut invalid = Invalid::default();
        let method = Method::from(unchecked.method);
        let url = destination::parse(&unchecked.url);
        let url = url.map_err(|detail| invalid.push("/url", detail)).ok();
        let headers = headers::parse(&unchecked.headers);
        let headers = headers.map_err(|errors| invalid.extend("/headers", errors)).ok();
        if method == Method::GET && unchecked.body.is_some() {
            invalid.push("/body", "must be left out with GET");
        }
        let body = body(unchecked.body, unchecked.content_type.as_deref());
        let body = body.map_err(|errors| invalid.extend("", errors)).ok();
        let seconds = unchecked.timeout_seconds;
        if !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds) {
            invalid.push("/timeout_seconds", format!("must be 1 to {MAX_TIMEOUT_SECONDS}"));
        }
        let timeout = Duration::from_secs(seconds);
        let (Some(url), Some(mut headers), Some(body)) = (url, headers, body) else {
            return Err(invalid);
        };
        let body = body.map(|(content_type, text)| {
            headers.insert(CONTENT_TYPE, content_type);
            text
        });
        invalid.or(Self { url, method, headers, body, timeout })
    }

    fn check(&self, rules: &Rules) -> Result<(), Invalid> {
        let checked = rules.webhook.check(&self.url);
        checked.map_err(|forbidden| Invalid::one("/url", forbidden.to_string()))
    }
}

/// A body that is sent, behind its media type.
type Typed = (HeaderValue, String);

fn body(body: Option<&RawValue>, content_type: Option<&str>) -> Result<Option<Typed>, Invalid> {
    let Some(body) = body else {
        return match content_type {
            Some(_) => Err(Invalid::one("/content_type", "must be left out without a body")),
            None => Ok(None),
        };
    };
    let Some(content_type) = content_type else {
        let content_type = HeaderValue::from_static("application/json");
        return Ok(Some((content_type, body.get().to_owned())));
    };
    let mut invalid = Invalid::default();
    let content_type = headers::media_type(content_type)
        .map_err(|detail| invalid.push("/content_type", detail))
        .ok();
    let text = serde_json::from_str(body.get()).ok();
    if text.is_none() {
        invalid.push("/body", "must be a string, since there is a content_type");
    }
    match (content_type, text) {
        (Some(content_type), Some(text)) => Ok(Some((content_type, text))),
        _ => Err(invalid),
    }
}

const fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_SECONDS
}

/// A field that is there, `null` included: as a body it is JSON that can be sent,
/// as anything else a mistake.
fn present<'de, T, D>(field: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(field).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(payload: &str) -> Result<Webhook, Invalid> {
        Webhook::parse(&RawValue::from_string(payload.to_owned()).unwrap())
    }

    fn with(fields: &str) -> Result<Webhook, Invalid> {
        parse(&format!(r#"{{"url":"https://partner.example/in",{fields}}}"#))
    }

    fn pointers(fields: &str) -> Vec<String> {
        let invalid = with(fields).expect_err(fields);
        invalid.errors().iter().map(|error| error.pointer.clone()).collect()
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let webhook = parse(r#"{"url":"https://partner.example"}"#).unwrap();
        assert_eq!(webhook.url.as_str(), "https://partner.example/");
        assert_eq!((webhook.method, webhook.timeout), (Method::POST, Duration::from_secs(15)));
        assert!(webhook.headers.is_empty() && webhook.body.is_none());
    }

    #[test]
    fn a_json_body_stays_as_it_was_written() {
        for text in [
            r#"{ "b" : 1.50, "a":[1e2,0.10,12345678901234567890.123456789] }"#,
            r#""\u00e9""#,
            "null",
            "-0.0",
        ] {
            let webhook = with(&format!(r#""body":{text}"#)).unwrap();
            assert_eq!(webhook.body.as_deref(), Some(text));
            assert_eq!(webhook.headers[CONTENT_TYPE], "application/json");
        }
    }

    #[test]
    fn a_string_with_its_content_type_is_sent_as_its_text() {
        let webhook = with(r#""body":"a=\"b\"\n","content_type":"text/plain; charset=utf-8""#);
        let webhook = webhook.unwrap();
        assert_eq!(webhook.body.as_deref(), Some("a=\"b\"\n"));
        assert_eq!(webhook.headers[CONTENT_TYPE], "text/plain; charset=utf-8");
        assert_eq!(pointers(r#""body":{},"content_type":"text/plain""#), ["/body"]);
        assert_eq!(pointers(r#""content_type":"text/plain""#), ["/content_type"]);
        assert_eq!(pointers(r#""body":"","content_type":null"#), ["/content_type"]);
        for broken in ["", "text", "text/plain\\r\\nx: y", "/", "text/", " text/plain", "t t/p"] {
            let fields = format!(r#""body":"","content_type":"{broken}""#);
            assert_eq!(pointers(&fields), ["/content_type"], "{broken}");
        }
    }

    #[test]
    fn methods_and_times_have_their_limits() {
        for method in ["POST", "PUT", "PATCH", "DELETE", "GET"] {
            let webhook = with(&format!(r#""method":"{method}""#)).unwrap();
            assert_eq!(webhook.method.as_str(), method);
        }
        for method in ["post", "HEAD", "CONNECT", "TRACE", "POST / HTTP/1.1\\r\\nx: y"] {
            assert_eq!(pointers(&format!(r#""method":"{method}""#)), ["/method"]);
        }
        assert_eq!(pointers(r#""method":"GET","body":{}"#), ["/body"]);
        assert_eq!(with(r#""timeout_seconds":30"#).unwrap().timeout, Duration::from_secs(30));
        for seconds in ["0", "31", "-1", "1.5", "\"5\""] {
            assert_eq!(pointers(&format!(r#""timeout_seconds":{seconds}"#)), ["/timeout_seconds"]);
        }
    }

    #[test]
    fn everything_that_is_wrong_is_pointed_at() {
        let payload = r#"{"url":"ftp://a","headers":{"host":"b","x/y":"c"},"method":"GET",
            "body":1,"content_type":"text/plain","timeout_seconds":0}"#;
        let invalid = parse(payload).unwrap_err();
        let pointers: Vec<_> = invalid.errors().iter().map(|error| &*error.pointer).collect();
        assert_eq!(
            pointers,
            ["/url", "/headers/host", "/headers/x~1y", "/body", "/body", "/timeout_seconds"]
        );
        assert_eq!(parse("{}").unwrap_err().errors()[0].detail, "missing field `url`");
        assert!(with(r#""retries":1"#).is_err());
    }

    #[cfg(feature = "openapi")]
    #[test]
    fn the_schema_says_what_is_checked() {
        let schemas = serde_json::to_value(Webhook::schema().all).unwrap();
        let fields = &schemas["Webhook"]["properties"];
        assert_eq!(fields["url"]["maxLength"], destination::MAX_URL_CHARS);
        let described = fields["headers"]["description"].as_str().unwrap();
        assert!(described.contains(&format!("at most {}", headers::MAX_HEADERS)));
        assert_eq!(fields["timeout_seconds"]["maximum"], MAX_TIMEOUT_SECONDS);
        assert_eq!(fields["timeout_seconds"]["default"], DEFAULT_TIMEOUT_SECONDS);
    }
}
