//! What a test's producer writes to its stdout.

use std::cell::RefCell;
use std::io;
use std::sync::Once;

use serde_json::Value;
use shared::telemetry::{LogLevel, subscriber};
use tracing_subscriber::util::SubscriberInitExt;

thread_local! {
    /// What is logged on this thread, which is that of one test.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes what a thread logs to where it is kept.
pub(crate) struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From here on, what this thread logs is kept.
pub(crate) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| subscriber(LogLevel::DEFAULT, || Log).init());
    LOG.take();
}

pub(crate) fn text() -> String {
    LOG.with_borrow(|log| String::from_utf8(log.clone()).unwrap())
}

/// The events that say `message`.
pub(crate) fn events(message: &str) -> Vec<Value> {
    let text = text();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["message"] == message).collect()
}
