//! A dead letter with all that is known of its job.

use std::collections::HashMap;

use anyhow::{Result, anyhow};
use serde::Serialize;
use shared::job::Interrupted;
use shared::message::{DecodeError, Message, NotYetKnown};
use shared::reason::{INTERRUPTED, RETRIES_EXHAUSTED};
use shared::table::DynamoJobTable;
use shared::{Fingerprint, JobEntry, JobId, State, Timestamp};

use super::letter::Letter;

/// What a dead letter's body says.
#[derive(Debug)]
pub enum Meaning {
    /// A job.
    Job(Box<Message>),
    /// A job that this code does not know.
    Unknown(Box<NotYetKnown>),
    /// Nothing that anybody can read.
    Nothing,
}

/// Which letters' entries are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Those of letters that do not say themselves why they are here.
    WhereNeeded,
    /// All.
    All,
}

/// A dead letter and its job.
#[derive(Debug)]
pub struct Found {
    /// The letter.
    pub letter: Letter,
    /// What its body says.
    pub meaning: Meaning,
    /// The job's entry, if it was read and there is one that lives.
    pub entry: Option<JobEntry>,
}

/// What is told of a dead letter.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// SQS's name for it.
    pub message_id: String,
    /// The job, if it names one.
    pub job_id: Option<String>,
    /// The job's kind, if it names one.
    pub kind: Option<String>,
    /// Why it is here, in one word.
    pub reason: String,
    /// Why it is here, in one sentence.
    pub error: Option<String>,
    /// How often its message was received before.
    pub attempts: Option<u32>,
    /// When it was sent, in RFC 3339; SQS keeps it for 14 days from then.
    pub sent_at: String,
    /// Seconds since then.
    pub age_seconds: u64,
    /// Bytes of the body.
    pub bytes: usize,
}

/// Finds out about `letters`.
///
/// # Errors
///
/// The table did not answer, or has an entry that cannot be read.
pub async fn find_out(
    table: &DynamoJobTable,
    letters: Vec<Letter>,
    which: Entries,
    now: Timestamp,
) -> Result<Vec<Found>> {
    let mut all: Vec<_> = letters.into_iter().map(Found::new).collect();
    let is_needed = |found: &&Found| which == Entries::All || !found.letter.is_from_consumer();
    let ids: Vec<_> = all.iter().filter(is_needed).filter_map(Found::job_id).collect();
    let entries = table.get_all(&ids).await;
    let entries = entries.map_err(|error| anyhow!(error.describe()).context(NO_ENTRIES))?;
    let mut by_id: HashMap<_, _> = entries.into_iter().map(|entry| (entry.id, entry)).collect();
    by_id.retain(|_, entry| !entry.is_expired(now));
    for found in &mut all {
        found.entry = found.job_id().and_then(|id| by_id.get(&id).cloned());
    }
    Ok(all)
}

const NO_ENTRIES: &str = "could not read the jobs' entries";

impl Found {
    /// What the letter says itself.
    #[must_use]
    pub fn new(letter: Letter) -> Self {
        let meaning = match Message::decode(&letter.content.body) {
            Ok(message) => Meaning::Job(Box::new(message)),
            Err(DecodeError::NotYetKnown(message)) => Meaning::Unknown(message),
            Err(DecodeError::Unreadable(_)) => Meaning::Nothing,
        };
        Self { letter, meaning, entry: None }
    }

    /// The job that it names.
    #[must_use]
    pub fn job_id(&self) -> Option<JobId> {
        match &self.meaning {
            Meaning::Job(message) => Some(message.id),
            Meaning::Unknown(message) => Some(message.id),
            Meaning::Nothing => None,
        }
    }

