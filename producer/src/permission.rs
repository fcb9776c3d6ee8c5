//! Who may see and who may cancel a job.

use shared::{Job, JobEntry, Principal, Timestamp};

/// What a caller may do with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Everything: the caller asked for it, or asked first.
    Own,
    /// See it: its kind belongs to the deployment.
    Read,
    /// Nothing, not even know that it is there.
    None,
}

impl Permission {
    /// What `caller` may do with the job of `entry` at `now`. An expired job
    /// is nobody's.
    pub(crate) fn of(caller: &Principal, entry: &JobEntry, now: Timestamp) -> Self {
        let is_known = *caller != Principal::anonymous();
        if entry.is_expired(now) {
            Self::None
        } else if *caller == entry.principal {
            Self::Own
        } else if is_known && Job::is_deployments(&entry.kind) {
            Self::Read
        } else {
            Self::None
        }
    }
}
