//! `GET /openapi.json`: describes the API, for machines.

use lambda_http::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use lambda_http::http::{HeaderMap, HeaderValue, StatusCode};

use crate::answer::Answer;
use crate::request::Request;
use crate::tally::Tally;

/// Made of the types by `openapi.rs`, and held to them by a test.
const DOCUMENT: &str = include_str!("../openapi.json");

/// Answers with the document. It changes with deployments only, and with the
/// stage that it is asked through.
pub(crate) fn describe(request: &Request) -> Answer {
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("private, max-age=300")),
    ]);
    let document = if request.base.is_empty() {
        DOCUMENT.to_owned()
    } else {
        let server = format!(r#""url": {}"#, serde_json::Value::from(request.base.as_str()));
        DOCUMENT.replacen(r#""url": "/""#, &server, 1)
    };
    Answer { status: StatusCode::OK, headers, body: Some(document), tally: Tally::default() }
}
