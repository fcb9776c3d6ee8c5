//! Ends a claim: what the handler did becomes the entry's state.
//!
//! Every write is fenced by the lease's token, so that an invocation which
//! lost its lease changes nothing.

use std::time::Duration;

use shared::entry::{Failure, Lease};
use shared::table::{Settlement, TableError, Written};
use shared::{Clock, JobId, JobTable};
use tokio::time::{Instant, sleep, timeout_at};

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
/// A completion and a failure are worth that: the work is done, or must not
/// be done again. What is released runs again anyway, at the latest when its
/// lease is over, so one try is enough.
pub async fn settle(
    table: &impl JobTable,
    clock: &Clock,
    id: JobId,
    lease: Lease,
    settlement: &Settlement,
    give_up_at: Instant,
) -> Settled {
    let mut last_error = "no answer in time".to_owned();
    let tries = async {
        loop {
            match settle_once(table, clock, id, lease, settlement).await {
                Ok(settled) => return settled,
                Err(error) => last_error = error.describe(),
            }
            if matches!(settlement, Settlement::Release { .. }) {
                return Settled::NotStored { error: last_error.clone() };
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

/// The settlement of a job that did its work. A result that is larger than
/// `max_bytes` is not kept; the job has succeeded all the same, and must never
/// run again for that.
#[must_use]
pub fn completion(result: String, max_bytes: usize) -> Settlement {
    let fits = result.len() <= max_bytes;
    Settlement::Complete { result: fits.then_some(result), result_omitted: !fits }
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
        assert_eq!(completion("1234".to_owned(), 4), kept);
        assert_eq!(completion("12345".to_owned(), 4), left_out);
    }
}
