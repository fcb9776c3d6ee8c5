//! How both functions talk to AWS: access, time limits, errors.

mod http;

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, Region, SharedCredentialsProvider, StalledStreamProtectionConfig,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::shared::IntoShared;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::SdkConfig;
use aws_types::request_id::RequestId;

use self::http::Http;
use crate::config::Environment;
use crate::telemetry::causes;

/// The function's credentials, and where AWS is.
///
/// It comes from the variables that Lambda sets, and from nowhere else: profile
/// files and metadata services do not exist there, and looking for them makes a
/// cold start slow and a missing credential a hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    region: Region,
    credentials: Credentials,
    endpoint: Option<String>,
    roots: Roots,
}

/// Whose certificates are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Roots {
    /// Amazon's own five: reading and parsing the machine's 140 would be part of
    /// each cold start.
    Amazon,
    /// The machine's, which are those that `SSL_CERT_FILE` names: for endpoints
    /// with a private authority, and for partitions of AWS that have another one.
    Machine,
}

impl Access {
    /// Reads `AWS_REGION`, the credentials, `AWS_ENDPOINT_URL` and
    /// `SSL_CERT_FILE`.
    pub fn read<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Self> {
        let region = env.required::<String>("AWS_REGION");
        let key = env.required::<String>("AWS_ACCESS_KEY_ID");
        let secret = env.required::<String>("AWS_SECRET_ACCESS_KEY");
        let token = env.secret("AWS_SESSION_TOKEN");
        let endpoint = env.secret("AWS_ENDPOINT_URL");
        let roots =
            env.secret::<String>("SSL_CERT_FILE")?.map_or(Roots::Amazon, |_| Roots::Machine);
        Some(Self {
            region: Region::new(region?),
            credentials: Credentials::new(key?, secret?, token?, None, "environment"),
            endpoint: endpoint?,
            roots,
        })
    }

    /// Access to the server at this host and port.
    #[cfg(feature = "test-support")]
    #[must_use]
    pub fn for_tests(address: &str) -> Self {
        Self {
            region: Region::from_static("eu-west-1"),
            credentials: Credentials::for_tests(),
            endpoint: Some(format!("http://{address}")),
            roots: Roots::Amazon,
        }
    }
}

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

/// The configuration of all AWS clients of a function, which share one pool of
/// connections.
#[must_use]
pub fn configure(access: Access, limits: CallLimits) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(limits.attempt)
        .operation_attempt_timeout(limits.attempt)
        .operation_timeout(limits.operation)
        .build();
    let retries =
        RetryConfig::standard().with_max_attempts(MAX_ATTEMPTS).with_max_backoff(MAX_BACKOFF);
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(access.region)
        .credentials_provider(SharedCredentialsProvider::new(access.credentials))
        .retry_config(retries)
        .timeout_config(timeouts)
        // Bodies are small, and an attempt as a whole has its limit.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    config.set_endpoint_url(access.endpoint);
    // Without a client, which cannot be, each call errs and says so.
    config.set_http_client(Http::new(access.roots).ok().map(IntoShared::into_shared));
    config.build()
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

    /// Everything that the log needs, in one line: the operation, AWS's code and
    /// request id, and its message, or the causes if nobody answered. Not for
    /// clients.
    ///
    /// The response itself is left out: it may hold an item, and so a result.
    #[must_use]
    pub fn describe(&self) -> String {
        let request_id = self.request_id.as_deref().unwrap_or("none");
        // The causes of an answer from AWS are its message once more, as Rust code.
        let why = self.message.clone().unwrap_or_else(|| causes(&*self.source));
        format!("{self}, request id {request_id}: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(session_token: &str) -> Result<Access, String> {
        let variables = [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "hunter2"),
            ("AWS_SESSION_TOKEN", session_token),
        ];
        let mut env = Environment::new(|name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        let access = Access::read(&mut env);
        env.finish(|| access).map_err(|error| error.to_string())
    }

    #[test]
    fn access_is_what_lambda_says() {
        let access = read("token").unwrap();
        assert_eq!(access.region.as_ref(), "eu-west-1");
        assert_eq!(access.credentials.session_token(), Some("token"));
        assert_eq!(access.endpoint, None);
        assert_eq!(access.roots, Roots::Amazon);
        assert_eq!(read("").unwrap().credentials.session_token(), None);
        assert!(!format!("{access:?}").contains("hunter2"), "{access:?}");
    }

    #[test]
    fn every_variable_that_is_missing_is_named() {
        let mut env = Environment::new(|_: &str| None);
        let access = Access::read(&mut env);
        let error = env.finish(|| access).unwrap_err().to_string();
        for name in ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            assert!(error.contains(name), "{error}");
        }
    }
}
