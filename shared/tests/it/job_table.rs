//! All job tables answer alike: DynamoDB, spoken to through the real SDK, write
//! by write or in groups, and the one in memory that other tests lean on.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use aws_types::SdkConfig;
use dynoxide::{Database, server};
use shared::aws::{Access, CallLimits, configure};
use shared::entry::Failure;
use shared::table::{Again, DynamoJobTable, PutIf, Settlement, TableError, Written};
use shared::{Fingerprint, JobEntry, JobId, JobTable, Principal, State, Timestamp};
use tokio::net::TcpListener;
use uuid::Uuid;

const TTL: Duration = Duration::from_hours(24);
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_500);

/// A table of a DynamoDB server in this process.
pub(crate) async fn dynamodb() -> DynamoJobTable {
    let config = dynamodb_server().await;
    create_table(&config).await;
    DynamoJobTable::new(&config, "jobs")
}

async fn dynamodb_server() -> SdkConfig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let access = Access::for_tests(&listener.local_addr().unwrap().to_string());
    tokio::spawn(server::serve_on(listener, Database::memory().unwrap()));
    let limit = Duration::from_secs(30);
    configure(access, CallLimits { attempt: limit, operation: limit })
}

async fn create_table(config: &SdkConfig) {
    aws_sdk_dynamodb::Client::new(config)
        .create_table()
        .table_name("jobs")
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(
            KeySchemaElement::builder()
                .attribute_name("job_id")
                .key_type(KeyType::Hash)
                .build()
                .unwrap(),
        )
        .attribute_definitions(
            AttributeDefinition::builder()
                .attribute_name("job_id")
                .attribute_type(ScalarAttributeType::S)
                .build()
                .unwrap(),
        )
        .send()
        .await
        .unwrap();
}

/// Runs a test's body on each table.
macro_rules! on_all_tables {
    ($($name:ident),+ $(,)?) => {
        mod dynamodb_does {
            $(#[tokio::test] async fn $name() { super::$name(&crate::job_table::dynamodb().await).await; })+
        }
        mod dynamodb_in_groups_does {
            $(#[tokio::test] async fn $name() {
                let table = crate::grouped::Watched::new(crate::job_table::dynamodb().await);
                super::$name(&crate::grouped::InCompany::new(table)).await;
            })+
        }
        mod memory_does {
            $(#[tokio::test] async fn $name() {
                super::$name(&shared::table::InMemoryJobTable::default()).await;
            })+
        }
    };
}

mod cancelling;

on_all_tables!(
    read_back_what_was_written,
    keep_an_entry_that_is_there,
    treat_an_expired_entry_as_absent,
    let_only_claimable_entries_be_claimed,
    leave_held_kinds_alone_after_their_lease,
    refuse_a_claim_that_arrives_after_its_own_end,
    let_any_payload_claim_where_the_intent_is_the_identity,
    fail_a_job_without_a_claim_only_before_the_first,
    settle_only_what_is_running_under_the_token,
    replace_what_the_last_attempt_left,
);

fn entry(state: State) -> JobEntry {
    JobEntry {
        state,
        expires_at: Timestamp::from_millis(NOW.as_seconds() * 1000) + TTL,
        ..JobEntry::queued(
            JobId::new(Uuid::from_u128(7)),
            "report",
            Principal::anonymous(),
            Fingerprint::from_text("f"),
            NOW,
            TTL,
        )
    }
}

fn running(token: u128, until: Timestamp) -> JobEntry {
    JobEntry {
        attempt: 2,
        last_attempt: true,
        lease_token: Some(Uuid::from_u128(token)),
        lease_until: Some(until),
        ..entry(State::Running)
    }
}

fn before(millis: u64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() - millis)
}

fn claimable(fingerprint: Option<&str>, again: Again) -> PutIf {
    PutIf::Claimable { fingerprint: fingerprint.map(Fingerprint::from_text), again }
}

fn failure() -> Failure {
    Failure { reason: "permanent", error: "no".to_owned() }
}

