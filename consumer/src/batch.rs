//! A batch: every record gets an outcome of its own, and only those that must
//! come back are reported.

use std::collections::HashMap;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use futures::StreamExt;
use futures::stream;
use serde_json::value::RawValue;
use shared::message::{DecodeError, Message, NotYetKnown, Unreadable};
use shared::metrics::Measurements;
use shared::telemetry::causes;
use shared::{Fingerprint, JobId, JobTable};
use tracing::Instrument;

use crate::Consumer;
use crate::deadline::Deadline;
use crate::event::{self, EventError, Record};
use crate::finish::FinishedRecord;
use crate::job_facts::JobFacts;
use crate::measure::measure;
use crate::outcome::Outcome;
use crate::queue::RetryQueue;
use crate::text::clean;

/// Why a batch has no answer. SQS then shows all of its records again, and
/// those that were settled are duplicates.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Nothing was done.
    #[error("the event cannot be taken")]
    Event(#[from] EventError),
    /// A failure that cannot be reported: an empty identifier would tell
    /// Lambda something else, and leaving it out would lose the record.
    #[error("a record failed that has no message id")]
    NoMessageId,
    /// Table or queue did nothing for any record: out of reach, throttled, denied.
    /// Each record's own line says why. An error makes Lambda poll more slowly.
    #[error("neither the job table nor the queues did what was asked for any of {0} records")]
    Outage(usize),
    /// Work of a handler that was stopped goes on. The process must end: else
    /// Lambda would freeze that work, and thaw it after its lease is over.
    #[error("work is still alive that cannot be stopped")]
    StillAlive,
}

impl BatchError {
    /// The error's type in Lambda's answer, for alarms to tell them apart.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Event(_) => "UnexpectedEvent",
            Self::NoMessageId => "NoMessageId",
            Self::Outage(_) => "Outage",
            Self::StillAlive => "StillAlive",
        }
    }
}

/// Records that are one piece of work.
enum Work {
    /// One job, and the copies of its message. The first leads.
    Job { message: Box<Message>, copies: Vec<Record> },
    /// A record whose message names a job that cannot be run here.
    NotYetKnown { message: Box<NotYetKnown>, record: Record },
    /// A record whose body names no job.
    Unreadable { error: Unreadable, record: Record },
    /// A record without a body.
    NoBody { record: Record },
}

impl<T: JobTable, Q: RetryQueue> Consumer<T, Q> {
    /// Runs the jobs of an SQS event.
    ///
    /// # Errors
    ///
    /// See [`BatchError`]; the whole batch must come back.
    pub async fn handle(
        &self,
        event: &RawValue,
        deadline: &Deadline,
    ) -> Result<SqsBatchResponse, BatchError> {
        let finished = match event::records(event) {
            Ok(records) => self.process_all(records, deadline).await,
            Err(error) => {
                self.metrics.write(Measurements::default(), self.clock.now());
                return Err(error.into());
            }
        };
        self.metrics.write(measure(&finished), self.clock.now());
        answer(finished)
    }

    async fn process_all(&self, records: Vec<Record>, deadline: &Deadline) -> Vec<FinishedRecord> {
        let finished: Vec<Vec<FinishedRecord>> = stream::iter(split(records))
            .map(|work| self.process(work, deadline))
            .buffer_unordered(self.settings.concurrency)
            .collect()
            .await;
        finished.into_iter().flatten().collect()
    }

    /// Gives every record of `work` its outcome, and does what follows from it.
    async fn process(&self, work: Work, deadline: &Deadline) -> Vec<FinishedRecord> {
        match work {
            Work::Job { message, copies } => self.process_job(&message, &copies, deadline).await,
            Work::NotYetKnown { message, record } => {
                let job = JobFacts::of_unknown(&message);
                let span = job.span(&record);
                let finished = async {
                    let outcome = self.not_understood(&message, &record, deadline).await;
                    self.finish(&record, outcome.into(), &job, deadline).await
                };
                vec![finished.instrument(span).await]
            }
            Work::Unreadable { error, record } => {
                let outcome = Outcome::Undecodable { error: clean(&causes(&error)) };
                vec![self.finish_without_job(&record, outcome, deadline).await]
            }
            Work::NoBody { record } => {
                vec![self.finish_without_job(&record, Outcome::UnreadableRecord, deadline).await]
            }
        }
    }

    /// Makes one attempt at a job, and gives its outcome to all `copies` of its
    /// message.
    async fn process_job(
        &self,
        message: &Message,
        copies: &[Record],
        deadline: &Deadline,
    ) -> Vec<FinishedRecord> {
        let Some(leader) = copies.first() else { return Vec::new() };
        let job = &JobFacts::of(message);
        let span = job.span(leader);
        let attempt = self.attempt(message, leader, deadline).instrument(span.clone()).await;
        let copies = copies.iter().enumerate().map(|(position, copy)| {
            let (attempt, span) = if position == 0 {
                (attempt.clone(), span.clone())
            } else {
                (attempt.of_copy(), job.span(copy))
            };
            self.finish(copy, attempt, job, deadline).instrument(span)
        });
        stream::iter(copies).buffered(self.settings.concurrency).collect().await
    }

    /// Finishes with a record that names no job.
    async fn finish_without_job(
        &self,
        record: &Record,
        outcome: Outcome,
        deadline: &Deadline,
    ) -> FinishedRecord {
        let job = JobFacts::default();
        let span = job.span(record);
        self.finish(record, outcome.into(), &job, deadline).instrument(span).await
    }
}

/// Splits records into pieces of work: copies of one job share one run.
///
/// Of several copies the one with the most receives left leads, since the job
/// may be tried as often as that one is delivered.
fn split(records: Vec<Record>) -> Vec<Work> {
    let mut works = Vec::new();
    let mut jobs: HashMap<(JobId, Fingerprint), usize> = HashMap::new();
    for record in records {
        let Some(body) = record.body.as_deref() else {
            works.push(Work::NoBody { record });
            continue;
        };
        match Message::decode(body) {
            Ok(message) => {
                let job = (message.id, message.fingerprint.clone());
                let known = jobs.get(&job).and_then(|position| works.get_mut(*position));
                if let Some(Work::Job { copies, .. }) = known {
                    copies.push(record);
                    copies.sort_by_key(|copy| copy.receive_count);
                } else {
                    jobs.insert(job, works.len());
                    works.push(Work::Job { message: Box::new(message), copies: vec![record] });
                }
            }
            Err(DecodeError::NotYetKnown(message)) => {
                works.push(Work::NotYetKnown { message, record });
            }
            Err(DecodeError::Unreadable(error)) => works.push(Work::Unreadable { error, record }),
        }
    }
    works
}

/// The answer to Lambda: each message id that failed, once.
fn answer(finished: Vec<FinishedRecord>) -> Result<SqsBatchResponse, BatchError> {
    let records = finished.len();
    if finished.iter().any(|record| record.attempt.outcome.has_live_work()) {
        return Err(BatchError::StillAlive);
    }
    if records > 0 && finished.iter().all(|record| record.is_outage) {
        return Err(BatchError::Outage(records));
    }
    let mut failed = Vec::new();
    for record in finished.into_iter().filter(|record| record.is_returned) {
        let message_id = record.message_id.ok_or(BatchError::NoMessageId)?;
        if !failed.contains(&message_id) {
            failed.push(message_id);
        }
    }
    let mut response = SqsBatchResponse::default();
    response.set_failures(failed);
    Ok(response)
}
