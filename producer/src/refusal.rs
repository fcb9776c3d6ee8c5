//! Why a request is not done: one side for the client, one for the log.
//!
//! The two never mix. A [`Problem`] is all that the client sees, and names no
//! part of the deployment; the [`Cause`] has everything that AWS said.

use lambda_http::http::header::{ALLOW, RETRY_AFTER};
use shared::aws::CallError;
use shared::table::TableError;
use shared::validation::Invalid;

use crate::problem::{Problem, ProblemType};
use crate::queue::SendError;
use crate::view::ShownState;

/// Seconds after which a client may try again what failed through no fault of
/// its own: longer than a moment of throttling lasts.
pub(crate) const RETRY_AFTER_SECONDS: &str = "5";

/// A request that was not done.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What the client sees.
    pub(crate) problem: Box<Problem>,
    /// What the log sees; nothing where the client is to blame.
    pub(crate) cause: Option<Cause>,
}

impl Refusal {
    /// A fault of the client's.
    #[must_use]
    pub(crate) fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let problem = Problem { kind, detail, invalid: None, state: None, header: None, jobs: 0 };
        Self { problem: Box::new(problem), cause: None }
    }

    /// The refusal of so many jobs.
    #[must_use]
    pub(crate) fn of_jobs(mut self, jobs: usize) -> Self {
        self.problem.jobs = jobs;
        self
    }

    /// A body that is JSON, but no job.
    #[must_use]
    pub(crate) fn invalid(invalid: Invalid) -> Self {
        let count = invalid.count();
        let detail = match count {
            1 => "One field is invalid, see \"errors\".".to_owned(),
            _ => format!("{count} fields are invalid, see \"errors\" for the first of them."),
        };
        let mut refusal = Self::new(ProblemType::InvalidJob, detail);
        refusal.problem.invalid = Some(invalid);
        refusal
    }

    /// A method that the path does not have.
    #[must_use]
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let detail = format!("This path has only these methods: {allow}.");
        let mut refusal = Self::new(ProblemType::MethodNotAllowed, detail);
        refusal.problem.header = Some((ALLOW, allow));
        refusal
    }

    /// No such job, as far as this caller is concerned.
    #[must_use]
    pub(crate) fn job_not_found() -> Self {
        Self::new(ProblemType::JobNotFound, "There is no job of yours with this id.")
    }

    /// A job that every caller may see, and only the one who asked for it
    /// first may cancel.
    #[must_use]
    pub(crate) fn not_the_owner() -> Self {
        let detail = "Another caller asked for this job first; only that caller may cancel it.";
        Self::new(ProblemType::NotTheOwner, detail)
    }

    /// A job that runs, or has ended.
    #[must_use]
    pub(crate) fn not_cancellable(state: ShownState) -> Self {
        let detail = match state {
            ShownState::Running => {
                "The job is running. It can be cancelled while it is queued only."
            }
            _ => "The job has ended. It can be cancelled while it is queued only.",
        };
        let mut refusal = Self::new(ProblemType::NotCancellable, detail);
        refusal.problem.state = Some(state);
        refusal
    }

    /// A fault that the client can wait out.
    #[must_use]
    pub(crate) fn unavailable(cause: Cause) -> Self {
        Self { cause: Some(cause), ..Self::unavailable_now() }
    }

    /// As [`Self::unavailable`], where the log has the cause already.
    #[must_use]
    pub(crate) fn unavailable_now() -> Self {
        let detail = "The request could not be completed. Try again after the time in \
                      \"Retry-After\"; with an Idempotency-Key it is done once all the same.";
        let mut refusal = Self::new(ProblemType::Unavailable, detail);
        refusal.problem.header = Some((RETRY_AFTER, RETRY_AFTER_SECONDS));
        refusal
    }

    /// A fault that only the operator can mend.
    #[must_use]
    pub(crate) fn internal(cause: Cause) -> Self {
        Self { cause: Some(cause), ..Self::internal_now() }
    }

    /// As [`Self::internal`], where the log has the cause already.
    #[must_use]
    pub(crate) fn internal_now() -> Self {
        let detail = "The service is not set up as it should be. Its operators have to look at it.";
        Self::new(ProblemType::Internal, detail)
    }

    /// Whether the client is not to blame.
    #[must_use]
    pub(crate) const fn is_ours(&self) -> bool {
        matches!(self.problem.kind, ProblemType::Internal | ProblemType::Unavailable)
    }

    /// Says in the log why, with AWS's code and request id where there are
    /// any.
    pub(crate) fn log(&self) {
        let uri = self.problem.kind.uri();
        let Some(cause) = &self.cause else {
            tracing::debug!(problem = uri, detail = self.problem.detail, "request refused");
            return;
        };
        let call = cause.call();
        tracing::error!(
            problem = uri,
            error = %cause,
            aws_code = call.and_then(CallError::code),
            aws_request_id = call.and_then(CallError::request_id),
            cause = call.map(CallError::describe),
            "request failed"
        );
    }
}

/// Why a request was not done, for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    /// The queue did not take the message.
    #[error(transparent)]
    Queue(#[from] SendError),
    /// The table gave no answer.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Something that the code holds to be impossible, or too slow.
    #[error("{0}")]
    Other(String),
}

impl Cause {
    /// Everything that the log needs, in one line.
    #[must_use]
    pub(crate) fn describe(&self) -> String {
        self.call().map_or_else(|| self.to_string(), CallError::describe)
    }

    fn call(&self) -> Option<&CallError> {
        match self {
            Self::Queue(SendError::Call(call) | SendError::Misconfigured(call))
            | Self::Table(TableError::Call(call)) => Some(call),
            Self::Queue(SendError::Refused { .. } | SendError::Unacknowledged)
            | Self::Table(_)
            | Self::Other(_) => None,
        }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::invalid(invalid)
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        if error.is_lasting() {
            Self::internal(error.into())
        } else {
            Self::unavailable(error.into())
        }
    }
}

impl From<TableError> for Refusal {
    fn from(error: TableError) -> Self {
        match &error {
            TableError::Call(call) if !is_misconfiguration(call) => Self::unavailable(error.into()),
            TableError::Call(_) | TableError::Unreadable { .. } => Self::internal(error.into()),
        }
    }
}

/// Whether AWS refused a call for a reason that no retry mends: rights, names
/// or the request itself.
pub(crate) fn is_misconfiguration(call: &CallError) -> bool {
    matches!(
        call.code(),
        Some(
            "AccessDenied"
                | "AccessDeniedException"
                | "AuthFailure"
                | "IncompleteSignature"
                | "InvalidClientTokenId"
                | "InvalidParameterValue"
                | "InvalidSignatureException"
                | "MissingAuthenticationToken"
                | "OptInRequired"
                | "QueueDoesNotExist"
                | "ResourceNotFoundException"
                | "SignatureDoesNotMatch"
                | "UnrecognizedClientException"
                | "ValidationException"
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_can_wait_out_says_how_long() {
        let answer = Refusal::unavailable(Cause::Other("slow".to_owned())).problem.to_answer();
        assert_eq!(answer.status.as_u16(), 503);
        assert_eq!(answer.headers["retry-after"], "5");
    }
}
