//! Logs: one JSON object per event on stdout, which Lambda sends to CloudWatch.

use std::error::Error;
use std::str::FromStr;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(Level);

impl LogLevel {
    /// One event per fact.
    pub const DEFAULT: Self = Self(Level::INFO);
}

impl FromStr for LogLevel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "must be error, warn, info, debug or trace")
    }
}

/// Sends events of `level` and above to stdout.
///
/// Libraries are kept to warnings: at `debug` the AWS SDK logs request bodies,
/// and payloads must not reach the logs.
pub fn init(level: LogLevel) {
    let ours = ["producer", "consumer", "shared"].map(|target| (target, level.0));
    let filter = Targets::new().with_default(Level::WARN.min(level.0)).with_targets(ours);
    let json = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_writer(std::io::stdout);
    // Fails only where a subscriber is set already, which then does the work.
    let _ = tracing_subscriber::registry().with(filter).with(json).try_init();
    // The default hook writes lines that are no JSON, and with them whatever the
    // panic quotes. Who catches the panic logs what follows from it.
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        tracing::error!(location, "panicked");
    }));
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
}
