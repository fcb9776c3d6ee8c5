//! One handler per kind of job.

#[cfg(feature = "probe")]
pub mod probe;
mod report;

use serde::Serialize;
use shared::Job;

use crate::handler::{JobContext, JobError};

/// Runs the handler of `job`; its result as JSON text, if it has such a form.
///
/// # Errors
///
/// What the handler said, see [`crate::handler`].
pub async fn run(job: &Job, context: &JobContext) -> Result<Option<String>, JobError> {
    Ok(match job {
        #[cfg(feature = "probe")]
        Job::Probe(probe) => to_json(&probe::run(probe, context).await?),
        Job::Report(report) => to_json(&report::run(report, context).await?),
    })
}

/// The work is done, so a result that cannot be written is no failure.
fn to_json(result: &impl Serialize) -> Option<String> {
    serde_json::to_string(result)
        .inspect_err(|error| tracing::error!(%error, "the result is no JSON, and is not kept"))
        .ok()
}
