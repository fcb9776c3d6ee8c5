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
use crate::queue::JobQueue;
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
) -> Result<View, Refusal> {
    match job.name {
        Name::Intent | Name::Key => put_first(producer, job).await,
        Name::Nothing => side_by_side(producer, job).await,
    }
}

async fn put_first(
    producer: &Producer<impl JobTable, impl JobQueue>,
    job: &NewJob<'_>,
) -> Result<View, Refusal> {
    let entry = job.entry(producer.entry_ttl);
    let message = job.message(producer.message_limit)?;
    for _ in 0..PUT_ATTEMPTS {
        let old = match producer.table.put(&entry, &PutIf::Absent, job.created_at).await? {
            Written::Yes => {
                producer.queue.send(message).await?;
                return Ok(View::of(entry, job.created_at));
            }
            Written::No(Some(old)) => Some(*old),
            Written::No(None) => producer.table.get(job.id).await?,
        };
        if let Some(old) = old.filter(|old| !old.is_expired(job.created_at)) {
            return join(producer, job, old).await;
        }
    }
    Err(Refusal::unavailable(Cause::Other("entry is neither there nor absent".to_owned())))
}

/// Answers with the job that is there under the same name.
async fn join(
    producer: &Producer<impl JobTable, impl JobQueue>,
    job: &NewJob<'_>,
    old: JobEntry,
) -> Result<View, Refusal> {
    if job.name == Name::Key && old.fingerprint != job.fingerprint {
        let detail = "The Idempotency-Key was sent before with another kind or payload. Use a \
                      new key for a new job.";
        return Err(Refusal::new(ProblemType::IdempotencyKeyReused, detail));
    }
    if old.state == State::Queued && old.attempt == 0 && old.lease_token.is_none() {
        // Its message may never have been sent.
        let message = job.message_of(&old.principal, producer.message_limit)?;
        producer.queue.send(message).await?;
    }
    Ok(View::of(old, job.created_at))
}

async fn side_by_side(
    producer: &Producer<impl JobTable, impl JobQueue>,
    job: &NewJob<'_>,
) -> Result<View, Refusal> {
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
        tracing::warn!(job_id = %job.id, error, "entry of an accepted job was not written");
    }
    Ok(View::of(entry, job.created_at))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use shared::message::Message;
    use shared::table::InMemoryJobTable;
    use shared::{Clock, Ids, Principal, Timestamp};

    use super::*;
    use crate::queue::{Outgoing, SendError};
    use crate::submission::Submission;

    #[derive(Default)]
    struct Sent(Mutex<Vec<Outgoing>>);

    impl JobQueue for Sent {
        async fn send(&self, message: Outgoing) -> Result<(), SendError> {
            self.0.lock().unwrap().push(message);
            Ok(())
        }
    }

    fn producer() -> Producer<InMemoryJobTable, Sent> {
        Producer {
            table: InMemoryJobTable::default(),
            queue: Sent::default(),
            clock: Clock::new(|| Timestamp::from_millis(1_700_000_000_123)),
            ids: Ids::random(),
            message_limit: 10_000,
            entry_ttl: Duration::from_hours(1),
        }
    }

    /// Accepts a job as if its kind declared an intent for all callers.
    async fn accept_intent(
        producer: &Producer<InMemoryJobTable, Sent>,
        caller: &Principal,
        title: &str,
    ) {
        let text = format!(
            r#"{{"kind":"report","payload":{{"title":"{title}","rows":[{{"group":"a","amount":"1"}}]}}}}"#
        );
        let submission = Submission::read(&text, 10_000).unwrap();
        let mut job = NewJob::new(&producer.clock, &producer.ids, caller, None, submission, None);
        job.name = Name::Intent;
        job.id = "abfc2f07-0372-443d-8266-36440aa5df13".parse().unwrap();
        accept(producer, &job).await.unwrap();
    }

    #[tokio::test]
    async fn an_intent_is_the_whole_identity_and_stays_with_who_asked_first() {
        let producer = producer();
        let (ann, bob) = (Principal::jwt("i", "ann"), Principal::jwt("i", "bob"));
        accept_intent(&producer, &ann, "one").await;
        accept_intent(&producer, &bob, "another").await;
        let sent = producer.queue.0.lock().unwrap().clone();
        let principals: Vec<_> =
            sent.iter().map(|sent| Message::decode(&sent.body).unwrap().principal).collect();
        assert_eq!(principals, [ann.clone(), ann]);
        assert_eq!(sent[0].group_id, sent[1].group_id);
    }
}
