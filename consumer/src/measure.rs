//! What a batch adds to the metrics: the one place where outcomes are counted.

use shared::metrics::{Dimensions, Measurements, Metric};
use shared::reason;

use crate::finish::FinishedRecord;
use crate::outcome::{Disposition, Outcome};

/// The dimension `Kind` of records without a job that can be run. What such a
/// record calls its kind can be any text, and each would be another metric.
const UNKNOWN_KIND: &str = "unknown";

/// Measures the records of a batch.
pub(crate) fn measure(records: &[FinishedRecord]) -> Measurements {
    let mut measured = Measurements::default();
    let failures = records.iter().filter(|record| record.is_returned).count();
    measured.count(Metric::BatchSize, Dimensions::None, records.len());
    measured.count(Metric::BatchItemFailures, Dimensions::None, failures);
    for record in records {
        let kind = record.kind.unwrap_or(UNKNOWN_KIND);
        count_outcome(&mut measured, record, kind);
        time_run(&mut measured, record, kind);
    }
    measured
}

fn count_outcome(measured: &mut Measurements, record: &FinishedRecord, kind: &'static str) {
    let outcome = &record.attempt.outcome;
    let metric = match outcome {
        Outcome::Completed => Metric::JobsSucceeded,
        Outcome::Duplicate => Metric::Duplicates,
        Outcome::Released { .. } => Metric::JobsRetried,
        Outcome::LeaseLost => Metric::LeasesLost,
        Outcome::Exhausted { .. }
        | Outcome::Permanent { .. }
        | Outcome::Interrupted { .. }
        | Outcome::FailedBefore
        | Outcome::Conflict
        | Outcome::Undecodable { .. }
        | Outcome::NotUnderstood { last: true, .. } => {
            return count_dead_letter(measured, record, kind);
        }
        // Acknowledged without work, or back later: of these, the batch's
        // failures tell.
        Outcome::Cancelled
        | Outcome::NotUnderstood { last: false, .. }
        | Outcome::InProgress { .. }
        | Outcome::TooEarly { .. }
        | Outcome::Unsteady
        | Outcome::EntryUnreadable { .. }
        | Outcome::TableUnreachable { .. }
        | Outcome::NotStored { .. }
        | Outcome::StillAlive { .. }
        | Outcome::NotStarted
        | Outcome::UnreadableRecord => return,
    };
    measured.count(metric, Dimensions::Kind(kind), 1);
}

/// Counts a dead letter, unless it could not be sent: then the record comes
/// back, and is one later.
fn count_dead_letter(measured: &mut Measurements, record: &FinishedRecord, kind: &'static str) {
    let reason = match record.attempt.outcome.disposition() {
        Disposition::DeadLetter { reason, .. } if !record.is_returned => reason,
        Disposition::Return(_) => reason::RETRIES_EXHAUSTED,
        Disposition::DeadLetter { .. } | Disposition::Acknowledge => return,
    };
    measured.count(Metric::JobsDeadLettered, Dimensions::Kind(kind), 1);
    measured.count(Metric::JobsDeadLettered, Dimensions::KindAndReason(kind, reason), 1);
}

fn time_run(measured: &mut Measurements, record: &FinishedRecord, kind: &'static str) {
    let kind = Dimensions::Kind(kind);
    if let (Outcome::Completed, Some(age)) = (&record.attempt.outcome, record.age) {
        measured.time(Metric::JobLatency, kind, age);
    }
    let Some(run) = record.attempt.run else { return };
    measured.time(Metric::HandlerDuration, kind, run.took);
    if let Some(queue_wait) = record.attempt.queue_wait {
        measured.time(Metric::QueueWait, kind, queue_wait);
    }
    if run.was_stopped {
        measured.count(Metric::StoppedForTime, kind, 1);
    }
}
