//! Writes in groups: they have the same effect as alone, whatever becomes of
//! the group.

mod table;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use serde_json::{Value, json};
use shared::aws::CallLimits;
use shared::fake_aws::{FakeAws, Reply};
use shared::table::{
    Again, DynamoJobTable, GroupError, GroupTable, GroupWrite, GroupedJobTable, InMemoryJobTable,
    PutIf, Settlement, Written,
};
use shared::{Fingerprint, JobEntry, JobId, JobTable, Principal, State, Timestamp};
use uuid::Uuid;

use self::table::Fault;
pub(crate) use self::table::{InCompany, Watched};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const TTL: Duration = Duration::from_hours(24);

type Grouped = GroupedJobTable<Watched<InMemoryJobTable>>;

/// A table with the queued entries of these jobs.
fn table_with(jobs: u128) -> (Arc<Watched<InMemoryJobTable>>, Grouped) {
    let watched = Watched::new(InMemoryJobTable::default());
    for job in 0..jobs {
        watched.table.insert(queued(job));
    }
    (Arc::clone(&watched), GroupedJobTable::new(watched, true))
}

fn queued(job: u128) -> JobEntry {
    let (id, fingerprint) = (JobId::new(Uuid::from_u128(job)), Fingerprint::from_text("f"));
    JobEntry::queued(id, "report", Principal::anonymous(), fingerprint, NOW, TTL)
}

/// The claim of a job, under a token of the same number.
fn claim(job: u128) -> JobEntry {
    JobEntry {
        state: State::Running,
        attempt: 1,
        lease_token: Some(Uuid::from_u128(job)),
        lease_until: Some(NOW + TTL),
        ..queued(job)
    }
}

async fn put(table: &impl JobTable, entry: JobEntry) -> Written {
    let fingerprint = Some(Fingerprint::from_text("f"));
    let condition = PutIf::Claimable { fingerprint, again: Again::Any };
    table.put(&entry, &condition, NOW).await.unwrap()
}

fn completion(result: &str) -> Settlement {
    Settlement::Complete { result: Some(result.to_owned()), result_omitted: false }
}

async fn complete(table: &impl JobTable, job: u128, result: &str) -> Written {
    let (id, token) = (JobId::new(Uuid::from_u128(job)), Uuid::from_u128(job));
    table.settle(id, token, &completion(result), NOW).await.unwrap()
}

#[tokio::test]
async fn what_is_asked_for_at_the_same_time_goes_together_by_twenty_five() {
    let (watched, table) = table_with(60);
    let claims = join_all((0..60).map(|job| put(&table, claim(job)))).await;
    assert!(claims.iter().all(|written| *written == Written::Yes));
    let completions = join_all((0..60).map(|job| complete(&table, job, "{}"))).await;
    assert!(completions.iter().all(|written| *written == Written::Yes));
    let (mut groups, alone) = watched.calls();
    groups.sort_unstable();
    assert_eq!((groups, alone), (vec![10, 10, 25, 25, 25, 25], 0));
}

#[tokio::test]
async fn a_write_alone_and_one_of_a_large_result_are_no_groups() {
    let (watched, table) = table_with(3);
    assert_eq!(put(&table, claim(0)).await, Written::Yes);
    assert_eq!(watched.calls(), (vec![], 1));
    let large = "x".repeat(8 * 1024 + 1);
    tokio::join!(put(&table, claim(1)), put(&table, claim(2)));
    tokio::join!(complete(&table, 0, &large), complete(&table, 1, "{}"), complete(&table, 2, "{}"));
    assert_eq!(watched.calls(), (vec![2, 2], 2));
}

/// DynamoDB refuses a call in which an item is written twice.
#[tokio::test]
async fn two_writes_of_one_job_are_never_in_one_call() {
    let (watched, table) = table_with(2);
    let other = JobEntry { lease_token: Some(Uuid::from_u128(99)), ..claim(0) };
    let (first, neighbour, second) =
        tokio::join!(put(&table, claim(0)), put(&table, claim(1)), put(&table, other));
    assert_eq!(neighbour, Written::Yes);
    assert_eq!([&first, &second].iter().filter(|it| ***it == Written::Yes).count(), 1);
    assert_eq!(watched.groups.lock().unwrap().clone(), [2]);
}

#[tokio::test]
async fn only_an_entry_that_nobody_has_touched_is_claimed_in_a_group() {
    let (watched, table) = table_with(0);
    let touched = [
        JobEntry { lease_token: Some(Uuid::from_u128(99)), ..queued(0) },
        JobEntry { not_before: Some(NOW), ..queued(1) },
        JobEntry { state: State::Failed, ..queued(2) },
        JobEntry { fingerprint: Fingerprint::from_text("other"), expires_at: NOW, ..queued(3) },
    ];
    for entry in touched {
        watched.table.insert(entry);
    }
    let claims = join_all((0..5).map(|job| put(&table, claim(job)))).await;
    assert!(claims.iter().all(|written| *written == Written::Yes), "{claims:?}");
    assert_eq!((watched.calls(), watched.made()), ((vec![5], 5), [0, 0, 0]));
}

