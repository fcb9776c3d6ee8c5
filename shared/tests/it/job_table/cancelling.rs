//! Cancelling, on each table.

use std::time::Duration;

use shared::table::{Again, Cancellation, Written};
use shared::{JobEntry, JobTable, Principal, State};

use super::{NOW, TTL, before, claimable, entry, running, set};

on_all_tables!(
    cancel_what_nobody_has_in_hand,
    cancel_only_what_is_there_and_the_principals,
    let_either_a_claim_or_a_cancellation_win,
);

async fn cancel_what_nobody_has_in_hand(table: &impl JobTable) {
    let later = NOW + Duration::from_secs(3);
    let lapsed = |last_attempt| JobEntry { last_attempt, ..running(1, NOW) };
    let released = JobEntry {
        error: Some("busy".to_owned()),
        not_before: Some(later + TTL),
        lease_until: None,
        ..JobEntry { state: State::Queued, ..lapsed(false) }
    };
    for (old, succeeds) in [
        (entry(State::Queued), true),
        (released, true),
        (lapsed(false), true),
        (lapsed(true), false),
        (JobEntry { last_attempt: false, ..running(1, later) }, false),
        (entry(State::Succeeded), false),
        (entry(State::Failed), false),
        (entry(State::Held), false),
        (entry(State::Cancelled), false),
    ] {
        set(table, &old).await;
        let cancelled = JobEntry {
            state: State::Cancelled,
            updated_at: later,
            lease_until: None,
            not_before: None,
            error: None,
            ..old.clone()
        };
        let there = if succeeds { &cancelled } else { &old };
        let entry = Box::new(there.clone());
        let expected =
            if succeeds { Cancellation::Done(entry) } else { Cancellation::Refused(Some(entry)) };
        let answer = table.cancel(old.id, &Principal::anonymous(), later).await.unwrap();
        assert_eq!(answer, expected, "{old:?}");
        assert_eq!(table.get(old.id).await.unwrap().as_ref(), Some(there));
    }
}

async fn cancel_only_what_is_there_and_the_principals(table: &impl JobTable) {
    let (id, caller) = (entry(State::Queued).id, Principal::anonymous());
    let answer = table.cancel(id, &caller, NOW).await.unwrap();
    assert_eq!(answer, Cancellation::Refused(None));
    assert_eq!(table.get(id).await.unwrap(), None);
    for old in [
        JobEntry { principal: Principal::jwt("i", "ann"), ..entry(State::Queued) },
        JobEntry { expires_at: before(500), ..entry(State::Queued) },
        JobEntry { expires_at: before(5_500), ..entry(State::Queued) },
    ] {
        set(table, &old).await;
        let answer = table.cancel(id, &caller, NOW).await.unwrap();
        assert_eq!(answer, Cancellation::Refused(Some(Box::new(old.clone()))));
        assert_eq!(table.get(id).await.unwrap(), Some(old));
    }
}

async fn let_either_a_claim_or_a_cancellation_win(table: &impl JobTable) {
    let (id, caller) = (entry(State::Queued).id, Principal::anonymous());
    let (claim, condition) = (running(1, NOW + TTL), claimable(Some("f"), Again::Any));
    for _ in 0..10 {
        set(table, &entry(State::Queued)).await;
        let (claimed, cancelled) =
            tokio::join!(table.put(&claim, &condition, NOW), table.cancel(id, &caller, NOW));
        let (claimed, cancelled) = (claimed.unwrap(), cancelled.unwrap());
        let there = table.get(id).await.unwrap().unwrap();
        match claimed {
            Written::Yes => {
                assert_eq!(cancelled, Cancellation::Refused(Some(Box::new(claim.clone()))));
                assert_eq!(there, claim);
            }
            Written::No(old) => {
                assert_eq!(old.unwrap().state, State::Cancelled);
                assert_eq!(cancelled, Cancellation::Done(Box::new(there)));
            }
        }
    }
}
