//! The demo's table.

use std::time::Duration;

use anyhow::Result;
use comfy_table::Table;

use crate::output;

/// One story: what was sent, and what came of it.
#[derive(Debug)]
pub struct Row {
    title: &'static str,
    outcome: Result<(String, Duration), String>,
}

impl Row {
    /// A story that was told, with the time it took; or what was not as promised.
    #[must_use]
    pub fn new(title: &'static str, story: Result<(String, Duration)>) -> Self {
        Self { title, outcome: story.map_err(|error| format!("{error:#}")) }
    }

    /// What was not as promised, if anything.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let error = self.outcome.as_ref().err()?;
        Some(format!("{}: {error}", self.title))
    }
}

/// The stories as a table for a terminal.
#[must_use]
pub fn table(rows: &[Row]) -> Table {
    let mut table = output::table(["", "What was sent", "What came of it", "Took"]);
    for row in rows {
        match &row.outcome {
            Ok((told, took)) => {
                table.add_row(["✓", row.title, told, &format!("{} ms", took.as_millis())])
            }
            Err(error) => table.add_row(["✗", row.title, error, ""]),
        };
    }
    table
}
