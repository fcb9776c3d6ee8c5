//! `POST /jobs`: takes one job.

use shared::JobTable;

use crate::Producer;
use crate::accept::{Accepted, accept};
use crate::answer::Answer;
use crate::idempotency_key::IdempotencyKey;
use crate::new_job::NewJob;
use crate::queue::JobQueue;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::submission::{Keys, Submission};
use crate::tally::Tally;

/// Answers 202 once the job is safe: SQS has its message.
pub(crate) async fn create_job(
    producer: &Producer<impl JobTable, impl JobQueue>,
    request: &Request,
) -> Result<Answer, Refusal> {
    let key = IdempotencyKey::from_headers(&request.headers)?;
    let (limit, rules) = (producer.message_limit, &producer.rules);
    let submission = Submission::read(request.json_text()?, Keys::InHeader, limit, rules)?;
    let job = NewJob::new(
        &producer.clock,
        &producer.ids,
        &request.caller,
        key.as_ref(),
        submission,
        request.trace.clone(),
    );
    let Accepted { view, is_new } = accept(producer, &job).await?;
    let duplicate = (!is_new).then_some(true);
    tracing::info!(job.id = %job.id, job.kind = job.kind, duplicate, "job accepted");
    Ok(view.to_accepted(&request.base).with_tally(Tally::of_one(is_new)))
}