#[tokio::test]
async fn a_new_entry_takes_the_place_of_none_in_a_group() {
    let (watched, table) = table_with(1);
    let expired = JobEntry { expires_at: NOW, ..queued(1) };
    watched.table.insert(expired);
    let new = [0, 1, 2].map(|job| JobEntry { kind: "other".to_owned(), ..queued(job) });
    let [there, expired, absent] = &new;
    let (there, expired, absent) = tokio::join!(
        table.put(there, &PutIf::Absent, NOW),
        table.put(expired, &PutIf::Absent, NOW),
        table.put(absent, &PutIf::Absent, NOW),
    );
    assert_eq!(there.unwrap(), Written::No(Some(Box::new(queued(0)))));
    assert_eq!((expired.unwrap(), absent.unwrap()), (Written::Yes, Written::Yes));
    assert_eq!((watched.calls(), watched.made()), ((vec![3], 2), [1, 0, 0]));
}

/// The put meets the claim's own token, which the consumer takes for its own.
#[tokio::test]
async fn a_group_that_is_lost_or_its_answer_is_made_one_by_one() {
    for (fault, is_there) in [(Fault::Lost, false), (Fault::AnswerLost, true)] {
        let (watched, table) = table_with(2);
        watched.faults.lock().unwrap().extend([fault, fault]);
        let (first, second) = tokio::join!(put(&table, claim(0)), put(&table, claim(1)));
        for (job, written) in [(0, first), (1, second)] {
            let expected =
                if is_there { Written::No(Some(Box::new(claim(job)))) } else { Written::Yes };
            assert_eq!(written, expected);
        }
        let (first, _) = tokio::join!(complete(&table, 0, "{}"), complete(&table, 1, "{}"));
        let entry = watched.table.entry(queued(0).id).unwrap();
        assert_eq!(entry.state, State::Succeeded);
        assert_eq!(first, if is_there { Written::No(Some(Box::new(entry))) } else { Written::Yes });
        assert_eq!(watched.calls(), (vec![2, 2], 4));
    }
}

#[tokio::test]
async fn who_goes_away_costs_the_others_nothing() {
    let (watched, table) = table_with(2);
    let mut leaver = Box::pin(put(&table, claim(0)));
    let mut other = Box::pin(put(&table, claim(1)));
    assert!((&mut leaver).now_or_never().is_none());
    assert!((&mut other).now_or_never().is_none());
    drop(leaver);
    assert_eq!(other.await, Written::Yes);
    assert_eq!((watched.calls(), watched.made()), ((vec![2], 0), [0, 2, 0]));
}

#[tokio::test]
async fn a_group_that_everybody_has_left_is_never_made() {
    let (watched, table) = table_with(2);
    for job in 0..2 {
        assert!(Box::pin(put(&table, claim(job))).now_or_never().is_none());
    }
    assert_eq!(put(&table, claim(1)).await, Written::Yes);
    assert_eq!(watched.calls(), (vec![], 1));
    assert_eq!(watched.table.entry(queued(0).id).unwrap().state, State::Queued);
}

#[tokio::test]
async fn a_table_that_takes_no_groups_is_asked_once() {
    let (watched, table) = table_with(4);
    watched.faults.lock().unwrap().push_back(Fault::NotSupported);
    for jobs in [[0, 1], [2, 3]] {
        let claims = join_all(jobs.map(|job| put(&table, claim(job)))).await;
        assert_eq!(claims, [Written::Yes, Written::Yes]);
    }
    assert_eq!(watched.calls(), (vec![2], 4));
}

#[tokio::test]
async fn groups_that_are_switched_off_are_not_made() {
    let watched = Watched::new(InMemoryJobTable::default());
    let table = GroupedJobTable::new(Arc::clone(&watched), false);
    let (first, second) = tokio::join!(put(&table, claim(0)), put(&table, claim(1)));
    assert_eq!([first, second], [Written::Yes, Written::Yes]);
    assert_eq!(watched.calls(), (vec![], 2));
}

/// Asks DynamoDB for a new entry, a claim and a completion in one call.
async fn ask(reply: Reply) -> (Result<Vec<bool>, GroupError>, Value) {
    let aws = FakeAws::start(move |_| reply.clone()).await.unwrap();
    let second = Duration::from_secs(1);
    let config = aws.sdk_config(CallLimits { attempt: second, operation: second });
    let fingerprint = Some(Fingerprint::from_text("f"));
    let settlement = completion("{}");
    let (id, token) = (JobId::new(Uuid::from_u128(8)), Uuid::from_u128(8));
    let writes = [
        GroupWrite::Create { entry: Box::new(queued(6)) },
        GroupWrite::Claim { entry: Box::new(claim(7)), fingerprint },
        GroupWrite::Settle { id, token, settlement, now: NOW },
    ];
    let answer = DynamoJobTable::new(&config, "jobs").write_group(&writes).await;
    (answer, aws.received()[0].body.clone())
}

