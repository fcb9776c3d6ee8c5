//! The queue through which jobs get to the consumer.

pub(crate) mod chunks;
mod sqs;

use shared::Principal;
use shared::aws::CallError;

pub use self::sqs::SqsJobQueue;
use crate::trace::TraceHeader;

/// Message attribute that names the kind, for filters and people.
pub(crate) const KIND_ATTRIBUTE: &str = "kind";

/// The data type of that attribute.
pub(crate) const STRING_TYPE: &str = "String";

/// Where accepted jobs are sent.
pub trait JobQueue: Send + Sync {
    /// Sends a message. It is in the queue when this answers.
    ///
    /// # Errors
    ///
    /// See [`SendError`]. The message may be in the queue all the same, which
    /// the consumer's claim makes harmless.
    fn send(&self, message: Outgoing) -> impl Future<Output = Result<(), SendError>> + Send;

    /// Sends up to [`MAX_TOGETHER`] messages in one call. For each of them, in
    /// their order, whether it is in the queue when this answers.
    ///
    /// # Errors
    ///
    /// As [`Self::send`]: of the whole call, or of one message.
    fn send_together(
        &self,
        messages: &[&Outgoing],
    ) -> impl Future<Output = Result<Vec<Result<(), SendError>>, SendError>> + Send;
}

/// Messages that SQS takes in one call.
pub const MAX_TOGETHER: usize = 10;

/// A message with everything that travels beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The encoded message.
    pub body: String,
    /// The kind's name.
    pub kind: &'static str,
    /// `MessageGroupId`: SQS's fair-queue key.
    pub group_id: String,
    /// Seconds until the consumer may see it, at most 900.
    pub delay_seconds: u16,
    /// The trace that the request belongs to.
    pub trace: Option<TraceHeader>,
}

impl Outgoing {
    /// Bytes that count against the queue's `MaximumMessageSize`: the body and
    /// each attribute's name, type and value. System attributes do not count.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.body.len() + KIND_ATTRIBUTE.len() + STRING_TYPE.len() + self.kind.len()
    }

    /// Whether SQS takes every character of the body: `#x9 | #xA | #xD |
    /// #x20-#xD7FF | #xE000-#xFFFD | #x10000-#x10FFFF`. (Of the others, JSON
    /// text can hold only U+FFFE and U+FFFF, and it can escape them.)
    #[must_use]
    pub fn has_only_allowed_characters(&self) -> bool {
        self.body.chars().all(|c| {
            matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
                || c >= '\u{10000}'
        })
    }
}

/// The `MessageGroupId` of a principal's jobs, or of one group of them.
///
/// A hash, because principals may have characters and lengths that SQS
/// refuses. Each part stands behind its length, so that no two pairs are one.
#[must_use]
pub fn group_id(principal: &Principal, group: Option<&str>) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in std::iter::once(principal.as_str()).chain(group) {
        hash.update(format!("{}:{part}", part.len()));
    }
    hex::encode(hash.finalize())
}

/// The queue did not acknowledge a message.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Unreachable, throttled or failing: later it may work.
    #[error(transparent)]
    Call(CallError),
    /// The queue or the right to use it is missing: only a deployment helps.
    #[error(transparent)]
    Misconfigured(CallError),
    /// The queue took the call, but not this message of several.
    #[error(
        "the queue refused one message of several ({code}: {})",
        .message.as_deref().unwrap_or("no message")
    )]
    Refused {
        /// SQS's code.
        code: String,
        /// What SQS says about it.
        message: Option<String>,
        /// Whether it will be refused again.
        is_lasting: bool,
    },
    /// The answer was a success that does not name the message. Whatever
    /// became of it, it is not known to be in the queue.
    #[error("the queue's answer holds no message id")]
    Unacknowledged,
}

impl SendError {
    /// Whether only a deployment helps.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        match self {
            Self::Misconfigured(_) => true,
            Self::Refused { is_lasting, .. } => *is_lasting,
            Self::Call(_) | Self::Unacknowledged => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(body: &str) -> Outgoing {
        Outgoing {
            body: body.to_owned(),
            kind: "report",
            group_id: String::new(),
            delay_seconds: 0,
            trace: None,
        }
    }

    #[test]
    fn a_size_is_of_utf_8_bytes_and_counts_the_attribute() {
        assert_eq!(outgoing("€").size(), 3 + "kind".len() + "String".len() + "report".len());
    }

    #[test]
    fn what_sqs_refuses_is_known() {
        for allowed in ["", "\t\n\r ~", "\u{d7ff}\u{e000}\u{fffd}", "\u{1ffff}\u{10ffff}", "\u{7f}"]
        {
            assert!(outgoing(allowed).has_only_allowed_characters(), "{allowed:?}");
        }
        for refused in ["\u{fffe}", "a\u{ffff}", "\u{0}", "\u{b}", "\u{1f}"] {
            assert!(!outgoing(refused).has_only_allowed_characters(), "{refused:?}");
        }
    }

    #[test]
    fn group_ids_are_of_plain_characters_and_never_run_together() {
        let principal = Principal::jwt("https://issuer.example", "ann");
        let id = group_id(&principal, None);
        assert!(id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_ne!(id, group_id(&principal, Some("")));
        assert_ne!(
            group_id(&Principal::from_text("a"), Some("bc")),
            group_id(&Principal::from_text("ab"), Some("c"))
        );
    }
}
