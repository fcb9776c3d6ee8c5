//! Problems: what a client is told instead of what it asked for (RFC 9457).

use lambda_http::http::{HeaderName, StatusCode};
use serde::Serialize;
use shared::validation::{FieldError, Invalid, MAX_ERRORS};

use crate::answer::Answer;
use crate::view::ShownState;

/// Characters of one error's pointer or detail. They may quote the request,
/// which may be megabytes; the answer must stay small.
const MAX_TEXT: usize = 300;

/// Every type of problem. Its URI is `urn:problem-type:relevo:` and the name
/// in the table of the crate's documentation; URIs never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemType {
    /// The request, or the JSON in its body, cannot be read.
    Malformed,
    /// There is no body where one is needed.
    BodyMissing,
    /// `Idempotency-Key` is not one key.
    InvalidIdempotencyKey,
    /// The authorizer lets the caller in, but does not say who it is.
    CallerUnknown,
    /// The caller may see the job, but another one asked for it first.
    NotTheOwner,
    /// No such path.
    NotFound,
    /// No such job, or another caller's.
    JobNotFound,
    /// The path has no such method.
    MethodNotAllowed,
    /// The job runs, or has ended.
    NotCancellable,
    /// The job does not fit a message.
    TooLarge,
    /// The body is not said to be JSON.
    UnsupportedMediaType,
    /// The body is JSON, but no job.
    InvalidJob,
    /// The key already names another job.
    IdempotencyKeyReused,
    /// Something is wrong here that trying again does not mend.
    Internal,
    /// The queue or the table cannot be reached.
    Unavailable,
}

impl ProblemType {
    /// All types.
    #[cfg(any(test, feature = "openapi"))]
    pub(crate) const ALL: [Self; 15] = [
        Self::Malformed,
        Self::BodyMissing,
        Self::InvalidIdempotencyKey,
        Self::CallerUnknown,
        Self::NotTheOwner,
        Self::NotFound,
        Self::JobNotFound,
        Self::MethodNotAllowed,
        Self::NotCancellable,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::InvalidJob,
        Self::IdempotencyKeyReused,
        Self::Internal,
        Self::Unavailable,
    ];

    const fn parts(self) -> (StatusCode, &'static str, &'static str) {
        use ProblemType as Type;
        use StatusCode as Code;
        match self {
            Type::Malformed => (Code::BAD_REQUEST, "malformed", "Malformed request"),
            Type::BodyMissing => (Code::BAD_REQUEST, "body-missing", "Body is missing"),
            Type::InvalidIdempotencyKey => {
                (Code::BAD_REQUEST, "invalid-idempotency-key", "Invalid Idempotency-Key")
            }
            Type::CallerUnknown => (Code::FORBIDDEN, "caller-unknown", "Caller is not known"),
            Type::NotTheOwner => (Code::FORBIDDEN, "not-the-owner", "Another caller's job"),
            Type::NotFound => (Code::NOT_FOUND, "not-found", "Not found"),
            Type::JobNotFound => (Code::NOT_FOUND, "job-not-found", "Job not found"),
            Type::MethodNotAllowed => {
                (Code::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed")
            }
            Type::NotCancellable => (Code::CONFLICT, "not-cancellable", "Job cannot be cancelled"),
            Type::TooLarge => (Code::PAYLOAD_TOO_LARGE, "too-large", "Job is too large"),
            Type::UnsupportedMediaType => {
                (Code::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "Unsupported media type")
            }
            Type::InvalidJob => (Code::UNPROCESSABLE_ENTITY, "invalid-job", "Invalid job"),
            Type::IdempotencyKeyReused => (
                Code::UNPROCESSABLE_ENTITY,
                "idempotency-key-reused",
                "Idempotency-Key names another job",
            ),
            Type::Internal => (Code::INTERNAL_SERVER_ERROR, "internal", "Internal error"),
            Type::Unavailable => (Code::SERVICE_UNAVAILABLE, "unavailable", "Try again later"),
        }
    }

    /// The status of an answer that is such a problem.
    #[must_use]
    pub(crate) const fn status(self) -> StatusCode {
        self.parts().0
    }

    /// The type in words.
    #[must_use]
    pub(crate) const fn title(self) -> &'static str {
        self.parts().2
    }

