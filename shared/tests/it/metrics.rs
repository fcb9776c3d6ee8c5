//! Metrics are written as CloudWatch reads them, and documented as they are.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shared::Timestamp;
use shared::emf::published;
use shared::metrics::{Dimensions, Measurements, Metric, Metrics};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

#[test]
fn the_first_write_of_a_process_is_its_cold_start() {
    let output = Output::default();
    let metrics = Metrics::new("N", "consumer", output.clone());
    assert!(metrics.is_cold_start());
    metrics.write(Measurements::default(), NOW);
    let expected = [("ColdStarts Function=consumer".to_owned(), vec![1.0])];
    assert_eq!(published(&output.take(), "N"), Ok(expected.into()));
    assert!(!metrics.is_cold_start());
    metrics.write(Measurements::default(), NOW);
    assert_eq!(output.take(), "");
}

#[test]
fn more_values_than_a_line_takes_are_several_lines() {
    let output = Output::default();
    let metrics = Metrics::new("N", "consumer", output.clone());
    let mut measured = Measurements::default();
    for millis in 0..250 {
        let duration = Duration::from_millis(millis / 2 * 2);
        measured.time(Metric::JobLatency, Dimensions::Kind("k"), duration);
        measured.count(Metric::JobsSucceeded, Dimensions::Kind("k"), 1);
    }
    metrics.write(measured, NOW);
    let text = output.take();
    assert_eq!(text.lines().filter(|line| line.contains("JobLatency")).count(), 2, "{text}");
    let published = published(&text, "N").unwrap();
    for dimensions in ["", " Kind=k"] {
        assert_eq!(published[&format!("JobsSucceeded{dimensions}")], [250.0]);
        let latencies = &published[&format!("JobLatency{dimensions}")];
        assert_eq!((latencies.len(), latencies[249]), (250, 248.0));
    }
}

/// The names in the README's table of metrics.
fn documented() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let table = readme.lines().skip_while(|line| !line.starts_with("| metric |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    cells
        .flat_map(|cell| {
            cell.split(',').map(|name| name.trim().replace('`', "")).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_is_there() {
    let names: BTreeSet<_> = Metric::ALL.iter().map(|metric| metric.name().to_owned()).collect();
    assert_eq!(names, documented());
}
