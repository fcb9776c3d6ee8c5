//! What a redrive does about one letter.

use std::time::Duration;

use shared::{JobEntry, State, Timestamp};

use super::Plan;
use crate::dlq::found::Found;

/// How far a clock may be off. AWS refuses requests that are signed by a clock
/// that is off by more than five minutes.
///
/// Source: AWS Signature Version 4.
pub(crate) const CLOCKS_DIFFER_BY: Duration = Duration::from_mins(5);

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing, and this is why.
    Refuse(String),
    /// Send it.
    Send,
    /// Set the entry back to `queued`, if it is still as it was read, then send it.
    SetBackAndSend,
}

/// Decides by the letter, and by its job's entry as it was just read.
pub(super) fn step(found: &Found, plan: &Plan, now: Timestamp) -> Step {
    let age = now.since(found.created_at());
    if found.entry.is_none() && found.job_id().is_some() && age > plan.entry_ttl && !plan.force {
        let days = plan.entry_ttl.as_secs() / 86_400;
        return Step::Refuse(format!(
            "its job is older than the {days} days that entries live, so nobody knows whether it \
             succeeded: --force sends it all the same"
        ));
    }
    // An entry of another payload, or none, is not ours to change.
    match found.own_entry() {
        Some(entry) if must_be_set_back(entry, found, now) => Step::SetBackAndSend,
        _ => Step::Send,
    }
}

/// Whether the claim would refuse the job although a person wants it to run.
fn must_be_set_back(entry: &JobEntry, found: &Found, now: Timestamp) -> bool {
    match entry.state {
        State::Held => true,
        // Soon after the failure, the message would count as a copy that nobody
        // asked for.
        State::Failed => found.may_be_held(),
        // Else the claim would hold it now, and a second redrive be needed.
        State::Running => found.may_be_held() && is_interrupted(entry, now),
        State::Queued | State::Succeeded | State::Cancelled => false,
    }
}

/// Whether nobody can be running the job any more, by whichever clock.
pub(crate) fn is_interrupted(entry: &JobEntry, now: Timestamp) -> bool {
    entry.state == State::Running
        && entry.lease_until.is_some_and(|until| until + CLOCKS_DIFFER_BY < now)
}

#[cfg(test)]
mod tests {
    use shared::Fingerprint;

    use super::*;
    use crate::dlq::filter::Filter;
    use crate::dlq::found::tests::{DAY, ID, NOW, email, entry, letter, report};

    fn plan(force: bool) -> Plan {
        Plan { filter: Filter::default(), rate: 1, entry_ttl: 30 * DAY, force }
    }

    fn of(body: &str, entry: Option<JobEntry>) -> Step {
        let found = Found { entry, ..Found::new(letter(body, &[])) };
        step(&found, &plan(false), NOW)
    }

    #[test]
    fn only_what_the_claim_would_refuse_is_set_back() {
        let unknown = format!(r#"{{"id":"{ID}","kind":"new","payload":{{}},"fingerprint":"f"}}"#);
        for (body, failed) in [
            (report(), Step::Send),
            (email(), Step::SetBackAndSend),
            (unknown, Step::SetBackAndSend),
        ] {
            assert_eq!(of(&body, Some(entry(State::Held))), Step::SetBackAndSend, "{body}");
            assert_eq!(of(&body, Some(entry(State::Failed))), failed, "{body}");
            for state in [State::Queued, State::Running, State::Succeeded, State::Cancelled] {
                assert_eq!(of(&body, Some(entry(state))), Step::Send, "{body} {state}");
            }
            assert_eq!(of(&body, None), Step::Send);
        }
        assert_eq!(of("poison", None), Step::Send);
    }

    #[test]
    fn an_attempt_counts_as_interrupted_when_every_clock_says_so() {
        let until = |moment| JobEntry { lease_until: Some(moment), ..entry(State::Running) };
        let long_over = until(NOW - CLOCKS_DIFFER_BY - Duration::from_millis(1));
        assert_eq!(of(&email(), Some(long_over.clone())), Step::SetBackAndSend);
        assert_eq!(of(&email(), Some(until(NOW - CLOCKS_DIFFER_BY))), Step::Send);
        // Any copy of it may claim it.
        assert_eq!(of(&report(), Some(long_over)), Step::Send);
    }

    #[test]
    fn the_entry_of_another_payload_is_left_alone() {
        let others = JobEntry { fingerprint: Fingerprint::from_text("g"), ..entry(State::Held) };
        assert_eq!(of(&report(), Some(others.clone())), Step::Send);
        // Where the intent is the identity, any payload means the same job.
        assert_eq!(of(&email(), Some(others)), Step::SetBackAndSend);
    }

    #[test]
    fn a_job_that_may_have_succeeded_long_ago_is_sent_only_by_force() {
        let accepted_at = |moment: Timestamp| {
            let created = format!(r#""created_at":{},"id""#, moment.as_millis());
            Found::new(letter(&report().replacen("\"id\"", &created, 1), &[]))
        };
        let old = accepted_at(NOW - 30 * DAY - Duration::from_millis(1));
        assert!(matches!(step(&old, &plan(false), NOW), Step::Refuse(_)));
        assert_eq!(step(&old, &plan(true), NOW), Step::Send);
        assert_eq!(step(&accepted_at(NOW - 30 * DAY), &plan(false), NOW), Step::Send);
        // Its entry lives, since it was claimed later, and tells what happened.
        let known = Found { entry: Some(entry(State::Failed)), ..old };
        assert_eq!(step(&known, &plan(false), NOW), Step::Send);
    }
}
