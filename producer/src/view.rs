//! A job entry as its client may see it.

use lambda_http::http::StatusCode;
use lambda_http::http::header::{LOCATION, RETRY_AFTER};
use serde::Serialize;
use serde_json::value::RawValue;
use shared::entry::State;
use shared::{JobEntry, JobId, Timestamp, reason};

use crate::answer::Answer;

/// Seconds after which it makes sense to ask about an unfinished job again.
const POLL_SECONDS: u64 = 1;

/// The longest wait that is recommended, in seconds.
const MAX_POLL_SECONDS: u64 = 60;

/// Where a job stands, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum ShownState {
    /// Accepted, or waiting for its next attempt.
    Queued,
    /// An attempt is under way.
    Running,
    /// Done.
    Succeeded,
    /// Not done, and not tried again by itself; `reason` says why.
    Failed,
    /// Cancelled before it was done.
    Cancelled,
}

/// What is shown of a job.
#[derive(Debug)]
pub(crate) struct View {
    entry: JobEntry,
    state: ShownState,
    reason: Option<String>,
    /// Seconds until there may be news; `None` once the job has ended.
    poll_after: Option<u64>,
}

/// A job that was accepted.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AcceptedJob))]
pub(crate) struct AcceptedBody {
    /// Names the job.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "uuid"))]
    id: JobId,
    /// What is to be done.
    kind: String,
    state: ShownState,
    links: Links,
}

/// A job.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Job))]
pub(crate) struct JobBody<'a> {
    /// Names the job.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "uuid"))]
    id: JobId,
    /// What is to be done.
    kind: &'a str,
    state: ShownState,
    /// Which delivery of its message the latest attempt belongs to; 0 before
    /// the first.
    attempt: u32,
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    created_at: String,
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    updated_at: String,
    /// What the job made, as its kind says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>, nullable = false))]
    result: Option<&'a RawValue>,
    /// There was a result, but it was too large to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    result_omitted: Option<bool>,
    /// Why the job failed, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    reason: Option<&'a str>,
    /// Why the job failed, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    error: Option<&'a str>,
    links: Links,
}

/// Where to go from here.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Links {
    /// The job itself, as a path.
    #[serde(rename = "self")]
    this: String,
}

impl View {
    /// The entry at `now`. What is due to happen to it counts as done: a
    /// lease that is over has no owner, and nothing sweeps the table.
    pub(crate) fn of(entry: JobEntry, now: Timestamp) -> Self {
        use ShownState as Shown;
        let interrupted = || Some(reason::INTERRUPTED.to_owned());
        let (state, reason) = match entry.state {
            State::Running if entry.is_leased(now) => (Shown::Running, None),
            State::Running if entry.last_attempt => (Shown::Failed, interrupted()),
            State::Queued | State::Running => (Shown::Queued, None),
            State::Succeeded => (Shown::Succeeded, None),
            State::Failed => (Shown::Failed, entry.reason.clone()),
            State::Held => (Shown::Failed, interrupted()),
            State::Cancelled => (Shown::Cancelled, None),
        };
        let poll_after = matches!(state, Shown::Queued | Shown::Running).then(|| {
            let wait = entry.not_before.map_or(0, |not_before| not_before.since(now).as_secs());
            wait.clamp(POLL_SECONDS, MAX_POLL_SECONDS)
        });
        Self { entry, state, reason, poll_after }
    }

    /// Names the job.
    pub(crate) const fn id(&self) -> JobId {
        self.entry.id
    }

    /// Seconds until there may be news; `None` once the job has ended.
    pub(crate) const fn poll_after(&self) -> Option<u64> {
        self.poll_after
    }

    /// Where the job stands, as it is shown.
    pub(crate) const fn state(&self) -> ShownState {
        self.state
    }

    /// 202, with where to ask about the job.
    pub(crate) fn to_accepted(&self, base: &str) -> Answer {
        self.answer(StatusCode::ACCEPTED, &self.to_accepted_body(base))
            .with_header(LOCATION, &self.link(base))
    }

    /// The body of that answer.
    pub(crate) fn to_accepted_body(&self, base: &str) -> AcceptedBody {
        AcceptedBody {
            id: self.entry.id,
            kind: self.entry.kind.clone(),
            state: self.state,
            links: Links { this: self.link(base) },
        }
    }

