//! Ends a claim: what the handler did becomes the entry's state.
//!
//! Every write is fenced by the lease's token, so that an invocation which
//! lost its lease changes nothing.

use std::time::Duration;

use shared::entry::{Failure, Lease};
use shared::table::{PutIf, Settlement, TableError, Written};
use shared::{Clock, JobEntry, JobId, JobTable, State};
use tokio::time::{Instant, sleep, timeout_at};

use crate::Consumer;
use crate::deadline::Deadline;
use crate::dispose::NO_TIME_LEFT;

/// Between two tries to store what must not be lost. Each try has the SDK's
/// own attempts in it.
const PAUSE: Duration = Duration::from_millis(200);

/// What came of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The entry says so now.
    Stored,
    /// The claim was not ours any more, and nothing was changed.
    LeaseLost,
    /// The table gave no answer in time; the entry says `running` until its
    /// lease ends, or the write took effect unseen.
    NotStored {
        /// What the table said last.
        error: String,
    },
}

/// Stores `settlement`, trying until `give_up_at`.
///
/// Every settlement is worth that. Without it, what was done would be done
/// again, and a job that is held when interrupted would count as interrupted.
pub async fn settle(
    table: &impl JobTable,
    clock: &Clock,
    id: JobId,
    lease: Lease,
    settlement: &Settlement,
    give_up_at: Instant,
) -> Settled {
    let mut last_error = NO_TIME_LEFT.to_owned();
    let tries = async {
        loop {
            match settle_once(table, clock, id, lease, settlement).await {
                Ok(settled) => return settled,
                Err(error) => last_error = error.describe(),
            }
            sleep(PAUSE).await;
        }
    };
    let settled = timeout_at(give_up_at, tries).await;
    settled.unwrap_or(Settled::NotStored { error: last_error })
}

async fn settle_once(
    table: &impl JobTable,
    clock: &Clock,
    id: JobId,
    lease: Lease,
    settlement: &Settlement,
) -> Result<Settled, TableError> {
    let there = match table.settle(id, lease.token, settlement, clock.now()).await? {
        Written::Yes => return Ok(Settled::Stored),
        Written::No(Some(there)) => Some(*there),
        Written::No(None) => table.get(id).await?,
    };
    // A retry whose first try took effect meets its own write.
    let ours = there.is_some_and(|entry| {
        entry.lease_token == Some(lease.token) && entry.state == settlement.state()
    });
    Ok(if ours { Settled::Stored } else { Settled::LeaseLost })
}

impl<T: JobTable, Q> Consumer<T, Q> {
    /// Writes `failed` for a job that nobody has claimed: it is absent, or
    /// queued. Where it was claimed, its entry knows better and stays.
    ///
    /// # Errors
    ///
    /// The table gave no answer; the entry may still say `queued`.
    pub(crate) async fn fail_unclaimed(
        &self,
        queued: JobEntry,
        reason: &str,
        error: &str,
        deadline: &Deadline,
    ) -> Result<(), String> {
        let condition = PutIf::Unclaimed { fingerprint: queued.fingerprint.clone() };
        let failed = JobEntry {
            state: State::Failed,
            reason: Some(reason.to_owned()),
            error: Some(error.to_owned()),
            ..queued
        };
        let put = self.table.put(&failed, &condition, failed.updated_at);
        match timeout_at(deadline.settle_until(), put).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.describe()),
            Err(_) => Err(NO_TIME_LEFT.to_owned()),
        }
    }
}

/// The settlement of a job that did its work. A result that is no JSON or is
/// larger than `max_bytes` is not kept; the job has succeeded all the same, and
/// must never run again for that.
#[must_use]
pub fn completion(result: Option<String>, max_bytes: usize) -> Settlement {
    let result = result.filter(|result| {
        let (bytes, fits) = (result.len(), result.len() <= max_bytes);
        if !fits {
            tracing::warn!(bytes, max_bytes, "the result is too large, and is not kept");
        }
        fits
    });
    Settlement::Complete { result_omitted: result.is_none(), result }
}

/// The settlement of a job that will not run again by itself.
#[must_use]
pub fn failure(reason: &'static str, error: &str) -> Settlement {
    Settlement::Fail(Failure { reason, error: error.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_too_large_is_left_out_and_the_job_succeeds() {
        let kept = Settlement::Complete { result: Some("1234".to_owned()), result_omitted: false };
        let left_out = Settlement::Complete { result: None, result_omitted: true };
        assert_eq!(completion(Some("1234".to_owned()), 4), kept);
        assert_eq!(completion(Some("12345".to_owned()), 4), left_out);
        assert_eq!(completion(None, 4), left_out);
    }
}
