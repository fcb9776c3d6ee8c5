//! What became of the jobs of a request, for the metrics.

use shared::metrics::{Dimensions, Measurements, Metric};

/// Counts of jobs that a request asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Accepted, and not known before.
    pub(crate) accepted: usize,
    /// Known before, under the same key or intent.
    pub(crate) duplicates: usize,
    /// Refused, for whatever reason.
    pub(crate) rejected: usize,
}

impl Tally {
    /// One job that was accepted.
    pub(crate) const fn of_one(is_new: bool) -> Self {
        let accepted = is_new as usize;
        Self { accepted, duplicates: 1 - accepted, rejected: 0 }
    }

    /// The counts as metrics; none where nobody asked for a job.
    pub(crate) fn measure(self) -> Measurements {
        let mut measured = Measurements::default();
        for (metric, count) in [
            (Metric::JobsAccepted, self.accepted),
            (Metric::DuplicatesAtTheDoor, self.duplicates),
            (Metric::JobsRejected, self.rejected),
        ] {
            if count > 0 {
                measured.count(metric, Dimensions::None, count);
            }
        }
        measured
    }
}
