//! Accepts many jobs, each as if it had come alone.
//!
//! First the entries of jobs that have names, then the messages of all jobs by
//! tens, and beside them the entries of the jobs without names. Jobs of one
//! name and content are one job: it is written and sent once, and all of them
//! get its answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use shared::table::PutIf;
use shared::{Fingerprint, JobId, JobTable};
use tokio::time::{Instant, timeout_at};

use crate::accept::{Accepted, WithEntry, put_first};
use crate::config::CALL_LIMITS;
use crate::new_job::{Name, NewJob};
use crate::queue::chunks::send_all;
use crate::queue::{JobQueue, Outgoing};
use crate::refusal::{Cause, Refusal};
use crate::view::View;
use crate::{ANSWER_WITHIN, Producer};

/// Entries written at the same time: four calls of 25. Without groups each is a
/// call on its own connection; 500 jobs then take five rounds of about 5 ms, and
/// the time to open 100 connections.
const PUTS_AT_ONCE: usize = 100;

/// The time for the entries that are written first: that of one call to AWS,
/// however many there are. It is enough for a group that is not answered, and then
/// for a call for each entry. What is not written by then is not accepted.
const PUTS_WITHIN: Duration = CALL_LIMITS.operation;

/// The time for everything. A second is left to tell what became of each job.
const ALL_WITHIN: Duration = ANSWER_WITHIN.saturating_sub(Duration::from_secs(1));

/// Whether a job is accepted. Several jobs of a request share one decision if
/// they are the same job.
pub(crate) type Decision = Arc<Result<Accepted, Refusal>>;

/// Accepts jobs, or finds that they were accepted before. Answers for each of
/// them, in their order; a refusal means what it means for one job.
pub(crate) async fn accept_all(
    producer: &Producer<impl JobTable, impl JobQueue>,
    jobs: &[NewJob<'_>],
) -> Vec<Decision> {
    let started = Instant::now();
    let (works, work_of) = distinct(jobs);
    let written = write_named(producer, &works, started + PUTS_WITHIN).await;
    let decisions = send(producer, &works, written, started + ALL_WITHIN).await;
    let decisions: Vec<Decision> = decisions.into_iter().map(Arc::new).collect();
    work_of.into_iter().filter_map(|work| decisions.get(work).cloned()).collect()
}

/// The jobs without repetitions, and for each job which of them it is.
fn distinct<'a, 'j>(jobs: &'a [NewJob<'j>]) -> (Vec<&'a NewJob<'j>>, Vec<usize>) {
    let (mut works, mut known) =
        (Vec::new(), HashMap::<(JobId, Option<&Fingerprint>), usize>::new());
    let work_of = jobs
        .iter()
        .map(|job| {
            // An intent is the whole identity.
            let content = (job.name != Name::Intent).then_some(&job.fingerprint);
            *known.entry((job.id, content)).or_insert_with(|| {
                works.push(job);
                works.len() - 1
            })
        })
        .collect();
    (works, work_of)
}

/// Writes the entries of the jobs that have names. `None` for the others.
async fn write_named(
    producer: &Producer<impl JobTable, impl JobQueue>,
    works: &[&NewJob<'_>],
    until: Instant,
) -> Vec<Option<Result<WithEntry, Refusal>>> {
    // Of two contents under one key, the first is to win: one after the other.
    let (mut groups, mut known) = (Vec::<Vec<usize>>::new(), HashMap::<JobId, usize>::new());
    for (work, job) in works.iter().enumerate().filter(|(_, job)| job.name != Name::Nothing) {
        let group = *known.entry(job.id).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(same_id) => same_id.push(work),
            None => groups.push(vec![work]),
        }
    }
    let write = |same_id| write_in_turn(producer, works, same_id, until);
    let writes: Vec<_> = groups.into_iter().map(write).collect();
    let written = stream::iter(writes).buffer_unordered(PUTS_AT_ONCE).concat().await;
    let mut by_work: HashMap<_, _> = written.into_iter().collect();
    (0..works.len()).map(|work| by_work.remove(&work)).collect()
}

async fn write_in_turn(
    producer: &Producer<impl JobTable, impl JobQueue>,
    works: &[&NewJob<'_>],
    same_id: Vec<usize>,
    until: Instant,
) -> Vec<(usize, Result<WithEntry, Refusal>)> {
    let mut written = Vec::new();
    for work in same_id {
        let Some(job) = works.get(work) else { continue };
        let put = timeout_at(until, put_first(producer, job)).await;
        written.push((work, put.unwrap_or_else(|_| Err(out_of_time()))));
    }
    written
}

/// Sends what is to be sent, and writes the entries that are not yet.
async fn send(
    producer: &Producer<impl JobTable, impl JobQueue>,
    works: &[&NewJob<'_>],
    written: Vec<Option<Result<WithEntry, Refusal>>>,
    until: Instant,
) -> Vec<Result<Accepted, Refusal>> {
    let limit = producer.message_limit;
    let mut messages: Vec<Outgoing> = Vec::new();
    let mut beside = Vec::new();
    let mut ready: Vec<Result<(Accepted, bool), Refusal>> = Vec::new();
    for (job, written) in works.iter().zip(written) {
        ready.push(match written {
            Some(written) => written.map(|WithEntry { accepted, message }| {
                let waits = message.is_some();
                messages.extend(message);
                (accepted, waits)
            }),
            None => job.message(limit).map(|message| {
                messages.push(message);
                beside.push(write_beside(producer, job, until));
                let view = View::of(job.entry(producer.entry_ttl), job.created_at);
                (Accepted { view, is_new: true }, true)
            }),
        });
    }
    let beside = stream::iter(beside).buffer_unordered(PUTS_AT_ONCE).collect::<()>();
    let (sent, ()) = tokio::join!(send_all(&producer.queue, &messages, limit, until), beside);
    let mut sent = sent.into_iter();
    let accepted = ready.into_iter().map(|ready| {
        let (accepted, waits) = ready?;
        if waits {
            // Each message has an outcome.
            sent.next().ok_or_else(out_of_time)??;
        }
        Ok(accepted)
    });
    accepted.collect()
}

/// Writes the entry of a job that has no name. Only its message decides
/// whether the job is accepted.
async fn write_beside(
    producer: &Producer<impl JobTable, impl JobQueue>,
    job: &NewJob<'_>,
    until: Instant,
) {
    let entry = job.entry(producer.entry_ttl);
    let put = producer.table.put(&entry, &PutIf::Absent, job.created_at);
    let error = match timeout_at(until, put).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.describe(),
        Err(_) => "no time is left".to_owned(),
    };
    // The consumer's claim will write the entry; until then GET says 404.
    tracing::warn!(job.id = %job.id, error, "entry of an accepted job was not written");
}

fn out_of_time() -> Refusal {
    Refusal::unavailable(Cause::Other("no time is left".to_owned()))
}
