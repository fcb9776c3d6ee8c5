//! What is left of [OpenTelemetry](https://opentelemetry.io) without the feature
//! of that name: nothing.

use tracing::{Span, Subscriber};
use tracing_subscriber::util::SubscriberInitExt;

pub(super) fn init(subscriber: impl Subscriber + Send + Sync) {
    // Fails only where a subscriber is set already, which then does the work.
    let _ = subscriber.try_init();
}

/// Makes `span` the child of the one that an X-Ray trace header names, where
/// spans are sent.
pub const fn continue_trace(_span: &Span, _header: Option<&str>) {}

/// The X-Ray trace header that makes others children of the current span, if
/// spans are sent.
#[must_use]
pub const fn trace_header() -> Option<String> {
    None
}
