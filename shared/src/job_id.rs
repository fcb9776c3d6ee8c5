//! The id of a job: one name for one piece of work, whoever makes the id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::{Intent, Scope};
use crate::principal::Principal;

/// Namespace of ids that are made of an intent key.
const INTENTS: Uuid = Uuid::from_u128(0x8f14_6bd2_40c7_4f6e_9d0a_6a4f_3c1b_7e52);

/// Namespace of ids that are made of an `Idempotency-Key`.
const KEYS: Uuid = Uuid::from_u128(0x2b9e_51c8_7a3d_4d0b_b6f4_1e80_95d7_c3a6);

/// A job's id, a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// The id of a job that has neither an intent nor a key.
    #[must_use]
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The id of the work that `intent` of a job of this `kind` means.
    #[must_use]
    pub fn of_intent(principal: &Principal, kind: &str, intent: &Intent) -> Self {
        let name = match intent.scope {
            Scope::Principal => name(&[principal.as_str(), kind, &intent.key]),
            Scope::Deployment => name(&[kind, &intent.key]),
        };
        Self(Uuid::new_v5(&INTENTS, name.as_bytes()))
    }

    /// The id of the work that `principal` calls `key`.
    #[must_use]
    pub fn of_key(principal: &Principal, key: &str) -> Self {
        Self(Uuid::new_v5(&KEYS, name(&[principal.as_str(), key]).as_bytes()))
    }
}

/// One name of several parts, each behind its length, so that no two lists of
/// parts make the same name.
fn name(parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    parts.concat()
}

impl FromStr for JobId {
    type Err = InvalidJobId;

    /// Reads the hyphenated form in either case, and no other: one spelling
    /// per id in paths, logs and tables.
    fn from_str(text: &str) -> Result<Self, InvalidJobId> {
        if text.len() != uuid::fmt::Hyphenated::LENGTH {
            return Err(InvalidJobId);
        }
        Uuid::try_parse(text).map(Self).map_err(|_| InvalidJobId)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no job id, and never will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID in its hyphenated form")]
pub struct InvalidJobId;

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(scope: Scope, key: &str) -> Intent {
        Intent { scope, key: key.to_owned() }
    }

    #[test]
    fn one_name_makes_one_id_for_ever() {
        let anonymous = Principal::anonymous();
        assert_eq!(
            JobId::of_key(&anonymous, "order-1").to_string(),
            "e3774a4a-976e-510b-802b-093d7863afe8"
        );
        assert_eq!(
            JobId::of_intent(&anonymous, "mail", &intent(Scope::Principal, "a")).to_string(),
            "d42acbbd-72f8-5c2b-b0c1-dff9756951e7"
        );
        assert_eq!(
            JobId::of_intent(&anonymous, "mail", &intent(Scope::Deployment, "a")).to_string(),
            "83354623-8b3c-5d23-9ab4-fb7fdea0dfca"
        );
    }

    #[test]
    fn no_two_names_make_the_same_id() {
        let (ann, bob) = (Principal::jwt("i", "ann"), Principal::jwt("i", "bob"));
        assert_ne!(JobId::of_key(&ann, "k"), JobId::of_key(&bob, "k"));
        assert_ne!(
            JobId::of_intent(&ann, "mail", &intent(Scope::Principal, "a")),
            JobId::of_intent(&bob, "mail", &intent(Scope::Principal, "a")),
        );
        assert_eq!(
            JobId::of_intent(&ann, "mail", &intent(Scope::Deployment, "a")),
            JobId::of_intent(&bob, "mail", &intent(Scope::Deployment, "a")),
        );
        assert_ne!(name(&["a", "bc"]), name(&["ab", "c"]));
        assert_ne!(name(&["a", "b", "c"]), name(&["a", "b1:c"]));
    }

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let id = "abfc2f07-0372-443d-8266-36440aa5df13";
        assert_eq!(id.parse::<JobId>().unwrap().to_string(), id);
        assert_eq!(id.to_uppercase().parse::<JobId>().unwrap().to_string(), id);
        for other in ["", "abfc2f070372443d826636440aa5df13", &format!("{{{id}}}"), &"k".repeat(36)]
        {
            assert_eq!(other.parse::<JobId>(), Err(InvalidJobId), "{other}");
        }
    }
}
