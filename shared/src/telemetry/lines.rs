//! Lines of the log: an event and the spans around it as one flat JSON object.
//!
//! A span's fields are made JSON once, when it begins, and not with each event in
//! it: a job has several, and its log is a good part of what it costs.

use std::fmt::{Debug, Write as _};
use std::io::Write as _;

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Writes each event as a line of JSON.
pub(super) struct Lines<W>(pub(super) W);

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        // Before the span is locked: what makes a value a text may log, or panic.
        let mut later = Fields::default();
        record.record(&mut later);
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            fields.0.retain(|(name, _)| later.0.iter().all(|(other, _)| other != name));
            fields.0.extend(later.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = "{\"timestamp\":\"".to_owned();
        // Writing to a string does not fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut line));
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let _ = write!(line, "\",\"level\":\"{level}\",\"target\":\"{target}\"");
        // A name stands once in a line; what is nearer to the event says it better.
        let mut taken = vec!["timestamp", "level", "target"];
        fields.write(&mut line, &mut taken);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<Fields>() {
                fields.write(&mut line, &mut taken);
            }
        }
        line.push_str("}\n");
        // If nobody reads the log, that is no reason to fail jobs.
        let _ = self.0.make_writer_for(event.metadata()).write_all(line.as_bytes());
    }
}

/// Names and values, these as JSON.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Serialize) {
        let value = json(value);
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, old)) => *old = value,
            None => self.0.push((field.name(), value)),
        }
    }

    /// Adds those to `line` whose names are not taken, and takes them.
    fn write(&self, line: &mut String, taken: &mut Vec<&'static str>) {
        for (name, value) in &self.0 {
            if !taken.contains(name) {
                let _ = write!(line, ",{}:{value}", json(name));
                taken.push(name);
            }
        }
    }
}

/// Numbers, flags and strings always have a JSON text.
fn json(value: impl Serialize) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged by `events`.
    fn text_of(events: impl FnOnce()) -> String {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::registry().with(Lines(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, events);
        String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_event_and_its_spans_are_one_flat_object() {
        let text = text_of(|| {
            let batch = tracing::info_span!("batch", size = 10_u32, missing = None::<u32>);
            let _batch = batch.enter();
            let job = tracing::info_span!("job", job.id = 7, later = tracing::field::Empty);
            job.record("later", "not yet");
            job.record("later", "known \"now\"\n");
            let _job = job.enter();
            tracing::warn!(share = 0.5, is_last = true, error = %"x", list = ?[1], "it failed");
        });
        let mut line: Value = serde_json::from_str(&text).unwrap();
        assert!(line["timestamp"].take().as_str().unwrap().ends_with('Z'), "{text}");
        let expected = json!({
            "timestamp": null, "level": "WARN", "target": "shared::telemetry::lines::tests",
            "message": "it failed", "share": 0.5, "is_last": true, "error": "x", "list": "[1]",
            "job.id": 7, "later": "known \"now\"\n", "size": 10,
        });
        assert_eq!(line, expected);
    }

    /// A name twice in an object reads differently from reader to reader.
    #[test]
    fn of_one_name_the_nearest_value_counts_and_only_it_is_written() {
        let text = text_of(|| {
            let outer = tracing::info_span!("outer", a = 1, b = 1, c = 1);
            let _outer = outer.enter();
            let inner = tracing::info_span!("inner", a = 2, b = 2);
            let _inner = inner.enter();
            tracing::info!(a = 3, level = "low", "a \"name\"" = 4);
        });
        assert!(text.contains(",\"level\":\"INFO\",") && !text.contains("low"), "{text}");
        assert!(text.ends_with(",\"a\":3,\"a \\\"name\\\"\":4,\"b\":2,\"c\":1}\n"), "{text}");
    }

    #[test]
    fn what_happens_outside_of_spans_is_written_too() {
        let text = text_of(|| tracing::error!("no span"));
        assert!(text.ends_with("\"message\":\"no span\"}\n"), "{text}");
    }
}