    /// 200, with all that may be seen.
    pub(crate) fn to_found(&self, base: &str) -> Answer {
        let entry = &self.entry;
        let failed = self.state == ShownState::Failed;
        let result = entry
            .result
            .as_deref()
            .and_then(|result| serde_json::from_str::<&RawValue>(result).ok());
        let omitted = entry.result_omitted || (entry.result.is_some() && result.is_none());
        self.answer(
            StatusCode::OK,
            &JobBody {
                id: entry.id,
                kind: &entry.kind,
                state: self.state,
                attempt: entry.attempt,
                created_at: entry.created_at.to_rfc3339(),
                updated_at: entry.updated_at.to_rfc3339(),
                result,
                result_omitted: omitted.then_some(true),
                reason: self.reason.as_deref(),
                error: entry.error.as_deref().filter(|_| failed),
                links: Links { this: self.link(base) },
            },
        )
    }

    fn answer(&self, status: StatusCode, body: &impl Serialize) -> Answer {
        let answer = Answer::json(status, "application/json", body);
        match self.poll_after {
            Some(seconds) => answer.with_header(RETRY_AFTER, &seconds.to_string()),
            None => answer,
        }
    }

    fn link(&self, base: &str) -> String {
        format!("{base}/jobs/{}", self.entry.id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shared::{Fingerprint, Principal};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_123);

    fn entry(state: State) -> JobEntry {
        let id = "abfc2f07-0372-443d-8266-36440aa5df13".parse().unwrap();
        let (principal, fingerprint) = (Principal::anonymous(), Fingerprint::from_text("f"));
        let ttl = Duration::from_hours(1);
        JobEntry { state, ..JobEntry::queued(id, "report", principal, fingerprint, NOW, ttl) }
    }

    fn check(entry: JobEntry, state: &str, reason: Option<&str>, retry_after: Option<&str>) {
        let shown = format!("{entry:?}");
        let answer = View::of(entry, NOW).to_found("/prod");
        let body: serde_json::Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
        assert_eq!(body["state"], state, "{shown}");
        assert_eq!(body["reason"].as_str(), reason, "{shown}");
        let header = answer.headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap());
        assert_eq!(header, retry_after, "{shown}");
    }

    #[test]
    fn clients_see_what_is_due_as_done() {
        let running = |until: u64, last_attempt| JobEntry {
            lease_until: Some(Timestamp::from_millis(until)),
            attempt: 2,
            last_attempt,
            ..entry(State::Running)
        };
        check(entry(State::Queued), "queued", None, Some("1"));
        check(running(NOW.as_millis(), true), "running", None, Some("1"));
        check(running(NOW.as_millis() - 1, false), "queued", None, Some("1"));
        check(running(NOW.as_millis() - 1, true), "failed", Some("interrupted"), None);
        check(entry(State::Held), "failed", Some("interrupted"), None);
        check(entry(State::Succeeded), "succeeded", None, None);
        check(entry(State::Cancelled), "cancelled", None, None);
        let reason = Some("permanent".to_owned());
        check(JobEntry { reason, ..entry(State::Failed) }, "failed", Some("permanent"), None);
    }

    #[test]
    fn a_job_that_waits_says_how_long() {
        let waiting = |seconds| JobEntry {
            not_before: Some(NOW + Duration::from_secs(seconds)),
            ..entry(State::Queued)
        };
        check(waiting(0), "queued", None, Some("1"));
        check(waiting(17), "queued", None, Some("17"));
        check(waiting(40_000), "queued", None, Some("60"));
    }

    #[test]
    fn a_job_reads_like_this() {
        let done = JobEntry {
            attempt: 1,
            result: Some(r#"{"total": 1.50}"#.to_owned()),
            ..entry(State::Succeeded)
        };
        assert_eq!(
            View::of(done, NOW).to_found("/prod").body.unwrap(),
            r#"{"id":"abfc2f07-0372-443d-8266-36440aa5df13","kind":"report","state":"succeeded","attempt":1,"created_at":"2023-11-14T22:13:20.123Z","updated_at":"2023-11-14T22:13:20.123Z","result":{"total": 1.50},"links":{"self":"/prod/jobs/abfc2f07-0372-443d-8266-36440aa5df13"}}"#
        );
    }

    #[test]
    fn only_a_failed_jobs_error_is_shown() {
        for (state, expected) in [(State::Queued, None), (State::Failed, Some("no such group"))] {
            let error = Some("no such group".to_owned());
            let body = View::of(JobEntry { error, ..entry(state) }, NOW).to_found("").body.unwrap();
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["error"].as_str(), expected, "{state}");
        }
    }

    #[test]
    fn a_result_that_was_not_kept_says_so() {
        let omitted = JobEntry { result_omitted: true, ..entry(State::Succeeded) };
        let body = View::of(omitted, NOW).to_found("").body.unwrap();
        assert!(body.contains(r#""result_omitted":true"#) && !body.contains("\"result\""));
    }
}
