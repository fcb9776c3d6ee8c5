//! Why a job failed or its message is a dead letter, each in one word.
//!
//! A failed entry has such a word, and so has a dead letter. Clients see them
//! and operators filter by them, so they stay as they are.

/// The handler said that no retry can help.
pub const PERMANENT: &str = "permanent";

/// The job failed at its message's last receive.
pub const RETRIES_EXHAUSTED: &str = "retries-exhausted";

/// The job was interrupted, and whether its effect happened is not known.
pub const INTERRUPTED: &str = "interrupted";

/// A job of a kind that is held when interrupted had failed already when this
/// message, which was sent before that, was received again.
pub const FAILED_BEFORE: &str = "failed-before";

/// The id belongs to a job with another payload.
pub const FINGERPRINT_MISMATCH: &str = "fingerprint-mismatch";

/// The body is no JSON, or has no job id.
pub const UNDECODABLE: &str = "undecodable";

/// The consumer does not know this version of the wire format.
pub const UNKNOWN_VERSION: &str = "unknown-version";

/// The consumer does not know this kind.
pub const UNKNOWN_KIND: &str = "unknown-kind";

/// The payload does not fit its kind.
pub const INVALID_PAYLOAD: &str = "invalid-payload";
