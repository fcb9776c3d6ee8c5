//! Metrics: lines of CloudWatch's embedded metric format (EMF) on stdout.
//!
//! CloudWatch Logs makes metrics of them, so measuring costs no call to AWS. An
//! invocation collects what it measured and writes it once, at its end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use metrique_writer_core::config::EntryDimensions;
use metrique_writer_core::format::Format;
use metrique_writer_core::unit::NegativeScale;
use metrique_writer_core::{
    Entry, EntryWriter, MetricFlags, Observation, Unit, Value, ValueWriter,
};
use metrique_writer_format_emf::Emf;

use crate::sources::{Timestamp, whole_millis};

/// The namespace where the environment names none.
pub const DEFAULT_NAMESPACE: &str = "Relevo";

/// Values of one metric in one line.
///
/// Source: the embedded metric format's specification, "target members".
const MAX_VALUES: usize = 100;

/// Makes an enum of the metrics, so that each is named once.
macro_rules! metrics {
    ($($metric:ident: $unit:expr),+ $(,)?) => {
        /// Everything that is measured. The README says what each means; alarms
        /// and dashboards know them by these names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the README's table is where people look")]
        pub enum Metric { $($metric),+ }

        impl Metric {
            /// All metrics.
            pub const ALL: &[Self] = &[$(Self::$metric),+];

            /// The metric's name in CloudWatch.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$metric => stringify!($metric)),+ }
            }

            const fn unit(self) -> Unit {
                match self { $(Self::$metric => $unit),+ }
            }
        }
    };
}

const MILLISECONDS: Unit = Unit::Second(NegativeScale::Milli);

metrics! {
    JobsAccepted: Unit::Count,
    JobsRejected: Unit::Count,
    DuplicatesAtTheDoor: Unit::Count,
    JobsSucceeded: Unit::Count,
    JobsRetried: Unit::Count,
    JobsDeadLettered: Unit::Count,
    Duplicates: Unit::Count,
    LeasesLost: Unit::Count,
    StoppedForTime: Unit::Count,
    JobLatency: MILLISECONDS,
    HandlerDuration: MILLISECONDS,
    QueueWait: MILLISECONDS,
    BatchSize: Unit::Count,
    BatchItemFailures: Unit::Count,
    ColdStarts: Unit::Count,
}

/// What tells measurements of one metric apart. Each combination of values is
/// a metric that AWS charges for, so they are few and fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimensions {
    /// Nothing.
    None,
    /// The kind of job; the metric is there without it as well, for all kinds.
    Kind(&'static str),
    /// The kind of job, and why it is a dead letter.
    KindAndReason(&'static str, &'static str),
    /// `producer` or `consumer`.
    Function(&'static str),
}

impl Dimensions {
    fn values(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::None => Vec::new(),
            Self::Kind(kind) => vec![("Kind", kind)],
            Self::KindAndReason(kind, reason) => vec![("Kind", kind), ("Reason", reason)],
            Self::Function(function) => vec![("Function", function)],
        }
    }

    fn sets(self) -> EntryDimensions {
        let names = |names: &'static [Cow<'static, str>]| Cow::Borrowed(names);
        EntryDimensions::new(match self {
            Self::None => Cow::Owned(vec![names(&[])]),
            Self::Kind(_) => Cow::Owned(vec![names(&[]), names(&[Cow::Borrowed("Kind")])]),
            Self::KindAndReason(..) => {
                Cow::Owned(vec![names(&[Cow::Borrowed("Kind"), Cow::Borrowed("Reason")])])
            }
            Self::Function(_) => Cow::Owned(vec![names(&[Cow::Borrowed("Function")])]),
        })
    }
}

/// What an invocation measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measurements(BTreeMap<Dimensions, BTreeMap<Metric, Vec<u64>>>);

impl Measurements {
    /// Counts `count` more.
    pub fn count(&mut self, metric: Metric, dimensions: Dimensions, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let values = self.0.entry(dimensions).or_default().entry(metric).or_default();
        match values.first_mut() {
            Some(sum) => *sum = sum.saturating_add(count),
            None => values.push(count),
        }
    }

