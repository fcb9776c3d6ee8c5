//! Reads a function's configuration from its environment.
//!
//! Every problem is found in one go, so that a deployment is not repaired one
//! variable at a time.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Everything that is wrong with the environment, one line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid configuration: {}", .0.join("; "))]
pub struct ConfigError(Vec<String>);

/// An environment that is being read.
pub struct Environment<L> {
    lookup: L,
    problems: Vec<String>,
}

impl<L> fmt::Debug for Environment<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("problems", &self.problems).finish_non_exhaustive()
    }
}

impl<L: Fn(&str) -> Option<String>> Environment<L> {
    /// Reads variables by `lookup`.
    pub const fn new(lookup: L) -> Self {
        Self { lookup, problems: Vec::new() }
    }

    /// A variable that must be there; `None` after its problem was noted.
    pub fn required<T: FromStr<Err: Display>>(&mut self, name: &str) -> Option<T> {
        let text = self.text(name);
        if text.is_none() {
            self.problems.push(format!("{name} is not set"));
        }
        self.parse(name, &text?)
    }

    /// A variable that has a default; `None` after its problem was noted.
    pub fn optional<T: FromStr<Err: Display>>(&mut self, name: &str, default: T) -> Option<T> {
        match self.text(name) {
            Some(text) => self.parse(name, &text),
            None => Some(default),
        }
    }

    /// A variable that may be left out (`Some(None)`) and must not show in a
    /// log; `None` after its problem was noted.
    pub fn secret<T: FromStr<Err: Display>>(&mut self, name: &str) -> Option<Option<T>> {
        match self.text(name).map(|text| text.parse()) {
            None => Some(None),
            Some(Ok(value)) => Some(Some(value)),
            Some(Err(error)) => self.problem(format!("{name}: {error}")),
        }
    }

    /// Notes a problem if `value` lies outside `range`.
    pub fn within<T: PartialOrd + Display>(
        &mut self,
        name: &str,
        value: Option<T>,
        range: &RangeInclusive<T>,
    ) -> Option<T> {
        let value = value?;
        if range.contains(&value) {
            return Some(value);
        }
        let (least, most) = (range.start(), range.end());
        self.problem(format!("{name} is {value}, but must lie between {least} and {most}"))
    }

    /// Notes a problem that several variables make together.
    pub fn problem<T>(&mut self, problem: String) -> Option<T> {
        self.problems.push(problem);
        None
    }

    /// The configuration, if nothing was wrong.
    ///
    /// # Errors
    ///
    /// Everything that was wrong. The process cannot work and must not start.
    pub fn finish<T>(self, config: impl FnOnce() -> Option<T>) -> Result<T, ConfigError> {
        if !self.problems.is_empty() {
            return Err(ConfigError(self.problems));
        }
        config().ok_or_else(|| ConfigError(vec!["a value is missing".to_owned()]))
    }

    /// The variable's text. An empty one counts as not set: that is what a
    /// forgotten parameter of a template makes of it.
    fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn parse<T: FromStr<Err: Display>>(&mut self, name: &str, text: &str) -> Option<T> {
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => self.problem(format!("{name} is \"{text}\": {error}")),
        }
    }
}

/// The URL of a standard SQS queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueUrl(String);

impl QueueUrl {
    /// The URL's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for QueueUrl {
    type Err = InvalidQueueUrl;

    fn from_str(text: &str) -> Result<Self, InvalidQueueUrl> {
        if is_fifo(text) {
            return Err(InvalidQueueUrl::Fifo);
        }
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        match host.and_then(|rest| rest.split_once('/')) {
            Some((host, path)) if !host.is_empty() && !path.is_empty() => Ok(Self(text.to_owned())),
            _ => Err(InvalidQueueUrl::NotAUrl),
        }
    }
}

/// Whether a queue's URL, ARN or name is that of a FIFO queue, which SQS tells
/// by this suffix.
#[must_use]
#[expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "SQS takes only this spelling for the suffix; it is no file extension"
)]
pub fn is_fifo(queue: &str) -> bool {
    queue.ends_with(".fifo")
}

/// Why a text is not the URL of a queue that Relevo uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQueueUrl {
    /// De-duplication of FIFO queues would swallow re-sends and redrives.
    #[error("FIFO queues are not supported, use a standard queue")]
    Fifo,
    /// Not `http(s)://host/account/name`.
    #[error("not the URL of an SQS queue")]
    NotAUrl,
}

/// How long a job entry lives, given in days.
///
/// It must outlive the queue and the dead-letter queue together: a redrive on
/// day 13 must still meet its entry. SQS keeps messages for 14 days at most,
/// and on standard queues a dead letter's age counts from its first enqueue,
/// but one that the consumer sends itself starts anew: 28 days in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryTtl(Duration);

impl EntryTtl {
    /// 30 days.
    pub const DEFAULT: Self = Self(Duration::from_hours(30 * 24));

    /// The time from an entry's last claim to its end.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }
}

impl FromStr for EntryTtl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(days @ 28..=3_650) => Ok(Self(Duration::from_hours(days * 24))),
            _ => Err("must be whole days, 28 (both queues' longest retention) to 3650"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_at_once() {
        let mut env = Environment::new(|name| match name {
            "EMPTY" => Some(" ".to_owned()),
            "WORD" => Some("ten".to_owned()),
            "HIGH" => Some("11".to_owned()),
            _ => None,
        });
        let missing: Option<String> = env.required("MISSING");
        let empty: Option<String> = env.required("EMPTY");
        let word: Option<u32> = env.optional("WORD", 1);
        let high = env.optional("HIGH", 1_u32);
        let high = env.within("HIGH", high, &(1..=10));
        let error = env
            .finish(|| Some((missing?, empty?, word?, high?)))
            .expect_err("four problems")
            .to_string();
        for part in
            ["MISSING is not set", "EMPTY is not set", "WORD is \"ten\"", "between 1 and 10"]
        {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_secret_is_not_told() {
        let mut env = Environment::new(|_| Some("hunter2".to_owned()));
        assert_eq!(env.secret::<u32>("SECRET"), None);
        let error = env.finish(|| Some(())).expect_err("no number").to_string();
        assert!(error.contains("SECRET: invalid digit") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn queue_urls() {
        fn check(text: &str, expected: Result<(), InvalidQueueUrl>) {
            assert_eq!(text.parse::<QueueUrl>().map(|_| ()), expected, "{text}");
        }
        check("https://sqs.eu-west-1.amazonaws.com/123456789012/jobs", Ok(()));
        check("http://127.0.0.1:4566/000000000000/jobs", Ok(()));
        check("https://sqs.eu-west-1.amazonaws.com/1/jobs.fifo", Err(InvalidQueueUrl::Fifo));
        check("arn:aws:sqs:eu-west-1:123456789012:jobs", Err(InvalidQueueUrl::NotAUrl));
        check("jobs", Err(InvalidQueueUrl::NotAUrl));
        check("https:///jobs", Err(InvalidQueueUrl::NotAUrl));
    }

    #[test]
    fn entries_outlive_both_queues() {
        assert_eq!("30".parse(), Ok(EntryTtl::DEFAULT));
        for days in ["0", "27", "-1", "x", "3651"] {
            assert!(days.parse::<EntryTtl>().is_err(), "{days}");
        }
    }
}
