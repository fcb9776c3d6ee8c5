//! `DELETE /jobs/{id}`: cancels a job that nobody has in hand.
//!
//! One conditional write decides, also against a consumer that claims the job
//! at the same moment: one of the two writes comes first, and the other is
//! refused. The job's message stays in the queue; whoever receives it finds
//! the entry cancelled and acknowledges it.

use shared::table::Cancellation;
use shared::{JobEntry, JobId, JobTable, Principal, Timestamp};

use crate::Producer;
use crate::answer::Answer;
use crate::permission::Permission;
use crate::queue::JobQueue;
use crate::refusal::{Cause, Refusal};
use crate::request::Request;
use crate::view::{ShownState, View};

/// Attempts to cancel a job whose entry changes between the refused write and
/// the reading of it.
const ATTEMPTS: u32 = 3;

/// Answers with the cancelled job.
pub(crate) async fn cancel_job(
    producer: &Producer<impl JobTable, impl JobQueue>,
    request: &Request,
    id: JobId,
) -> Result<Answer, Refusal> {
    for _ in 0..ATTEMPTS {
        let now = producer.clock.now();
        let old = match producer.table.cancel(id, &request.caller, now).await? {
            Cancellation::Done(entry) => {
                tracing::info!(job.id = %id, job.kind = entry.kind, "job cancelled");
                return Ok(View::of(*entry, now).to_found(&request.base));
            }
            Cancellation::Refused(Some(old)) => Some(*old),
            Cancellation::Refused(None) => producer.table.get(id).await?,
        };
        if let Some(cancelled) = judge(&request.caller, old, now)? {
            return Ok(cancelled.to_found(&request.base));
        }
    }
    Err(Refusal::unavailable(Cause::Other("entry changed under every attempt".to_owned())))
}

/// What an entry that refused to be cancelled means for the caller. `None`: it
/// could be cancelled by now.
fn judge(
    caller: &Principal,
    old: Option<JobEntry>,
    now: Timestamp,
) -> Result<Option<View>, Refusal> {
    let old = old.ok_or_else(Refusal::job_not_found)?;
    match Permission::of(caller, &old, now) {
        Permission::Own => {}
        Permission::Read => return Err(Refusal::not_the_owner()),
        Permission::None => return Err(Refusal::job_not_found()),
    }
    let view = View::of(old, now);
    match view.state() {
        ShownState::Cancelled => Ok(Some(view)),
        ShownState::Queued => Ok(None),
        state @ (ShownState::Running | ShownState::Succeeded | ShownState::Failed) => {
            Err(Refusal::not_cancellable(state))
        }
    }
}
