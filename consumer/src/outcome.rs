//! What came of a record, and what SQS is told of it.

use shared::{Timestamp, reason};

/// What came of a record. [`Outcome::disposition`] says what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The job ran, and its completion is stored.
    Completed,
    /// The job had been completed before.
    Duplicate,
    /// The job had been cancelled.
    Cancelled,
    /// The job failed and was given back.
    Released {
        /// Not to be run again before this.
        not_before: Timestamp,
        /// What happened.
        error: String,
    },
    /// The job failed at its message's last receive.
    Exhausted {
        /// What happened.
        error: String,
    },
    /// The job failed, and would fail again.
    Permanent {
        /// What happened.
        error: String,
    },
    /// A job that must not be repeated blindly was interrupted.
    Interrupted {
        /// What happened.
        error: String,
    },
    /// A job that must not be repeated blindly failed after this message was
    /// sent: it is a copy, or its dead letter could not be sent.
    FailedBefore,
    /// Another payload under the id of a job that is known.
    Conflict,
    /// The body names no job.
    Undecodable {
        /// What is wrong with it.
        error: String,
    },
    /// The body names a job, but not one that this consumer can run.
    NotUnderstood {
        /// Why, in one word.
        reason: &'static str,
        /// What is wrong with it.
        error: String,
        /// Whether SQS will not deliver it again, so that no newer consumer
        /// can take it.
        last: bool,
    },
    /// Another invocation runs the job.
    InProgress {
        /// When its lease is over.
        until: Timestamp,
    },
    /// Another copy of the message failed, and the job must wait.
    TooEarly {
        /// Until when.
        until: Timestamp,
    },
    /// The entry changed under every try to claim the job.
    Unsteady,
    /// The entry is not one that this consumer can read.
    EntryUnreadable {
        /// What cannot be read.
        error: String,
    },
    /// The table gave no answer, so nothing was run.
    TableUnreachable {
        /// What the call said.
        error: String,
    },
    /// The job ran, but storing what came of it failed until the deadline.
    NotStored {
        /// When the lease is over.
        until: Timestamp,
        /// What the last call said.
        error: String,
    },
    /// Another invocation took the job over, or somebody changed its entry.
    LeaseLost,
    /// A thread of the handler could not be stopped, and is still at work.
    StillAlive {
        /// When the lease is over.
        until: Timestamp,
    },
    /// There was no time left to start.
    NotStarted,
    /// The record has no body that can be read, or sent on.
    UnreadableRecord,
}

/// What becomes of a record in SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// SQS deletes it.
    Acknowledge,
    /// It is reported in `batchItemFailures`, and seen again.
    Return(Visible),
    /// It is sent to the dead-letter queue, then acknowledged; returned after
    /// a backoff if that send fails.
    DeadLetter {
        /// Why, in one word.
        reason: &'static str,
        /// Why, in one sentence.
        error: String,
    },
}

/// When a returned record is seen again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    /// At once: SQS then moves it to the dead-letter queue, since its receives
    /// are used up.
    Now,
    /// At this moment, by whichever clock is the slowest.
    At(Timestamp),
    /// After the configured backoff.
    AfterBackoff,
    /// After a backoff that lasts through an outage or a deployment.
    AfterLongBackoff,
}

impl Outcome {
    /// What SQS is told. Nothing is ever acknowledged because something went
    /// wrong: it lies in the dead-letter queue first.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        use Disposition::{Acknowledge, DeadLetter, Return};
        match self {
            Self::Completed | Self::Duplicate | Self::Cancelled => Acknowledge,
            Self::Released { not_before, .. } => Return(Visible::At(*not_before)),
            Self::Exhausted { .. } => Return(Visible::Now),
            Self::Permanent { error } => {
                DeadLetter { reason: reason::PERMANENT, error: error.clone() }
            }
            Self::Interrupted { error } => {
                DeadLetter { reason: reason::INTERRUPTED, error: error.clone() }
            }
            Self::FailedBefore => DeadLetter {
                reason: reason::FAILED_BEFORE,
                error: "the job failed after this message was sent".to_owned(),
            },
            Self::Conflict => DeadLetter {
                reason: reason::FINGERPRINT_MISMATCH,
                error: "another payload under the id of a job that is known".to_owned(),
            },
            Self::Undecodable { error } => {
                DeadLetter { reason: reason::UNDECODABLE, error: error.clone() }
            }
            Self::NotUnderstood { reason, error, last: true } => {
                DeadLetter { reason, error: error.clone() }
            }
            Self::NotUnderstood { last: false, .. }
            | Self::EntryUnreadable { .. }
            | Self::TableUnreachable { .. } => Return(Visible::AfterLongBackoff),
            Self::InProgress { until }
            | Self::TooEarly { until }
            | Self::StillAlive { until }
            | Self::NotStored { until, .. } => Return(Visible::At(*until)),
            Self::Unsteady | Self::LeaseLost | Self::NotStarted | Self::UnreadableRecord => {
                Return(Visible::AfterBackoff)
            }
        }
    }

    /// What came of another copy of the message in the same batch: it shares
    /// the run, but was not run itself.
    #[must_use]
    pub fn of_copy(&self) -> Self {
        match self {
            Self::Completed => Self::Duplicate,
            other => other.clone(),
        }
    }

    /// Whether the cause lies outside of the record and of its job.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::TableUnreachable { .. } | Self::NotStored { .. })
    }

    /// Whether a thread of the handler is still at work.
    #[must_use]
    pub const fn has_live_work(&self) -> bool {
        matches!(self, Self::StillAlive { .. })
    }

    /// The outcome's name in logs.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Duplicate => "duplicate",
            Self::Cancelled => "cancelled",
            Self::Released { .. } => "released",
            Self::Exhausted { .. } => "exhausted",
            Self::Permanent { .. } => "permanent",
            Self::Interrupted { .. } => "interrupted",
            Self::FailedBefore => "failed-before",
            Self::Conflict => "conflict",
            Self::Undecodable { .. } => "undecodable",
            Self::NotUnderstood { .. } => "not-understood",
            Self::InProgress { .. } => "in-progress",
            Self::TooEarly { .. } => "too-early",
            Self::Unsteady => "unsteady",
            Self::EntryUnreadable { .. } => "entry-unreadable",
            Self::TableUnreachable { .. } => "table-unreachable",
            Self::NotStored { .. } => "not-stored",
            Self::LeaseLost => "lease-lost",
            Self::StillAlive { .. } => "still-alive",
            Self::NotStarted => "not-started",
            Self::UnreadableRecord => "unreadable-record",
        }
    }

    /// The error that the outcome carries.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Released { error, .. }
            | Self::Exhausted { error }
            | Self::Permanent { error }
            | Self::Interrupted { error }
            | Self::Undecodable { error }
            | Self::NotUnderstood { error, .. }
            | Self::EntryUnreadable { error }
            | Self::TableUnreachable { error }
            | Self::NotStored { error, .. } => Some(error),
            _ => None,
        }
    }
}