    /// Adds one duration, in whole milliseconds.
    pub fn time(&mut self, metric: Metric, dimensions: Dimensions, duration: Duration) {
        let values = self.0.entry(dimensions).or_default().entry(metric).or_default();
        values.push(whole_millis(duration));
    }
}

/// Writes what was measured.
pub struct Metrics {
    function: &'static str,
    state: Mutex<State>,
}

struct State {
    emf: Emf,
    output: Box<dyn Write + Send>,
    /// Whether nothing was written yet.
    is_cold: bool,
}

impl Metrics {
    /// Writes the metrics of `function` to `output`.
    #[must_use]
    pub fn new(
        namespace: &str,
        function: &'static str,
        output: impl Write + Send + 'static,
    ) -> Self {
        let emf = Emf::builder(namespace.to_owned(), vec![Vec::new()]).build();
        let state = State { emf, output: Box::new(output), is_cold: true };
        Self { function, state: Mutex::new(state) }
    }

    /// Writes nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::new(DEFAULT_NAMESPACE, "", std::io::sink())
    }

    /// Whether this invocation is the first of its process.
    #[must_use]
    pub fn is_cold_start(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_cold
    }

    /// Writes what an invocation measured; at its end, since the first write
    /// ends the cold start.
    pub fn write(&self, mut measurements: Measurements, now: Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_cold) {
            measurements.count(Metric::ColdStarts, Dimensions::Function(self.function), 1);
        }
        let mut lines = Vec::new();
        for (dimensions, metrics) in measurements.0 {
            for line in lines_of(dimensions, metrics, now) {
                if let Err(error) = state.emf.format(&line, &mut lines) {
                    tracing::error!(%error, "metrics could not be written");
                }
            }
        }
        // One write for all lines. If nobody reads them, that is no reason to
        // fail jobs.
        let _ = state.output.write_all(&lines).and_then(|()| state.output.flush());
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("function", &self.function).finish_non_exhaustive()
    }
}

/// What one line of the log says.
struct Line {
    dimensions: Dimensions,
    sets: EntryDimensions,
    metrics: Vec<(Metric, Values)>,
    now: Timestamp,
}

/// The values of a metric, with how often each was measured.
struct Values(Unit, Vec<(u64, u64)>);

/// As many lines as the longest list of values needs.
fn lines_of(
    dimensions: Dimensions,
    metrics: BTreeMap<Metric, Vec<u64>>,
    now: Timestamp,
) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (metric, mut values) in metrics {
        values.sort_unstable();
        let equal = values.chunk_by(PartialEq::eq);
        let counted: Vec<_> = equal
            .filter_map(|equal| Some((*equal.first()?, u64::try_from(equal.len()).ok()?)))
            .collect();
        for (position, part) in counted.chunks(MAX_VALUES).enumerate() {
            if lines.len() <= position {
                let (sets, metrics) = (dimensions.sets(), Vec::new());
                lines.push(Line { dimensions, sets, metrics, now });
            }
            if let Some(line) = lines.get_mut(position) {
                line.metrics.push((metric, Values(metric.unit(), part.to_vec())));
            }
        }
    }
    lines
}

impl Entry for Line {
    fn write<'a>(&'a self, writer: &mut impl EntryWriter<'a>) {
        writer.config(&self.sets);
        writer.timestamp(UNIX_EPOCH + Duration::from_millis(self.now.as_millis()));
        for (name, value) in self.dimensions.values() {
            writer.value(name, value);
        }
        for (metric, values) in &self.metrics {
            writer.value(metric.name(), values);
        }
    }
}

impl Value for Values {
    fn write(&self, writer: impl ValueWriter) {
        let observations = self.1.iter().map(|(value, times)| match times {
            1 => Observation::Unsigned(*value),
            #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ms")]
            _ => Observation::Repeated { total: (value * times) as f64, occurrences: *times },
        });
        writer.metric(observations, self.0, [], MetricFlags::empty());
    }
}
