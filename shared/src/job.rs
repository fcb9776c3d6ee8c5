//! The kinds of jobs, and the one place where a job is parsed.
//!
//! The [`Job`] enum is the contract between the functions: the producer
//! cannot accept a kind that the consumer cannot run, because the consumer's
//! `match` over it would not compile.

use serde_json::value::RawValue;

#[cfg(feature = "probe")]
use crate::jobs::Probe;
use crate::jobs::{Report, Rules, Webhook, WelcomeEmail};
use crate::validation::Invalid;

/// What a kind's payload type must tell.
pub trait Payload: Sized {
    /// The kind's name in requests, messages, entries and logs.
    const KIND: &'static str;

    /// Who shares the kind's intents, if its jobs have any. Jobs of a kind
    /// with [`Scope::Deployment`] may be read by every authenticated caller.
    const INTENT_SCOPE: Scope = Scope::Principal;

    /// Reads and validates a payload from its text.
    ///
    /// # Errors
    ///
    /// Every field that is wrong, with pointers into the payload. A retry
    /// with the same payload fails the same.
    fn parse(payload: &RawValue) -> Result<Self, Invalid>;

    /// Checks a payload against the deployment's configuration.
    ///
    /// # Errors
    ///
    /// Every field that asks for what is not allowed here.
    fn check(&self, _rules: &Rules) -> Result<(), Invalid> {
        Ok(())
    }

    /// The schema of a payload's JSON.
    #[cfg(feature = "openapi")]
    fn schema() -> crate::schema::Schemas;

    /// The business meaning of the job, where asking twice means it once.
    fn intent_key(&self) -> Option<String> {
        None
    }

    /// What becomes of the job when it is interrupted.
    fn interrupted(&self) -> Interrupted {
        Interrupted::Retry
    }
}

/// What becomes of a job whose handler was interrupted: by a crash, a panic,
/// a stop for time or an unexpected error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// It runs again.
    Retry,
    /// It waits for a person to find out whether its effect happened.
    Hold,
}

/// The business meaning of a job, such as `welcome-email:{candidate_id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Whose asking twice means one job.
    pub scope: Scope,
    /// What names the meaning within its scope and kind.
    pub key: String,
}

/// Who shares an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The same caller asking twice means one job.
    Principal,
    /// Whoever asks, however often, it is one job.
    Deployment,
}

/// Why a kind and a payload make no job.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJob {
    /// No such kind here; a newer deployment may know it.
    #[error("unknown kind \"{0}\"")]
    UnknownKind(String),
    /// The payload does not fit its kind.
    #[error("invalid payload")]
    Payload(#[source] Invalid),
}

/// Makes the enum of all kinds out of their payload types.
macro_rules! jobs {
    ($($(#[$attribute:meta])* $payload:ident,)+) => {
        /// A job that was parsed and validated.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Job {
            $($(#[$attribute])* $payload($payload),)+
        }

        #[allow(unused_doc_comments, reason = "a kind's attributes stand at each of its arms too")]
        impl Job {
            /// The names of all kinds.
            pub const KINDS: &[&str] = &[$($(#[$attribute])* $payload::KIND),+];

            /// Parses and validates the payload of a job of this `kind`.
            ///
            /// # Errors
            ///
            /// See [`InvalidJob`].
            pub fn parse(kind: &str, payload: &RawValue) -> Result<Self, InvalidJob> {
                match kind {
                    $($(#[$attribute])* $payload::KIND => {
                        $payload::parse(payload).map(Self::$payload).map_err(InvalidJob::Payload)
                    })+
                    _ => Err(InvalidJob::UnknownKind(kind.to_owned())),
                }
            }

            /// Checks the payload against the deployment's configuration.
            ///
            /// # Errors
            ///
            /// Every field that asks for what is not allowed here. Whoever is
            /// about to do it checks again: a job may be older than the rules.
            pub fn check(&self, rules: &Rules) -> Result<(), Invalid> {
                match self {
                    $($(#[$attribute])* Self::$payload(payload) => payload.check(rules),)+
                }
            }

            /// The schema of each kind's payload, by the kind's name.
            #[cfg(feature = "openapi")]
            #[must_use]
            pub fn schemas() -> Vec<(&'static str, crate::schema::Schemas)> {
                vec![$($(#[$attribute])* ($payload::KIND, $payload::schema())),+]
            }

            /// The name of the job's kind.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self {
                    $($(#[$attribute])* Self::$payload(_) => $payload::KIND,)+
                }
            }

            /// What becomes of the job when it is interrupted.
            #[must_use]
            pub fn interrupted(&self) -> Interrupted {
                match self {
                    $($(#[$attribute])* Self::$payload(payload) => payload.interrupted(),)+
                }
            }

            /// The job's business meaning, if its kind declares one.
            #[must_use]
            pub fn intent(&self) -> Option<Intent> {
                match self {
                    $($(#[$attribute])* Self::$payload(payload) => payload
                        .intent_key()
                        .map(|key| Intent { scope: $payload::INTENT_SCOPE, key }),)+
                }
            }

            /// Whether jobs of this kind belong to the deployment, so that
            /// every authenticated caller may read them.
            #[must_use]
            pub fn is_deployments(kind: &str) -> bool {
                match kind {
                    $($(#[$attribute])* $payload::KIND => $payload::INTENT_SCOPE == Scope::Deployment,)+
                    _ => false,
                }
            }
        }
    };
}

jobs! {
    /// Exact figures per group of a list of amounts.
    Report,
    /// An HTTP request to somebody else's system.
    Webhook,
    /// The e-mail that welcomes a candidate, sent once.
    WelcomeEmail,
    /// Fails, panics or hangs as its payload says; in test builds only.
    #[cfg(feature = "probe")]
    Probe,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_names_are_different_and_plain() {
        let mut names = Job::KINDS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Job::KINDS.len());
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        }
    }

    #[test]
    fn an_unknown_kind_is_told_from_an_invalid_payload() {
        let payload = RawValue::from_string("{}".to_owned()).unwrap();
        assert_eq!(
            Job::parse("unheard-of", &payload),
            Err(InvalidJob::UnknownKind("unheard-of".to_owned()))
        );
        assert!(matches!(Job::parse("report", &payload), Err(InvalidJob::Payload(_))));
    }
}
