//! Lines of the log: an event and the spans around it as one flat JSON object.
//!
//! A span's fields are made JSON once, when it begins, and not with each event in
//! it: a job has several, and its log is a good part of what it costs.

use std::fmt::{Debug, Display};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_micros;
use serde::{Serialize, Serializer};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Room for fields, so that it seldom has to grow.
#[derive(Clone, Copy)]
struct Room {
    bytes: usize,
    fields: usize,
}

const LINE: Room = Room { bytes: 768, fields: 16 };
const SPAN: Room = Room { bytes: 256, fields: 8 };

/// Writes each event as a line of JSON.
pub(super) struct Lines<W>(pub(super) W);

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::with_room(SPAN);
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        // Before the span is locked: what makes a value a text may log, or panic.
        let mut fields = Fields::with_room(SPAN);
        record.record(&mut fields);
        if let Some(span) = context.span(id)
            && let Some(before) = span.extensions_mut().get_mut::<Fields>()
        {
            fields.add(before);
            *before = fields;
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Fields::of_every_event(event.metadata());
        event.record(&mut line);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.add(fields);
            }
        }
        // If nobody reads the log, that is no reason to fail jobs.
        let _ = self.0.make_writer_for(event.metadata()).write_all(&line.into_line());
    }
}

/// Fields as they stand in a line. Of one name the first value counts, also
/// within one event: what is nearer to the event is added first, and says it
/// better.
struct Fields {
    /// Each as `,"name":value`.
    json: Vec<u8>,
    /// Each one's name, and where it ends.
    ends: Vec<(&'static str, usize)>,
}

impl Fields {
    fn with_room(room: Room) -> Self {
        Self { json: Vec::with_capacity(room.bytes), ends: Vec::with_capacity(room.fields) }
    }

    /// What every line begins with.
    fn of_every_event(metadata: &Metadata<'static>) -> Self {
        let mut fields = Self::with_room(LINE);
        // No clock that is wrong is a reason to panic.
        let now = SystemTime::now().max(UNIX_EPOCH);
        fields.set("timestamp", Displayed(format_rfc3339_micros(now)));
        fields.set("level", metadata.level().as_str());
        fields.set("target", metadata.target());
        fields
    }

    fn set(&mut self, name: &'static str, value: impl Serialize) {
        if self.has(name) {
            return;
        }
        self.json.push(b',');
        // Names, numbers, flags and texts always have a JSON text.
        let _ = serde_json::to_writer(&mut self.json, name);
        self.json.push(b':');
        let _ = serde_json::to_writer(&mut self.json, &value);
        self.ends.push((name, self.json.len()));
    }

    /// Adds those of `others` whose names are not there.
    fn add(&mut self, others: &Self) {
        let mut start = 0;
        for (name, end) in &others.ends {
            if !self.has(name) {
                self.json.extend(others.json.get(start..*end).unwrap_or_default());
                self.ends.push((name, self.json.len()));
            }
            start = *end;
        }
    }

    fn has(&self, name: &str) -> bool {
        self.ends.iter().any(|(other, _)| *other == name)
    }

    /// One object.
    fn into_line(mut self) -> Vec<u8> {
        if let Some(first) = self.json.first_mut() {
            *first = b'{';
        }
        self.json.extend(b"}\n");
        self.json
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field.name(), Displayed(format_args!("{value:?}")));
    }
}

/// A value that is told by its text.
struct Displayed<T>(T);

impl<T: Display> Serialize for Displayed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
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

    impl Write for Log {
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
            tracing::info!(a = 3, a = 4, level = "low", "a \"name\"" = 4);
        });
        assert!(text.contains(",\"level\":\"INFO\",") && !text.contains("low"), "{text}");
        assert!(text.ends_with(",\"a\":3,\"a \\\"name\\\"\":4,\"b\":2,\"c\":1}\n"), "{text}");
    }

    #[test]
    fn a_target_is_any_text() {
        let text = text_of(|| tracing::info!(target: "a \"target\"\\", "it happened"));
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["target"], "a \"target\"\\");
    }

    #[test]
    fn what_happens_outside_of_spans_is_written_too() {
        let text = text_of(|| tracing::error!("no span"));
        assert!(text.ends_with("\"message\":\"no span\"}\n"), "{text}");
    }
}
