//! Who asked for a job.
//!
//! The principal is part of every name that a job can have, so that nobody
//! can collide with, read or cancel somebody else's job.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The caller, as the API's authorizer vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Principal(String);

impl Principal {
    /// The caller of an API that has no authorizer.
    #[must_use]
    pub fn anonymous() -> Self {
        Self("anonymous".to_owned())
    }

    /// The subject of a JWT.
    ///
    /// Only issuer and subject together name somebody (RFC 7519, 4.1.2); the
    /// issuer's length keeps two such pairs from making one text.
    #[must_use]
    pub fn jwt(issuer: &str, subject: &str) -> Self {
        Self(format!("jwt:{}:{issuer}:{subject}", issuer.len()))
    }

    /// An IAM user or role.
    ///
    /// Of a `user_id` like `AROA…:session` the session name is left out: it
    /// changes with every instance of one service.
    #[must_use]
    pub fn iam(account: &str, user_id: &str) -> Self {
        let unique_id = user_id.split_once(':').map_or(user_id, |(unique_id, _)| unique_id);
        Self(format!("iam:{account}:{unique_id}"))
    }

    /// The text that a message or an entry holds.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text for a message or an entry.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sessions_of_one_role_are_one_principal() {
        let one = Principal::iam("123456789012", "AROAEXAMPLE:pod-1");
        let two = Principal::iam("123456789012", "AROAEXAMPLE:pod-2");
        assert_eq!(one, two);
        assert_ne!(one, Principal::iam("210987654321", "AROAEXAMPLE:pod-1"));
    }

    #[test]
    fn issuer_and_subject_cannot_flow_into_one_another() {
        assert_ne!(Principal::jwt("https://a", "b:c"), Principal::jwt("https://a:b", "c"));
    }
}
