//! `POST /jobs`: takes one job.

use shared::JobTable;

use crate::Producer;
use crate::accept::accept;
use crate::answer::Answer;
use crate::idempotency_key::IdempotencyKey;
use crate::new_job::NewJob;
use crate::queue::JobQueue;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::submission::{Keys, Submission};

/// Answers 202 after the job is safe.
pub(crate) async fn create_job(
    producer: &Producer<impl JobTable, impl JobQueue>,
    request: &Request,
) -> Result<Answer, Refusal> {
    let key = IdempotencyKey::from_headers(&request.headers)?;
    let submission =
        Submission::read(request.json_text()?, Keys::InHeader, producer.message_limit)?;
    let job = NewJob::new(
        &producer.clock,
        &producer.ids,
        &request.caller,
        key.as_ref(),
        submission,
        request.trace.clone(),
    );
    let view = accept(producer, &job).await?;
    tracing::info!(job.id = %job.id, job.kind = job.kind, "job accepted");
    Ok(view.to_accepted(&request.base))
}
