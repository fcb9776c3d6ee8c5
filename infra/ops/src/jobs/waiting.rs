//! Waits for what was submitted.

use std::time::Duration;

use anyhow::Result;
use comfy_table::Cell;
use serde_json::json;
use tokio::time::Instant;

use super::calls::Calls;
use super::draft::with_fields;
use super::follow::follow;
use super::results::{cells, close_table, document};
use super::sending::Sent;
use super::watch::ending;
use crate::ending::Ending;
use crate::output::{Style, print, with_ids};
use crate::progress::Progress;

/// Jobs that are followed at the same time.
const WINDOW: usize = 500;

/// Follows jobs until they have ended or the time is over, and shows them.
pub(super) async fn wait(
    calls: &Calls,
    sent: &[Sent],
    seconds: Option<u64>,
    style: Style,
    progress: Progress,
) -> Result<Ending> {
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let step = progress.step_of("Waiting for them", sent.len() as u64);
    let (mut ended, mut succeeded, mut all) = (0, 0, Ending::Done);
    for window in sent.chunks(WINDOW) {
        let ids: Vec<_> = window.iter().map(|sent| sent.id).collect();
        let jobs = follow(calls, None, &ids, until, |position, known| {
            if known.is_final() {
                ended += 1;
                succeeded += u64::from(known.succeeded());
                step.reached(ended);
                step.at(format!("{ended} of {} ended", sent.len()));
            }
            match window.get(position) {
                Some(Sent { line, id }) if style == Style::Json && known.is_final() => {
                    let document = with_fields(&document(*id, known)?, &[("line", json!(line))]);
                    step.aside(|| print(&document))
                }
                Some(_) | None => Ok(()),
            }
        });
        let jobs = jobs.await?;
        let mut table =
            with_ids(1, close_table(["Line", "Job", "State", "Attempt", "What came of it"]));
        for (Sent { line, id }, known) in std::iter::zip(window, &jobs) {
            let row = cells(style, *id, known.as_ref());
            table.add_row(std::iter::once(Cell::new(line)).chain(row));
        }
        if style != Style::Json {
            step.aside(|| print(&table.to_string()))?;
        }
        if ending(&jobs) == Ending::NotAllSucceeded {
            all = Ending::NotAllSucceeded;
        }
    }
    let failed = ended - succeeded;
    let left = sent.len() as u64 - ended;
    let told = format!("{succeeded} succeeded, {failed} did not, {left} had no end in time");
    step.ended(all == Ending::Done, &told);
    Ok(all)
}