/// Puts `old` there, whatever was there before.
async fn set(table: &impl JobTable, old: &JobEntry) {
    let long_after = Timestamp::from_millis(u64::MAX / 2);
    assert_eq!(table.put(old, &PutIf::Absent, long_after).await.unwrap(), Written::Yes);
}

/// Tries to write over `old`, and checks both the answer and what is there then.
async fn check_put(table: &impl JobTable, old: &JobEntry, condition: &PutIf, succeeds: bool) {
    set(table, old).await;
    let new = JobEntry { kind: "new".to_owned(), ..running(99, NOW + TTL) };
    let answer = table.put(&new, condition, NOW).await.unwrap();
    let (expected, there) = if succeeds {
        (Written::Yes, &new)
    } else {
        (Written::No(Some(Box::new(old.clone()))), old)
    };
    assert_eq!(answer, expected, "{condition:?} over {old:?}");
    assert_eq!(table.get(old.id).await.unwrap().as_ref(), Some(there));
}

async fn read_back_what_was_written(table: &impl JobTable) {
    assert_eq!(table.get(entry(State::Queued).id).await.unwrap(), None);
    let full = JobEntry {
        not_before: Some(NOW),
        reason: Some("permanent".to_owned()),
        error: Some("no".to_owned()),
        result: Some(r#"{"a":1.0}"#.to_owned()),
        result_omitted: true,
        ..running(1, NOW)
    };
    for written in [full, entry(State::Queued)] {
        set(table, &written).await;
        assert_eq!(table.get(written.id).await.unwrap(), Some(written));
    }
}

async fn keep_an_entry_that_is_there(table: &impl JobTable) {
    check_put(table, &entry(State::Queued), &PutIf::Absent, false).await;
    check_put(table, &entry(State::Failed), &PutIf::Absent, false).await;
}

async fn treat_an_expired_entry_as_absent(table: &impl JobTable) {
    for condition in [
        PutIf::Absent,
        claimable(Some("other"), Again::FailedBefore(NOW)),
        PutIf::Unclaimed { fingerprint: Fingerprint::from_text("other") },
    ] {
        let second = Duration::from_secs(1);
        let alive = Timestamp::from_millis(NOW.as_seconds() * 1000) + second;
        for (expires_at, succeeds) in [(before(500), true), (alive, false)] {
            let old = JobEntry { expires_at, ..entry(State::Succeeded) };
            check_put(table, &old, &condition, succeeds).await;
        }
    }
}

async fn let_only_claimable_entries_be_claimed(table: &impl JobTable) {
    let same = claimable(Some("f"), Again::Any);
    let waiting = |until| JobEntry { not_before: Some(until), ..entry(State::Queued) };
    for (old, succeeds) in [
        (entry(State::Queued), true),
        (waiting(NOW), true),
        (waiting(NOW + Duration::from_millis(1)), false),
        (entry(State::Failed), true),
        (running(1, before(1)), true),
        (running(1, NOW), false),
        (entry(State::Succeeded), false),
        (entry(State::Held), false),
        (entry(State::Cancelled), false),
    ] {
        check_put(table, &old, &same, succeeds).await;
        check_put(table, &old, &claimable(Some("other"), Again::Any), false).await;
    }
}

async fn leave_held_kinds_alone_after_their_lease(table: &impl JobTable) {
    let by_person = |failed_before| claimable(Some("f"), Again::FailedBefore(failed_before));
    check_put(table, &running(1, before(1)), &by_person(NOW), false).await;
    let failed = entry(State::Failed);
    check_put(table, &failed, &by_person(failed.updated_at), false).await;
    check_put(table, &failed, &by_person(failed.updated_at + Duration::from_millis(1)), true).await;
    check_put(table, &entry(State::Queued), &by_person(before(1)), true).await;
}

async fn refuse_a_claim_that_arrives_after_its_own_end(table: &impl JobTable) {
    for state in [State::Queued, State::Failed] {
        let settled = |token| JobEntry { lease_token: Some(token), ..entry(state) };
        let claim = claimable(Some("f"), Again::Any);
        check_put(table, &settled(Uuid::from_u128(99)), &claim, false).await;
        check_put(table, &settled(Uuid::from_u128(98)), &claim, true).await;
    }
}

async fn let_any_payload_claim_where_the_intent_is_the_identity(table: &impl JobTable) {
    let other = |state| JobEntry { fingerprint: Fingerprint::from_text("other"), ..entry(state) };
    check_put(table, &other(State::Queued), &claimable(None, Again::Any), true).await;
    check_put(table, &other(State::Succeeded), &claimable(None, Again::Any), false).await;
}

async fn fail_a_job_without_a_claim_only_before_the_first(table: &impl JobTable) {
    let unclaimed = |text| PutIf::Unclaimed { fingerprint: Fingerprint::from_text(text) };
    check_put(table, &entry(State::Queued), &unclaimed("f"), true).await;
    check_put(table, &entry(State::Queued), &unclaimed("other"), false).await;
    check_put(table, &running(1, before(1)), &unclaimed("f"), false).await;
}

async fn settle_only_what_is_running_under_the_token(table: &impl JobTable) {
    let token = Uuid::from_u128(1);
    let fail = Settlement::Fail(failure());
    let id = entry(State::Queued).id;
    assert_eq!(table.settle(id, token, &fail, NOW).await.unwrap(), Written::No(None));
    assert_eq!(table.get(id).await.unwrap(), None);

    for old in [running(2, NOW), JobEntry { state: State::Succeeded, ..running(1, NOW) }] {
        set(table, &old).await;
        let answer = table.settle(id, token, &fail, NOW).await.unwrap();
        assert_eq!(answer, Written::No(Some(Box::new(old.clone()))));
        assert_eq!(table.get(id).await.unwrap(), Some(old));
    }
}

async fn replace_what_the_last_attempt_left(table: &impl JobTable) {
    let later = NOW + Duration::from_secs(3);
    let old = JobEntry {
        error: Some("earlier".to_owned()),
        reason: Some("earlier".to_owned()),
        not_before: Some(before(9)),
        ..running(1, NOW)
    };
    let settled = |state| JobEntry {
        state,
        updated_at: later,
        lease_until: None,
        not_before: None,
        reason: None,
        error: None,
        ..old.clone()
    };
    let failed = |state| JobEntry {
        reason: Some("permanent".to_owned()),
        error: Some("no".to_owned()),
        ..settled(state)
    };
    let cases = [
        (
            Settlement::Complete { result: Some("{}".to_owned()), result_omitted: false },
            JobEntry { result: Some("{}".to_owned()), ..settled(State::Succeeded) },
        ),
        (
            Settlement::Complete { result: None, result_omitted: true },
            JobEntry { result_omitted: true, ..settled(State::Succeeded) },
        ),
        (
            Settlement::Release { error: "busy".to_owned(), not_before: later },
            JobEntry {
                error: Some("busy".to_owned()),
                not_before: Some(later),
                ..settled(State::Queued)
            },
        ),
        (Settlement::Fail(failure()), failed(State::Failed)),
        (Settlement::Hold(failure()), failed(State::Held)),
    ];
    for (settlement, expected) in cases {
        set(table, &old).await;
        let answer = table.settle(old.id, Uuid::from_u128(1), &settlement, later).await.unwrap();
        assert_eq!(answer, Written::Yes);
        assert_eq!(table.get(old.id).await.unwrap(), Some(expected));
    }
}

#[tokio::test]
async fn a_table_that_is_not_there_is_an_error_and_no_refusal() {
    let table = DynamoJobTable::new(&dynamodb_server().await, "jobs");
    let error = table.put(&entry(State::Queued), &PutIf::Absent, NOW).await.unwrap_err();
    let TableError::Call(error) = error else { panic!("{error:?}") };
    assert_eq!(error.code(), Some("ResourceNotFoundException"));
    assert!(error.describe().starts_with("PutItem failed (ResourceNotFoundException)"));
}