    /// The URI that names the type.
    #[must_use]
    pub(crate) fn uri(self) -> String {
        format!("urn:problem-type:relevo:{}", self.parts().1)
    }
}

/// What the client sees.
#[derive(Debug)]
pub(crate) struct Problem {
    /// What kind of problem it is.
    pub(crate) kind: ProblemType,
    /// What is wrong in this case, as a sentence.
    pub(crate) detail: String,
    /// The fields that are wrong.
    pub(crate) invalid: Option<Invalid>,
    /// Where the job stands that is in the way.
    pub(crate) state: Option<ShownState>,
    /// A header that belongs to the type.
    pub(crate) header: Option<(HeaderName, &'static str)>,
    /// How many jobs were asked for in vain, for the metrics.
    pub(crate) jobs: usize,
}

/// What went wrong (RFC 9457).
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Problem))]
pub(crate) struct ProblemBody {
    /// Tells problems apart; these names never change.
    r#type: String,
    /// The type in words.
    title: &'static str,
    /// The status of an answer that is this problem.
    pub(crate) status: u16,
    /// What is wrong in this case, as a sentence.
    detail: String,
    /// Where the job stands that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    state: Option<ShownState>,
    /// The first of the fields that are wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false, max_items = 100))]
    errors: Option<Vec<FieldError>>,
    /// How many fields are wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    error_count: Option<usize>,
}

impl Problem {
    /// The answer that tells the problem.
    #[must_use]
    pub(crate) fn to_answer(&self) -> Answer {
        let body = self.to_body("", MAX_ERRORS);
        let answer = Answer::json(self.kind.status(), "application/problem+json", &body);
        match &self.header {
            Some((name, value)) => answer.with_header(name.clone(), value),
            None => answer,
        }
    }

    /// The JSON that tells the problem of the part of a request that `within`
    /// points to, with the first `most_errors` of its invalid fields.
    #[must_use]
    pub(crate) fn to_body(&self, within: &str, most_errors: usize) -> ProblemBody {
        ProblemBody {
            r#type: self.kind.uri(),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: self.detail.clone(),
            state: self.state,
            errors: self.invalid.as_ref().map(|invalid| {
                let short = |error: &FieldError| FieldError {
                    pointer: format!("{within}{}", shorten(&error.pointer)),
                    detail: shorten(&error.detail),
                };
                invalid.errors().iter().take(most_errors).map(short).collect()
            }),
            error_count: self.invalid.as_ref().map(Invalid::count),
        }
    }
}

/// The first [`MAX_TEXT`] characters.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_documented() {
        assert_eq!(ProblemType::ALL.len(), ProblemType::Unavailable as usize + 1);
        for kind in ProblemType::ALL {
            let (status, name, _) = kind.parts();
            let row = format!("//! | `{name}` | {} |", status.as_u16());
            assert!(include_str!("lib.rs").contains(&row), "{row}");
        }
    }

    #[test]
    fn problems_read_as_rfc_9457_says() {
        let mut invalid = Invalid::one("/payload/rows/3/amount", "must be a decimal");
        invalid.push("/payload/title", "x".repeat(10_000));
        let problem = Problem {
            kind: ProblemType::InvalidJob,
            detail: "2 fields are invalid.".to_owned(),
            invalid: Some(invalid),
            state: None,
            header: None,
            jobs: 1,
        };
        let answer = problem.to_answer();
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        let body = answer.body.unwrap();
        assert!(
            body.starts_with(
                r#"{"type":"urn:problem-type:relevo:invalid-job","title":"Invalid job","status":422,"detail":"2 fields"#
            ),
            "{body}"
        );
        assert!(body.contains(
            r#""errors":[{"pointer":"/payload/rows/3/amount","detail":"must be a decimal"}"#
        ));
        assert!(body.ends_with(r#""error_count":2}"#) && body.len() < 1_000, "{body}");
    }
}
