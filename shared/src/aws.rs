//! How both functions talk to AWS: configuration, time limits, errors.

use std::error::Error;
use std::time::Duration;

use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader};
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_types::request_id::RequestId;

use crate::telemetry::causes;

/// Time limits of one call to AWS.
///
/// The SDK sets none for reading by itself: a stuck call, or a pooled
/// connection that died while the function was frozen, would cost the whole
/// invocation instead of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// One attempt, connecting included.
    pub attempt: Duration,
    /// All attempts and the waits between them.
    pub operation: Duration,
}

/// Attempts of one call: the first, and two that get over a dead connection
/// and a moment of throttling.
const MAX_ATTEMPTS: u32 = 3;

/// The longest wait between two attempts. The SDK's own 20 s outlast a call.
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// The configuration of all AWS clients of a function; `load` finishes it.
///
/// Credentials and region come from the variables that Lambda sets, and from
/// nowhere else: profile files and metadata services do not exist there, and
/// looking for them makes a cold start slow and a missing credential a hang.
#[must_use]
pub fn loader(limits: CallLimits) -> ConfigLoader {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(limits.attempt)
        .operation_attempt_timeout(limits.attempt)
        .operation_timeout(limits.operation)
        .build();
    let no_files = EnvConfigFiles::builder()
        .with_contents(EnvConfigFileKind::Config, "")
        .with_contents(EnvConfigFileKind::Credentials, "")
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .profile_files(no_files)
        .region(EnvironmentVariableRegionProvider::new())
        .credentials_provider(EnvironmentVariableCredentialsProvider::new())
        .retry_config(
            RetryConfig::standard().with_max_attempts(MAX_ATTEMPTS).with_max_backoff(MAX_BACKOFF),
        )
        .timeout_config(timeouts)
}

/// A call to AWS that got no good answer, after the SDK's own attempts.
///
/// Whether it took effect is not known: it may have, before its answer was
/// lost.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed ({})", .code.as_deref().unwrap_or("no answer"))]
pub struct CallError {
    operation: &'static str,
    code: Option<String>,
    request_id: Option<String>,
    message: Option<String>,
    source: Box<dyn Error + Send + Sync>,
}

impl CallError {
    /// Takes what the log needs from an SDK error.
    pub fn new<E>(operation: &'static str, error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
        SdkError<E, HttpResponse>: RequestId,
    {
        Self {
            operation,
            code: error.code().map(str::to_owned),
            request_id: error.request_id().map(str::to_owned),
            message: error.message().map(str::to_owned),
            source: Box::new(error),
        }
    }

    /// A failure as tests inject it; without a `code`, nobody answered.
    #[cfg(feature = "test-support")]
    #[must_use]
    pub fn for_tests(operation: &'static str, code: Option<&str>) -> Self {
        let code = code.map(str::to_owned);
        let source = "injected by a test".into();
        Self { operation, code, request_id: None, message: None, source }
    }

    /// AWS's code, such as `ThrottlingException`; `None` if nobody answered.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// The id under which AWS knows the request.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Everything that the log needs, in one line: the operation, AWS's code,
    /// message and request id, and the causes. Not for clients.
    ///
    /// The response itself is left out: it may hold an item, and so a result.
    #[must_use]
    pub fn describe(&self) -> String {
        let request_id = self.request_id.as_deref().unwrap_or("none");
        let message = self.message.as_deref().unwrap_or("no message");
        format!("{self}, request id {request_id}: {message}: {}", causes(&*self.source))
    }
}
