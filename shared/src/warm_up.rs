//! Opens the connections to AWS before the first event.
//!
//! Lambda gives a process all of a CPU while it starts, and afterwards what its
//! memory pays for. So names are looked up, TLS is agreed upon and a first request
//! is signed while nobody waits: by calls that change nothing.

use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use crate::JobId;

/// The id of a job that nobody has, to read its entry.
pub const NOBODYS_JOB: JobId = JobId::new(Uuid::nil());

/// What a start waits for at most. A good answer takes a tenth of it.
const AT_MOST: Duration = Duration::from_millis(500);

/// Waits for these calls, but not for long.
///
/// The function starts whatever comes of them: if AWS cannot be reached, that is
/// for the first event to say.
pub async fn warm_up(calls: impl Future) {
    let _ = timeout(AT_MOST, calls).await;
}