    /// The kind that it names.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        match &self.meaning {
            Meaning::Job(message) => Some(message.job.kind()),
            Meaning::Unknown(message) => message.kind.as_deref(),
            Meaning::Nothing => None,
        }
    }

    /// When the job was accepted; when the letter was sent, if it does not say.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        let created_at = match &self.meaning {
            Meaning::Job(message) => message.created_at,
            Meaning::Unknown(message) => message.created_at,
            Meaning::Nothing => None,
        };
        created_at.unwrap_or(self.letter.sent_at)
    }

    /// The entry, if it is that of the letter's job and not of another one under
    /// the same id.
    #[must_use]
    pub fn own_entry(&self) -> Option<&JobEntry> {
        let same = |entry: &&JobEntry| match &self.meaning {
            Meaning::Job(message) => {
                message.job.intent().is_some() || entry.fingerprint == message.fingerprint
            }
            Meaning::Unknown(message) => {
                // Without one nobody can tell, and nothing must be guessed.
                message.fingerprint.as_ref() == Some(&entry.fingerprint)
            }
            Meaning::Nothing => false,
        };
        self.entry.as_ref().filter(same)
    }

    /// Whether the job may be repeated only by a person's word once it was
    /// interrupted. A kind that is not known here may be such a one.
    #[must_use]
    pub fn may_be_held(&self) -> bool {
        match &self.meaning {
            Meaning::Job(message) => message.job.interrupted() == Interrupted::Hold,
            Meaning::Unknown(_) => true,
            Meaning::Nothing => false,
        }
    }

    /// The fingerprint that an entry of the job would have.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&Fingerprint> {
        match &self.meaning {
            Meaning::Job(message) => Some(&message.fingerprint),
            Meaning::Unknown(message) => message.fingerprint.as_ref(),
            Meaning::Nothing => None,
        }
    }

    /// Why it is here: a word, and a sentence if there is one.
    #[must_use]
    pub fn why(&self) -> (String, Option<String>) {
        if let Some(reason) =
            self.letter.attribute("reason").filter(|_| self.letter.is_from_consumer())
        {
            return (reason.to_owned(), self.letter.attribute("error").map(str::to_owned));
        }
        // SQS moved it, and only the entry knows more.
        let Some(entry) = self.own_entry() else {
            let told = "received as often as allowed, and its job has no entry";
            return (RETRIES_EXHAUSTED.to_owned(), Some(told.to_owned()));
        };
        match (entry.state, &entry.reason) {
            (State::Failed | State::Held, Some(reason)) => (reason.clone(), entry.error.clone()),
            (State::Running, _) => {
                (INTERRUPTED.to_owned(), Some("its last attempt ended without a word".to_owned()))
            }
            (state, _) => {
                let told = entry.error.clone().unwrap_or_else(|| {
                    format!("received as often as allowed; its entry says \"{state}\"")
                });
                (RETRIES_EXHAUSTED.to_owned(), Some(told))
            }
        }
    }

    /// What is told of it at `now`.
    #[must_use]
    pub fn summary(&self, now: Timestamp) -> Summary {
        let (reason, error) = self.why();
        let letter = &self.letter;
        let attempts = letter.attribute("receive_count").and_then(|count| count.parse().ok());
        let of_entry =
            || self.own_entry().map(|entry| entry.attempt).filter(|attempt| *attempt > 0);
        Summary {
            message_id: letter.message_id.clone(),
            job_id: self.job_id().map(|id| id.to_string()),
            kind: self.kind().or(letter.attribute("kind")).map(str::to_owned),
            reason,
            error,
            attempts: attempts.or_else(of_entry),
            sent_at: letter.sent_at.to_rfc3339(),
            age_seconds: now.since(letter.sent_at).as_secs(),
            bytes: letter.content.body.len(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use shared::Principal;

    use super::super::line::{Attribute, Content};
    use super::*;

    pub(crate) const ID: &str = "abfc2f07-0372-443d-8266-36440aa5df13";
    pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    pub(crate) const DAY: Duration = Duration::from_hours(24);

    /// A letter with this body, which was sent an hour ago.
    pub(crate) fn letter(body: &str, attributes: &[(&str, &str)]) -> Letter {
        let attribute =
            |value: &str| Attribute { data_type: "String".to_owned(), value: value.to_owned() };
        let attributes: BTreeMap<_, _> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), attribute(value))).collect();
        Letter {
            message_id: "m".to_owned(),
            receipt: "r".to_owned(),
            content: Content { body: body.to_owned(), attributes, ..Content::default() },
            sent_at: NOW - Duration::from_hours(1),
        }
    }

    /// What the consumer writes on a letter.
    pub(crate) fn written(reason: &str) -> [(&str, &str); 4] {
        [
            ("reason", reason),
            ("error", "no"),
            ("receive_count", "2"),
            ("failed_at", "2026-11-30T00:00:00.000Z"),
        ]
    }

    pub(crate) fn report() -> String {
        let payload = r#"{"title":"t","rows":[{"group":"a","amount":"1"}]}"#;
        format!(r#"{{"id":"{ID}","kind":"report","payload":{payload},"fingerprint":"f"}}"#)
    }

    pub(crate) fn email() -> String {
        let payload = r#"{"candidate_id":"c","to":"a@example.org","name":"A","language":"en"}"#;
        format!(r#"{{"id":"{ID}","kind":"welcome-email","payload":{payload},"fingerprint":"f"}}"#)
    }

    /// An entry of the job, last written two hours ago.
    pub(crate) fn entry(state: State) -> JobEntry {
        let then = NOW - Duration::from_hours(2);
        let (id, f) = (ID.parse().unwrap(), Fingerprint::from_text("f"));
        let queued = JobEntry::queued(id, "report", Principal::anonymous(), f, then, 30 * DAY);
        JobEntry { state, attempt: 5, ..queued }
    }

    fn why(found: &Found) -> (String, String) {
        let (reason, error) = found.why();
        (reason, error.unwrap_or_default())
    }

    #[test]
    fn a_letter_of_the_consumer_says_itself_why_it_is_here() {
        let found = Found::new(letter(&report(), &written("permanent")));
        let summary = found.summary(NOW);
        assert_eq!(summary.job_id.as_deref(), Some(ID));
        assert_eq!((summary.kind.as_deref(), summary.attempts), (Some("report"), Some(2)));
        assert_eq!((summary.reason.as_str(), summary.error.as_deref()), ("permanent", Some("no")));
        assert_eq!(summary.age_seconds, 3600);
    }

    #[test]
    fn the_entry_says_why_sqs_moved_a_message() {
        let check = |entry: Option<JobEntry>, reason: &str, error: &str| {
            let found = Found { entry, ..Found::new(letter(&report(), &[("kind", "report")])) };
            assert_eq!(why(&found), (reason.to_owned(), error.to_owned()));
        };
        let because = |reason: &str, state| JobEntry {
            reason: Some(reason.to_owned()),
            error: Some("busy".to_owned()),
            ..entry(state)
        };
        check(Some(because("retries-exhausted", State::Failed)), "retries-exhausted", "busy");
        check(Some(entry(State::Running)), "interrupted", "its last attempt ended without a word");
        check(
            Some(entry(State::Queued)),
            "retries-exhausted",
            "received as often as allowed; its entry says \"queued\"",
        );
        let none = "received as often as allowed, and its job has no entry";
        check(None, "retries-exhausted", none);
        // Another payload under the same id: what its entry says is another story.
        let others = JobEntry {
            fingerprint: Fingerprint::from_text("g"),
            ..because("permanent", State::Failed)
        };
        check(Some(others), "retries-exhausted", none);
    }

    #[test]
    fn what_nobody_can_read_has_no_job() {
        let found = Found::new(letter("poison", &written("undecodable")));
        let summary = found.summary(NOW);
        assert_eq!((summary.job_id, summary.kind), (None, None));
        assert!(!found.may_be_held());
    }

    #[test]
    fn a_kind_that_is_not_known_may_be_one_that_is_held() {
        assert!(!Found::new(letter(&report(), &[])).may_be_held());
        assert!(Found::new(letter(&email(), &[])).may_be_held());
        let unknown = format!(r#"{{"id":"{ID}","kind":"new","payload":{{}}}}"#);
        assert!(Found::new(letter(&unknown, &[])).may_be_held());
    }
}
