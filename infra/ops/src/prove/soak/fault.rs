//! What the proxy does to calls, and how often.

/// What can happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// It arrives late, perhaps when its caller has given up.
    Delayed,
    /// The connection ends before it arrives.
    LostCall,
    /// It takes effect, and the connection ends before its answer.
    LostAnswer,
    /// It arrives twice; the caller hears the second answer.
    CalledTwice,
    /// The service fails before it takes effect.
    Failed,
    /// The service fails after it took effect.
    FailedAfterEffect,
    /// The service says that it is not there.
    Unavailable,
    /// The service says that it has too much to do.
    Throttled,
}

impl Fault {
    /// Of so many calls …
    pub(super) const OUT_OF: u32 = 1_000;

    /// … so many meet this. Eight percent fail, so that of the three attempts
    /// that the SDK makes, all fail for a few jobs out of ten thousand.
    const SHARES: [(Self, u32); 8] = [
        (Self::Delayed, 30),
        (Self::LostCall, 15),
        (Self::LostAnswer, 15),
        (Self::CalledTwice, 20),
        (Self::Failed, 10),
        (Self::FailedAfterEffect, 10),
        (Self::Unavailable, 10),
        (Self::Throttled, 10),
    ];

    /// The fault that a throw of `0..OUT_OF` stands for.
    pub(super) fn of(mut throw: u32) -> Option<Self> {
        for (fault, share) in Self::SHARES {
            match throw.checked_sub(share) {
                Some(rest) => throw = rest,
                None => return Some(fault),
            }
        }
        None
    }

    /// What the table calls it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::LostCall => "lost before it arrived",
            Self::LostAnswer => "answer lost",
            Self::CalledTwice => "arrived twice",
            Self::Failed => "500",
            Self::FailedAfterEffect => "500 after its effect",
            Self::Unavailable => "503",
            Self::Throttled => "throttled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_share() {
        for (fault, share) in Fault::SHARES {
            let thrown = (0..Fault::OUT_OF).filter(|throw| Fault::of(*throw) == Some(fault));
            assert_eq!(thrown.count(), share as usize, "{fault:?}");
        }
        assert_eq!(Fault::of(Fault::OUT_OF - 1), None);
    }
}
