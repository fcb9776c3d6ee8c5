//! An HTTP answer, before it takes the shape that its gateway reads.

use lambda_http::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use lambda_http::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use crate::tally::Tally;

/// What the client gets.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status line's code.
    pub status: StatusCode,
    /// All headers, at most one of each name.
    pub headers: HeaderMap,
    /// JSON text.
    pub body: Option<String>,
    /// What became of the jobs that were asked for.
    pub tally: Tally,
}

impl Answer {
    /// An answer whose body is `body` as JSON.
    ///
    /// No cache may keep it: a job's state changes, and another caller must
    /// not be shown it.
    pub(crate) fn json(
        status: StatusCode,
        content_type: &'static str,
        body: &impl Serialize,
    ) -> Self {
        let (status, body) = match serde_json::to_string(body) {
            Ok(body) => (status, Some(body)),
            Err(error) => {
                tracing::error!(%error, "answer cannot be written as JSON");
                (StatusCode::INTERNAL_SERVER_ERROR, None)
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Self { status, headers, body, tally: Tally::default() }
    }

    /// The answer with one more header. A text that no header can hold is
    /// left out.
    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// The answer to a request for jobs of which this became.
    #[must_use]
    pub(crate) const fn with_tally(mut self, tally: Tally) -> Self {
        self.tally = tally;
        self
    }

    /// The answer to HEAD where this is the one to GET.
    #[must_use]
    pub(crate) fn without_body(mut self) -> Self {
        self.body = None;
        self
    }
}