#[tokio::test]
async fn a_group_is_one_call_with_a_statement_for_each_write() {
    let done = json!({ "TableName": "jobs" });
    let (answer, request) = ask(Reply::Ok(json!({ "Responses": [done, done, done] }))).await;
    assert_eq!(answer.unwrap(), [true, true, true]);
    let [new, claim, completion] = [0, 1, 2].map(|place| request["Statements"][place].clone());
    assert_eq!(
        new["Statement"],
        "INSERT INTO \"jobs\" VALUE {'job_id':?,'kind':?,'state':?,'principal':?,\
         'fingerprint':?,'created_at':?,'updated_at':?,'expires_at':?,'attempt':?,\
         'last_attempt':?,'result_omitted':?}"
    );
    assert_eq!(new["Parameters"].as_array().unwrap().len(), 11);
    assert_eq!(new["Parameters"][2], json!({ "S": "queued" }));
    assert_eq!(
        claim["Statement"],
        "UPDATE \"jobs\" SET \"kind\"=? SET \"state\"=? SET \"principal\"=? \
         SET \"created_at\"=? SET \"updated_at\"=? SET \"expires_at\"=? \
         SET \"attempt\"=? SET \"last_attempt\"=? SET \"result_omitted\"=? \
         SET \"lease_token\"=? SET \"lease_until\"=? REMOVE \"not_before\" REMOVE \"reason\" REMOVE \"error\" \
         REMOVE \"result\" WHERE \"job_id\"=? AND \"state\"=? AND \"fingerprint\"=? \
         AND \"lease_token\" IS MISSING AND \"not_before\" IS MISSING"
    );
    assert_eq!(claim["Parameters"][1], json!({ "S": "running" }));
    let last: Vec<_> = claim["Parameters"].as_array().unwrap().iter().skip(11).collect();
    let id = Uuid::from_u128(7).to_string();
    assert_eq!(last, [&json!({ "S": id }), &json!({ "S": "queued" }), &json!({ "S": "f" })]);
    assert_eq!(
        completion["Statement"],
        "UPDATE \"jobs\" SET \"result\"=? SET \"result_omitted\"=? SET \"state\"=? \
         SET \"updated_at\"=? REMOVE \"lease_until\" REMOVE \"not_before\" REMOVE \"reason\" \
         REMOVE \"error\" WHERE \"job_id\"=? AND \"state\"=? AND \"lease_token\"=?"
    );
}

#[tokio::test]
async fn only_a_statement_without_an_error_was_carried_out() {
    let refused = |code: &str| json!({ "Error": { "Code": code, "Message": "no" } });
    let done = json!({ "TableName": "jobs" });
    for (answers, expected) in [
        (json!([done, refused("ConditionalCheckFailed"), done]), [true, false, true]),
        (json!([refused("DuplicateItem"), done, done]), [false, true, true]),
        (json!([refused("ThrottlingError"), done, done]), [false, true, true]),
        (json!([done, refused("ValidationError"), done]), [true, false, true]),
        (json!([{ "Error": {} }, refused("InternalServerError"), done]), [false, false, true]),
        // Nobody knows which answer is whose.
        (json!([done, done]), [false, false, false]),
        (json!([]), [false, false, false]),
    ] {
        let (answer, _) = ask(Reply::Ok(json!({ "Responses": answers }))).await;
        assert_eq!(answer.unwrap(), expected, "{answers}");
    }
}

#[tokio::test]
async fn a_group_is_not_supported_where_it_is_refused_as_a_whole() {
    let refused = |code: &str| json!({ "Error": { "Code": code, "Message": "no" } });
    let all =
        |code| Reply::Ok(json!({ "Responses": [refused(code), refused(code), refused(code)] }));
    for reply in [
        all("ValidationError"),
        all("AccessDenied"),
        Reply::Error(400, "ValidationException"),
        Reply::Error(400, "AccessDeniedException"),
        Reply::Error(400, "UnknownOperationException"),
    ] {
        let (answer, _) = ask(reply).await;
        assert!(matches!(answer, Err(GroupError::NotSupported(_))), "{answer:?}");
    }
    for reply in [Reply::Error(400, "ThrottlingException"), Reply::Reset] {
        let (answer, _) = ask(reply).await;
        assert!(matches!(answer, Err(GroupError::Call(_))), "{answer:?}");
    }
}
