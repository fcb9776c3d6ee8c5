//! Logs: one JSON object per event on stdout, which Lambda sends to CloudWatch.
//!
//! An event says what happened; the spans around it say to whom. Both end up
//! as fields of one flat object, so a handler's own events, and a panic's,
//! carry the job's id as well.

use std::error::Error;
use std::str::FromStr;

use tracing::{Level, Span, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use self::lines::Lines;
use crate::config::Environment;

mod lines;
#[cfg_attr(not(feature = "opentelemetry"), path = "telemetry/no_traces.rs")]
pub mod traces;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(Level);

impl LogLevel {
    /// One event per fact.
    pub const DEFAULT: Self = Self(Level::INFO);

    /// Reads `LOG_LEVEL` and, where the function's log format is JSON, Lambda's
    /// own `AWS_LAMBDA_LOG_LEVEL`. What says less counts: Lambda drops what is
    /// below its level anyway.
    pub fn read<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Self> {
        let ours = env.optional("LOG_LEVEL", Self::DEFAULT);
        let lambdas = env.optional("AWS_LAMBDA_LOG_LEVEL", Self(Level::TRACE));
        Some(Self(ours?.0.min(lambdas?.0)))
    }
}

impl FromStr for LogLevel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Lambda has a level above all of tracing's.
        let text = if text.eq_ignore_ascii_case("fatal") { "error" } else { text };
        text.parse().map(Self).map_err(|_| "must be error, warn, info, debug or trace")
    }
}

/// Sends events of `level` and above to stdout.
pub fn init(level: LogLevel) {
    traces::init(subscriber(level, std::io::stdout));
    // The default hook writes lines that are no JSON, and with them whatever the
    // panic quotes. Who catches the panic logs what follows from it.
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, "panicked");
    }));
}

/// Writes events of `level` and above as lines of JSON.
///
/// Libraries are kept to warnings: at `debug` the AWS SDK logs request bodies,
/// and payloads must not reach the logs.
#[must_use]
pub fn subscriber<W>(level: LogLevel, writer: W) -> impl Subscriber + for<'a> LookupSpan<'a>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let ours = ["producer", "consumer", "shared"].map(|target| (target, level.0));
    let filter = Targets::new().with_default(Level::WARN.min(level.0)).with_targets(ours);
    tracing_subscriber::registry().with(filter).with(Lines(writer))
}

/// The span of an invocation. Spans are errors, so that every event has them,
/// whatever the level.
#[must_use]
pub fn invocation(request_id: &str, is_cold_start: bool) -> Span {
    let cold_start = is_cold_start.then_some(true);
    tracing::error_span!("invocation", aws.request_id = request_id, cold_start)
}

/// The trace's id in an X-Ray trace header: the value of its `Root`.
#[must_use]
pub fn trace_id(header: &str) -> Option<&str> {
    trace_part(header, "Root")
}

/// The value of one part of an X-Ray trace header.
#[must_use]
pub fn trace_part<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = header.split(';').filter_map(|part| part.trim().split_once('='));
    parts.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// An error and its causes, each once.
#[must_use]
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("sending failed")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("connection reset")]
        struct Inner;
        assert_eq!(causes(&Outer(Inner)), "sending failed: connection reset");
    }

    #[test]
    fn the_level_that_says_less_counts() {
        fn check(ours: &str, lambdas: &str, expected: Level) {
            let lookup =
                |name: &str| Some(if name == "LOG_LEVEL" { ours } else { lambdas }.to_owned());
            let level = LogLevel::read(&mut Environment::new(lookup));
            assert_eq!(level, Some(LogLevel(expected)), "{ours} {lambdas}");
        }
        check("", "", Level::INFO);
        check("debug", "", Level::DEBUG);
        check("debug", "INFO", Level::INFO);
        check("warn", "INFO", Level::WARN);
        check("info", "FATAL", Level::ERROR);
    }

    #[test]
    fn a_trace_is_named_by_its_root() {
        let id = "1-5759e988-bd862e3fe1be46a994272793";
        for header in [
            "Root=1-5759e988-bd862e3fe1be46a994272793",
            "Self=1-5759e988-aa; Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1",
        ] {
            assert_eq!(trace_id(header), Some(id));
        }
        assert_eq!(trace_id("Parent=53995c3f42cd8ad8"), None);
    }
}
