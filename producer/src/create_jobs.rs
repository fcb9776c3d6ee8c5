//! `POST /jobs/batch`: takes many jobs, and answers for each of them.

use std::collections::HashSet;
use std::sync::Arc;

use lambda_http::http::StatusCode;
use lambda_http::http::header::RETRY_AFTER;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use shared::JobTable;
use shared::validation::{Invalid, MAX_ERRORS, read};

use crate::Producer;
use crate::accept::Accepted;
use crate::accept_all::{Decision, accept_all};
use crate::answer::Answer;
use crate::idempotency_key::IdempotencyKey;
use crate::json::Flaw;
use crate::new_job::NewJob;
use crate::problem::{ProblemBody, ProblemType};
use crate::queue::JobQueue;
use crate::refusal::{RETRY_AFTER_SECONDS, Refusal};
use crate::request::Request;
use crate::submission::{Keys, Submission};
use crate::tally::Tally;
use crate::view::AcceptedBody;

/// Jobs of one batch.
pub(crate) const MAX_JOBS: usize = 500;

/// Invalid fields that one answer names, over all its jobs. Each takes up to
/// 4 KiB in the event of the answer (twice 300 characters, escaped twice), and
/// Lambda's answers end at 6 MB.
const MAX_ERRORS_IN_ALL: usize = 1_000;

/// Many jobs, each answered for as if it had come alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Batch))]
pub(crate) struct UncheckedBatch<'a> {
    /// 1 to 500 jobs.
    #[serde(borrow)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>, min_items = 1, max_items = 500))]
    jobs: Vec<&'a RawValue>,
}

/// What became of each job, in the order of the request.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = BatchAnswer))]
pub(crate) struct BatchBody {
    jobs: Vec<JobAnswer>,
}

/// What became of one job.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct JobAnswer {
    /// The status that the job would have got alone.
    status: u16,
    /// The job, if it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    job: Option<AcceptedBody>,
    /// The problem, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    problem: Option<ProblemBody>,
}

/// Answers after every job is safe or refused.
pub(crate) async fn create_jobs(
    producer: &Producer<impl JobTable, impl JobQueue>,
    request: &Request,
) -> Result<Answer, Refusal> {
    let batch = read_batch(request).map_err(|refusal| refusal.of_jobs(1))?;
    let (mut jobs, mut refusals) = (Vec::new(), Vec::new());
    for text in &batch.jobs {
        let job = read_job(producer, request, text);
        refusals.push(job.map(|job| jobs.push(job)).err());
    }
    let mut accepted = accept_all(producer, &jobs).await.into_iter();
    let decisions = refusals.into_iter().filter_map(|refusal| match refusal {
        Some(refusal) => Some(Arc::new(Err(refusal))),
        // Each job that was read has a decision.
        None => accepted.next(),
    });
    let decisions: Vec<Decision> = decisions.collect();
    let tally = tally(&decisions);
    log(&decisions, tally);
    match all_failed(&decisions) {
        Some(refusal) => Err(refusal.of_jobs(decisions.len())),
        None => Ok(to_answer(&decisions, &request.base).with_tally(tally)),
    }
}

/// Reads the list of jobs. A batch that cannot be read counts as one job.
fn read_batch(request: &Request) -> Result<UncheckedBatch<'_>, Refusal> {
    IdempotencyKey::none_in(&request.headers)?;
    let text = request.json_text()?;
    let object: &RawValue = serde_json::from_str(text)
        .map_err(|error| Refusal::new(ProblemType::Malformed, Flaw::Syntax(error).to_string()))?;
    if !object.get().starts_with('{') {
        let detail = "The body must be a JSON object with \"jobs\".";
        return Err(Refusal::new(ProblemType::Malformed, detail));
    }
    let batch: UncheckedBatch<'_> = read(object)?;
    let count = batch.jobs.len();
    if !(1..=MAX_JOBS).contains(&count) {
        let detail = format!("has {count} jobs, but must have 1 to {MAX_JOBS}");
        return Err(Invalid::one("/jobs", detail).into());
    }
    Ok(batch)
}

