//! How long ago something was, in the two largest units.

/// Such as `3 d 4 h`, of seconds.
#[must_use]
pub(super) fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} m"),
        (0, hours, minutes) => format!("{hours} h {} m", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_its_two_largest_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 m"),
            (3_599, "59 m"),
            (3_660, "1 h 1 m"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }
}
