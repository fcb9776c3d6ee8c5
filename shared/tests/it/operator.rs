//! What an operator asks of the job table, of DynamoDB.

use std::time::Duration;

use shared::table::{Cause, DynamoJobTable, PutIf, Settlement, Verdict, Written};
use shared::{Fingerprint, JobEntry, JobId, JobTable, Principal, State, Timestamp};
use uuid::Uuid;

use crate::job_table::dynamodb;

const TTL: Duration = Duration::from_hours(24);
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LATER: Timestamp = Timestamp::from_millis(1_800_000_009_000);

fn entry(number: u128, state: State) -> JobEntry {
    let (id, principal) = (JobId::new(Uuid::from_u128(number)), Principal::anonymous());
    let fingerprint = Fingerprint::from_text("f");
    JobEntry { state, ..JobEntry::queued(id, "report", principal, fingerprint, NOW, TTL) }
}

/// An entry of a job that was claimed.
fn claimed(state: State) -> JobEntry {
    JobEntry {
        attempt: 5,
        last_attempt: true,
        lease_token: Some(Uuid::from_u128(1)),
        ..entry(7, state)
    }
}

fn cause() -> Cause {
    Cause { reason: "interrupted".to_owned(), error: "nobody knows".to_owned() }
}

/// Puts `entry` there, whatever was there before.
async fn set(table: &DynamoJobTable, entry: &JobEntry) {
    let long_after = Timestamp::from_millis(u64::MAX / 2);
    assert_eq!(table.put(entry, &PutIf::Absent, long_after).await.unwrap(), Written::Yes);
}

#[tokio::test]
async fn entries_are_read_together_and_what_is_missing_is_left_out() {
    let table = dynamodb().await;
    let mut expected: Vec<_> = (1..=120).map(|number| entry(number, State::Failed)).collect();
    for entry in &expected {
        set(&table, entry).await;
    }
    // 150 ids are more than one call takes; one is named twice.
    let ids = (1..=150).chain([7]).map(|number| JobId::new(Uuid::from_u128(number)));
    let mut found = table.get_all(&ids.collect::<Vec<_>>()).await.unwrap();
    found.sort_by_key(|entry| entry.id);
    expected.sort_by_key(|entry| entry.id);
    assert_eq!(found, expected);
    assert_eq!(table.get_all(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn a_verdict_replaces_what_the_last_attempt_left() {
    let table = dynamodb().await;
    let old = |state| JobEntry {
        reason: Some("permanent".to_owned()),
        error: Some("no".to_owned()),
        not_before: Some(NOW),
        lease_until: Some(NOW),
        ..claimed(state)
    };
    let ruled = |state| JobEntry { updated_at: LATER, ..claimed(state) };
    let with_cause = |state| JobEntry {
        reason: Some(cause().reason),
        error: Some(cause().error),
        ..ruled(state)
    };
    for (before, verdict, after) in [
        (State::Held, Verdict::Again, ruled(State::Queued)),
        (State::Failed, Verdict::Again, ruled(State::Queued)),
        (State::Queued, Verdict::Failed(cause()), with_cause(State::Failed)),
        (State::Running, Verdict::Held(cause()), with_cause(State::Held)),
    ] {
        let seen = old(before);
        set(&table, &seen).await;
        assert_eq!(table.rule(&seen, &verdict, LATER).await.unwrap(), Written::Yes);
        assert_eq!(table.get(seen.id).await.unwrap(), Some(after));
    }
}

#[tokio::test]
async fn a_verdict_on_an_entry_that_has_changed_is_not_written() {
    let table = dynamodb().await;
    let seen = claimed(State::Held);
    for now_there in [
        JobEntry { state: State::Queued, ..seen.clone() },
        JobEntry { updated_at: LATER, ..seen.clone() },
        JobEntry { lease_token: Some(Uuid::from_u128(2)), ..seen.clone() },
        JobEntry { lease_token: None, ..seen.clone() },
    ] {
        set(&table, &now_there).await;
        let answer = table.rule(&seen, &Verdict::Again, LATER).await.unwrap();
        assert_eq!(answer, Written::No(Some(Box::new(now_there.clone()))));
        assert_eq!(table.get(seen.id).await.unwrap(), Some(now_there));
    }
    let gone = entry(8, State::Queued);
    let answer = table.rule(&gone, &Verdict::Failed(cause()), LATER).await.unwrap();
    assert_eq!(answer, Written::No(None));
    assert_eq!(table.get(gone.id).await.unwrap(), None);
}

#[tokio::test]
async fn a_verdict_and_an_owner_that_comes_back_cannot_both_win() {
    let table = dynamodb().await;
    let seen = claimed(State::Running);
    let complete = Settlement::Complete { result: None, result_omitted: false };
    for _ in 0..10 {
        set(&table, &seen).await;
        let verdict = Verdict::Failed(cause());
        let (ruled, settled) = tokio::join!(
            table.rule(&seen, &verdict, LATER),
            table.settle(seen.id, Uuid::from_u128(1), &complete, LATER),
        );
        assert!(
            (ruled.unwrap() == Written::Yes) != (settled.unwrap() == Written::Yes),
            "both wrote, or neither"
        );
    }
}