fn read_job<'a>(
    producer: &Producer<impl JobTable, impl JobQueue>,
    request: &'a Request,
    text: &'a RawValue,
) -> Result<NewJob<'a>, Refusal> {
    let (limit, rules) = (producer.message_limit, &producer.rules);
    let mut submission = Submission::read(text.get(), Keys::InBody, limit, rules)?;
    let key = submission.key.take();
    let (clock, ids, caller) = (&producer.clock, &producer.ids, &request.caller);
    Ok(NewJob::new(clock, ids, caller, key.as_ref(), submission, request.trace.clone()))
}

/// Counts what became of the jobs. Of several that are one job, the first is
/// new at most.
fn tally(decisions: &[Decision]) -> Tally {
    let mut tally = Tally::default();
    let mut known = HashSet::new();
    for decision in decisions {
        match &**decision {
            Ok(Accepted { view, is_new }) if known.insert(view.id()) && *is_new => {
                tally.accepted += 1;
            }
            Ok(_) => tally.duplicates += 1,
            Err(_) => tally.rejected += 1,
        }
    }
    tally
}

/// One line for the batch, which is found by the id of each accepted job: 500
/// lines would say no more, at ten times the cost. And one for all that failed,
/// with the first cause: as a rule, one outage has failed them all.
fn log(decisions: &[Decision], tally: Tally) {
    let accepted = decisions.iter().filter_map(|decision| (**decision).as_ref().ok());
    let ids: Vec<String> = accepted.map(|accepted| accepted.view.id().to_string()).collect();
    let Tally { accepted, duplicates, rejected } = tally;
    let ids = (!ids.is_empty()).then(|| ids.join(" "));
    tracing::info!(job.ids = ids, accepted, duplicates, rejected, "batch answered");
    let mut refusals = decisions.iter().filter_map(|decision| (**decision).as_ref().err());
    if let Some(first) = refusals.find(|refusal| refusal.cause.is_some()) {
        first.log();
    }
}

/// The refusal of the whole request, if every job failed through no fault of
/// the client's: it need not look at each.
fn all_failed(decisions: &[Decision]) -> Option<Refusal> {
    let mut kinds = Vec::new();
    for decision in decisions {
        match &**decision {
            Err(refusal) if refusal.is_ours() => kinds.push(refusal.problem.kind),
            _ => return None,
        }
    }
    Some(if kinds.contains(&ProblemType::Unavailable) {
        Refusal::unavailable_now()
    } else {
        Refusal::internal_now()
    })
}

fn to_answer(decisions: &[Decision], base: &str) -> Answer {
    let most_errors = (MAX_ERRORS_IN_ALL / decisions.len().max(1)).min(MAX_ERRORS);
    let answer = |(position, decision): (usize, &Decision)| match &**decision {
        Ok(accepted) => JobAnswer {
            status: StatusCode::ACCEPTED.as_u16(),
            job: Some(accepted.view.to_accepted_body(base)),
            problem: None,
        },
        Err(refusal) => {
            let problem = refusal.problem.to_body(&format!("/jobs/{position}"), most_errors);
            JobAnswer { status: problem.status, job: None, problem: Some(problem) }
        }
    };
    let jobs: Vec<_> = decisions.iter().enumerate().map(answer).collect();
    let all_accepted = jobs.iter().all(|job| job.problem.is_none());
    let status = if all_accepted { StatusCode::ACCEPTED } else { StatusCode::MULTI_STATUS };
    let answer = Answer::json(status, "application/json", &BatchBody { jobs });
    match retry_after(decisions) {
        Some(seconds) => answer.with_header(RETRY_AFTER, &seconds),
        None => answer,
    }
}

/// When it makes sense to send refused jobs again, or else to ask about the
/// first of the accepted ones.
fn retry_after(decisions: &[Decision]) -> Option<String> {
    let mut poll_after: Option<u64> = None;
    for decision in decisions {
        match &**decision {
            Err(refusal) if refusal.problem.kind == ProblemType::Unavailable => {
                return Some(RETRY_AFTER_SECONDS.to_owned());
            }
            Err(_) => {}
            Ok(Accepted { view, .. }) => {
                poll_after = poll_after.into_iter().chain(view.poll_after()).min();
            }
        }
    }
    poll_after.map(|seconds| seconds.to_string())
}
