//! 202 is a promise: it is given only after SQS has acknowledged.
//!
//! A job that has a name of its own (an intent or a key) is written to the
//! table first, on condition that it is not there, and then sent. So whoever
//! asks again under that name meets the entry. A producer that was killed
//! between the two left an entry that nobody claimed; the next request sends
//! the message again, and if there were two in the end, the consumer's claim
//! lets one of them run.
//!
//! A job without a name can be met by nobody. Its entry and its message are
//! written side by side, and only the message decides.

use shared::entry::State;
use shared::table::{PutIf, Written};
use shared::{JobEntry, JobTable};

use crate::Producer;
use crate::new_job::{Name, NewJob};
use crate::problem::ProblemType;
use crate::queue::{JobQueue, Outgoing};
use crate::refusal::{Cause, Refusal};
use crate::view::View;

/// Attempts to write an entry that is refused while there is nothing to be
/// seen of another: that one expired, or was deleted, in the meantime.
const PUT_ATTEMPTS: u32 = 2;

/// Accepts a job, or finds that it was accepted before.
///
/// # Errors
///
/// 422 where the name stands for another job. Any other refusal leaves open
/// whether the job will be done; to ask again under its name is safe.
pub(crate) async fn accept(
    producer: &Producer<impl JobTable, impl JobQueue>,
    job: &NewJob<'_>,
) -> Result<Accepted, Refusal> {
    match job.name {
        Name::Intent | Name::Key => {
            let WithEntry { accepted, message } = put_first(producer, job).await?;
            if let Some(message) = message {
                producer.queue.send(message).await?;
            }
            Ok(accepted)
        }
        Name::Nothing => side_by_side(producer, job).await,
    }
}

/// A job that is safe.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// What is known of the job.
    pub(crate) view: View,
    /// Whether nobody had asked for it before.
    pub(crate) is_new: bool,
}

/// A job whose entry is in the table, and whose message may still have to be
/// sent.
#[derive(Debug)]
pub(crate) struct WithEntry {
    /// The answer, once there is no message left to send.
    pub(crate) accepted: Accepted,
    /// The message that must be sent before the job counts as accepted; `None`
    /// where somebody has received it already.
    pub(crate) message: Option<Outgoing>,
}

/// Writes the entry of a job that has a name, or finds the one that is there.
///
/// # Errors
///
/// As [`accept`].
pub(crate) async fn put_first(
    producer: &Producer<impl JobTable, impl JobQueue>,
    job: &NewJob<'_>,
) -> Result<WithEntry, Refusal> {
    let entry = job.entry(producer.entry_ttl);
    let message = job.message(producer.message_limit)?;
    for _ in 0..PUT_ATTEMPTS {
        let old = match producer.table.put(&entry, &PutIf::Absent, job.created_at).await? {
            Written::Yes => {
                let accepted = Accepted { view: View::of(entry, job.created_at), is_new: true };
                return Ok(WithEntry { accepted, message: Some(message) });
            }
            Written::No(Some(old)) => Some(*old),
            Written::No(None) => producer.table.get(job.id).await?,
        };
        if let Some(old) = old.filter(|old| !old.is_expired(job.created_at)) {
            return join(job, old, producer.message_limit);
        }
    }
    Err(Refusal::unavailable(Cause::Other("entry is neither there nor absent".to_owned())))
}

/// Answers with the job that is there under the same name.
fn join(job: &NewJob<'_>, old: JobEntry, message_limit: usize) -> Result<WithEntry, Refusal> {
    if job.name == Name::Key && old.fingerprint != job.fingerprint {
        let detail = "The Idempotency-Key was sent before with another kind or payload. Use a \
                      new key for a new job.";
        return Err(Refusal::new(ProblemType::IdempotencyKeyReused, detail));
    }
    let was_claimed = old.state != State::Queued || old.attempt > 0 || old.lease_token.is_some();
    // Where it was not, its message may never have been sent.
    let message =
        if was_claimed { None } else { Some(job.message_of(&old.principal, message_limit)?) };
    let accepted = Accepted { view: View::of(old, job.created_at), is_new: false };
    Ok(WithEntry { accepted, message })
}

async fn side_by_side(
    producer: &Producer<impl JobTable, impl JobQueue>,
    job: &NewJob<'_>,
) -> Result<Accepted, Refusal> {
    let entry = job.entry(producer.entry_ttl);
    let message = job.message(producer.message_limit)?;
    let (written, sent) = tokio::join!(
        producer.table.put(&entry, &PutIf::Absent, job.created_at),
        producer.queue.send(message),
    );
    sent?;
    // A refused put is none: the consumer was faster and has claimed the job.
    if let Err(error) = written {
        // The consumer's claim will write the entry; until then GET says 404.
        let error = error.describe();
        tracing::warn!(job.id = %job.id, error, "entry of an accepted job was not written");
    }
    Ok(Accepted { view: View::of(entry, job.created_at), is_new: true })
}
