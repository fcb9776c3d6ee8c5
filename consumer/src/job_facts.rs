//! What a record's body tells of its job, for the log, the metrics and a dead
//! letter.

use shared::message::{Message, NotYetKnown};
use shared::telemetry::trace_id;
use shared::telemetry::traces::continue_trace;
use shared::{JobId, Timestamp};
use tracing::Span;

use crate::event::Record;
use crate::text::clean;

/// As much of a job as its message tells: nothing by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobFacts {
    pub(crate) id: Option<JobId>,
    /// What the message calls its kind.
    pub(crate) kind: Option<String>,
    /// The kind, if it is one of this consumer's.
    pub(crate) known_kind: Option<&'static str>,
    pub(crate) created_at: Option<Timestamp>,
}

impl JobFacts {
    pub(crate) fn of(message: &Message) -> Self {
        let kind = message.job.kind();
        Self {
            id: Some(message.id),
            kind: Some(kind.to_owned()),
            known_kind: Some(kind),
            created_at: message.created_at,
        }
    }

    pub(crate) fn of_unknown(message: &NotYetKnown) -> Self {
        let kind = message.kind.as_deref().map(clean);
        Self { id: Some(message.id), kind, known_kind: None, created_at: message.created_at }
    }

    /// The span of everything that is done about `record`. It is an error, so
    /// that every event has it, whatever the level.
    pub(crate) fn span(&self, record: &Record) -> Span {
        let span = tracing::error_span!(
            "record",
            job.id = self.id.map(tracing::field::display),
            job.kind = self.kind,
            job.attempt = record.receive_count,
            sqs.message_id = record.message_id,
            trace.id = record.trace_header.as_deref().and_then(trace_id),
        );
        continue_trace(&span, record.trace_header.as_deref());
        span
    }
}
