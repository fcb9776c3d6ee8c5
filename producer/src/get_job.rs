//! `GET /jobs/{id}`: tells what became of a job.

use shared::{JobId, JobTable};

use crate::Producer;
use crate::answer::Answer;
use crate::permission::Permission;
use crate::queue::JobQueue;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::view::View;

/// Answers with the entry, if the caller may see it.
pub(crate) async fn get_job(
    producer: &Producer<impl JobTable, impl JobQueue>,
    request: &Request,
    id: JobId,
) -> Result<Answer, Refusal> {
    let now = producer.clock.now();
    let entry = producer.table.get(id).await?;
    let visible =
        entry.filter(|entry| Permission::of(&request.caller, entry, now) != Permission::None);
    // Another caller's job looks like one that is not there.
    let entry = visible.ok_or_else(Refusal::job_not_found)?;
    Ok(View::of(entry, now).to_found(&request.base))
}
