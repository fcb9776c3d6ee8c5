//! One handler per kind of job.

#[cfg(feature = "probe")]
pub mod probe;
mod report;

use serde::Serialize;
use shared::Job;

use crate::handler::{JobContext, JobError};

/// Runs the handler of `job`; its result as JSON text.
///
/// # Errors
///
/// What the handler said, see [`crate::handler`].
pub async fn run(job: &Job, context: &JobContext) -> Result<String, JobError> {
    match job {
        #[cfg(feature = "probe")]
        Job::Probe(probe) => to_json(&probe::run(probe, context).await?),
        Job::Report(report) => to_json(&report::run(report, context).await?),
    }
}

/// A result that is no JSON would be none after a retry either, and the work
/// is done: hence permanent.
fn to_json(result: &impl Serialize) -> Result<String, JobError> {
    serde_json::to_string(result).map_err(JobError::permanent)
}
