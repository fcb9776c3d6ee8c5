//! Settles a claim: how the handler's run ended becomes the entry's state.
//!
//! Every write is fenced by the lease's token, so that an invocation which
//! lost its lease changes nothing.

use std::time::Duration;

use shared::entry::{Failure, Lease};
use shared::table::{Settlement, TableError, Written};
use shared::{Clock, JobId, JobTable, Timestamp, reason};
use tokio::time::{Instant, sleep, timeout_at};

use crate::Consumer;
use crate::backoff::{LONG_DELAY_CAP, MAX_VISIBILITY_TIMEOUT};
use crate::claim::Claimant;
use crate::deadline::{Deadline, NO_TIME_LEFT};
use crate::event::Record;
use crate::outcome::Outcome;
use crate::run_handler::End;

/// Between two tries to store what must not be lost. Each try has the SDK's
/// own attempts in it.
const PAUSE: Duration = Duration::from_millis(200);

/// What came of storing a settlement.
enum Settled {
    /// The entry says so now.
    Stored,
    /// The claim was not ours any more, and nothing was changed.
    LeaseLost,
    /// The table gave no answer in time; the entry says `running` until its
    /// lease ends, or the write took effect unseen.
    NotStored { error: String },
}

impl<T: JobTable, Q> Consumer<T, Q> {
    /// Stores how a run ended; the outcome of its record.
    pub(crate) async fn settle(
        &self,
        claimant: &Claimant<'_>,
        record: &Record,
        end: End,
        deadline: &Deadline,
    ) -> Outcome {
        let (id, lease) = (claimant.message.id, claimant.lease);
        let (settlement, outcome) = self.consequence(record, end);
        let give_up_at = deadline.settle_until();
        match store(&self.table, &self.clock, id, lease, &settlement, give_up_at).await {
            Settled::Stored => outcome,
            Settled::LeaseLost => Outcome::LeaseLost,
            Settled::NotStored { error } => Outcome::NotStored { until: lease.until, error },
        }
    }

    /// What the end of a run means for the entry and for the record.
    fn consequence(&self, record: &Record, end: End) -> (Settlement, Outcome) {
        match end {
            End::Done { result } => {
                (completion(result, self.settings.max_result_bytes), Outcome::Completed)
            }
            End::Permanent { error } => {
                let failure = failure(reason::PERMANENT, &error);
                (Settlement::Fail(failure), Outcome::Permanent { error })
            }
            End::Interrupted { error } => {
                let failure = failure(reason::INTERRUPTED, &error);
                (Settlement::Hold(failure), Outcome::Interrupted { error })
            }
            End::Retryable { error, .. } if self.is_last_receive(record) => {
                let failure = failure(reason::RETRIES_EXHAUSTED, &error);
                (Settlement::Fail(failure), Outcome::Exhausted { error })
            }
            End::Retryable { error, not_before } => {
                let backoff = self.settings.backoff;
                let delay = backoff.delay(record.receive_count, self.random.fraction());
                let now = self.clock.now();
                let not_before = not_before.unwrap_or(now + delay).min(self.latest(record, now));
                let settlement = Settlement::Release { error: error.clone(), not_before };
                (settlement, Outcome::Released { not_before, error })
            }
        }
    }

    /// The latest moment that a job can wait for, and its message still be there.
    ///
    /// A long wait is made of several, and each ends with a receive; of those
    /// that are left, one is for the run and one for a mishap. And the queue
    /// forgets what it has kept for too long: of that time, one long backoff is
    /// left over.
    fn latest(&self, record: &Record, now: Timestamp) -> Timestamp {
        let receives_left = self.settings.max_receive_count - record.receive_count;
        let waits = receives_left.saturating_sub(1).max(1);
        let by_receives = now + MAX_VISIBILITY_TIMEOUT * waits;
        let sent_at = record.sent_at.unwrap_or(now);
        let by_retention = sent_at + self.settings.retention.saturating_sub(LONG_DELAY_CAP);
        by_receives.min(by_retention)
    }
}

/// Stores `settlement`, trying until `give_up_at`.
///
/// Every settlement is worth that. Without it, what was done would be done
/// again, and a job that is held when interrupted would count as interrupted.
async fn store(
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
            match store_once(table, clock, id, lease, settlement).await {
                Ok(settled) => return settled,
                Err(error) => last_error = error.describe(),
            }
            sleep(PAUSE).await;
        }
    };
    let settled = timeout_at(give_up_at, tries).await;
    settled.unwrap_or(Settled::NotStored { error: last_error })
}

async fn store_once(
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

/// The settlement of a job that did its work. A result that is no JSON or is
/// larger than `max_bytes` is not kept; the job has succeeded all the same, and
/// must never run again for that.
fn completion(result: Option<String>, max_bytes: usize) -> Settlement {
    let result = result.filter(|result| {
        let (bytes, fits) = (result.len(), result.len() <= max_bytes);
        if !fits {
            tracing::warn!(bytes, max_bytes, "the result is too large, and is not kept");
        }
        fits
    });
    Settlement::Complete { result_omitted: result.is_none(), result }
}

fn failure(reason: &'static str, error: &str) -> Failure {
    Failure { reason, error: error.to_owned() }
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
