//! How a command ended, as its exit code tells.

use std::process::ExitCode;

/// How a command ended that did what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Done,
    /// It waited for jobs, and not all of them succeeded.
    NotAllSucceeded,
    /// Early, since somebody wanted it to: what a shell reports for Ctrl-C.
    Interrupted,
    /// Early, since nobody reads what it says: what a shell reports for a closed pipe.
    NobodyReads,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::SUCCESS,
            Ending::NotAllSucceeded => Self::from(3),
            Ending::Interrupted => Self::from(130),
            Ending::NobodyReads => Self::from(141),
        }
    }
}
