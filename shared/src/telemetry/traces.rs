//! Spans as OpenTelemetry's, sent over OTLP at the end of each invocation.
//!
//! Where to, and what more is said of this process, is read by the SDK from the
//! variables of the [specification](https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
//! Trace ids are X-Ray's, so that X-Ray takes the spans as well.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_aws::trace::{XrayIdGenerator, XrayPropagator};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// How long the end of an invocation waits for the collector. The next
/// invocation waits as well, so a collector that is gone must not be waited for.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The HTTP header of a trace, by which the propagator knows it.
const TRACE_HEADER: &str = "x-amzn-trace-id";

/// What sends this process's spans.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Sends what `subscriber` gets to the collector as well, from now on.
pub(super) fn init(subscriber: impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync) {
    // The exporter's HTTP client takes the process's provider, and there is none by
    // itself. Fails only where somebody has chosen one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = SpanExporter::builder().with_http().with_timeout(EXPORT_TIMEOUT).build();
    match exporter {
        Ok(exporter) => {
            let provider = PROVIDER.get_or_init(|| provider(exporter));
            let _ = traced(subscriber, provider).try_init();
        }
        Err(error) => {
            let _ = subscriber.try_init();
            tracing::error!(error = super::causes(&error), "spans cannot be sent");
        }
    }
}

/// Makes spans and sends them with `exporter`.
#[must_use]
pub fn provider(exporter: SpanExporter) -> SdkTracerProvider {
    SdkTracerProvider::builder()
        .with_id_generator(XrayIdGenerator::default())
        .with_batch_exporter(exporter)
        .build()
}

/// Gives what `subscriber` gets to `provider` as well.
#[must_use]
pub fn traced<S>(subscriber: S, provider: &SdkTracerProvider) -> impl Subscriber + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let tracer = provider.tracer("relevo");
    subscriber.with(tracing_opentelemetry::layer().with_tracer(tracer))
}

/// Sends the spans that have ended, and waits until they are sent.
pub fn flush() {
    if let Some(Err(error)) = PROVIDER.get().map(SdkTracerProvider::force_flush) {
        tracing::warn!(error = super::causes(&error), "spans were not sent");
    }
}

/// Makes `span` the child of the one that an X-Ray trace header names.
pub fn continue_trace(span: &Span, header: Option<&str>) {
    if let Some(header) = header {
        let carrier = HashMap::from([(TRACE_HEADER.to_owned(), header.to_owned())]);
        // Fails where nobody makes spans of it.
        let _ = span.set_parent(XrayPropagator::default().extract(&carrier));
    }
}

/// The X-Ray trace header that makes others children of the current span, if
/// spans are sent.
#[must_use]
pub fn trace_header() -> Option<String> {
    let mut carrier = HashMap::new();
    XrayPropagator::default().inject_context(&Span::current().context(), &mut carrier);
    carrier.remove(TRACE_HEADER)
}
