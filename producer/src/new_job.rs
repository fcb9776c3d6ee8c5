//! A job that is about to be accepted: it has an id, and is not yet written or
//! sent.

use std::time::Duration;

use serde_json::value::RawValue;
use shared::message::NewMessage;
use shared::validation::Invalid;
use shared::{Clock, Fingerprint, Ids, JobEntry, JobId, Principal, Timestamp};

use crate::idempotency_key::IdempotencyKey;
use crate::queue::{Outgoing, group_id};
use crate::refusal::{Cause, Refusal};
use crate::submission::{Submission, too_large};
use crate::trace::TraceHeader;

/// What names a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// Its intent. Any payload means the same job.
    Intent,
    /// The client's key. Another payload is another job.
    Key,
    /// Nothing: each request is another job.
    Nothing,
}

/// A job with its id.
#[derive(Debug)]
pub(crate) struct NewJob<'a> {
    pub(crate) id: JobId,
    pub(crate) name: Name,
    pub(crate) kind: &'static str,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) created_at: Timestamp,
    principal: &'a Principal,
    payload: &'a RawValue,
    delay_seconds: u16,
    group: Option<String>,
    trace: Option<TraceHeader>,
}

impl<'a> NewJob<'a> {
    /// Names the job: by its intent, else by the client's key, else anew.
    pub(crate) fn new(
        clock: &Clock,
        ids: &Ids,
        principal: &'a Principal,
        key: Option<&IdempotencyKey>,
        submission: Submission<'a>,
        trace: Option<TraceHeader>,
    ) -> Self {
        let created_at = clock.now();
        let kind = submission.job.kind();
        let (name, id) = match (submission.job.intent(), key) {
            (Some(intent), _) => (Name::Intent, JobId::of_intent(principal, kind, &intent)),
            (None, Some(key)) => (Name::Key, JobId::of_key(principal, key.as_str())),
            (None, None) => (Name::Nothing, JobId::new(ids.next(created_at))),
        };
        let Submission { payload, fingerprint, delay_seconds, group, .. } = submission;
        Self {
            id,
            name,
            kind,
            fingerprint,
            created_at,
            principal,
            payload,
            delay_seconds,
            group,
            trace,
        }
    }

    /// The entry of the job, which lives for `ttl`.
    pub(crate) fn entry(&self, ttl: Duration) -> JobEntry {
        let (principal, fingerprint) = (self.principal.clone(), self.fingerprint.clone());
        JobEntry::queued(self.id, self.kind, principal, fingerprint, self.created_at, ttl)
    }

    /// The message of the job, sent in its caller's name.
    ///
    /// # Errors
    ///
    /// As [`Self::message_of`].
    pub(crate) fn message(&self, limit: usize) -> Result<Outgoing, Refusal> {
        self.message_of(self.principal, limit)
    }

    /// The message of the job, sent in the name of `principal`.
    ///
    /// # Errors
    ///
    /// 413 if it has more than `limit` bytes; 422 if SQS would not take its
    /// characters.
    pub(crate) fn message_of(
        &self,
        principal: &Principal,
        limit: usize,
    ) -> Result<Outgoing, Refusal> {
        let body = NewMessage::new(
            self.id,
            self.kind,
            self.payload,
            principal,
            &self.fingerprint,
            self.created_at,
        )
        .encode()
        .map_err(|error| Refusal::internal(Cause::Other(error.to_string())))?;
        let message = Outgoing {
            body,
            kind: self.kind,
            group_id: group_id(principal, self.group.as_deref()),
            delay_seconds: self.delay_seconds,
            trace: self.trace.clone(),
        };
        if message.size() > limit {
            return Err(too_large(limit));
        }
        if !message.has_only_allowed_characters() {
            let detail = "holds the character U+FFFE or U+FFFF, which the queue does not take; \
                          write it as \\ufffe or \\uffff";
            return Err(Invalid::one("/payload", detail).into());
        }
        Ok(message)
    }
}
