//! Random operations: the table in memory answers what DynamoDB answers, write
//! by write or in groups, and holds the same entries after it.
//!
//! `PROPTEST_CASES` says how many sequences are tried.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use shared::entry::Failure;
use shared::table::{Again, Cancellation, InMemoryJobTable, PutIf, Settlement, Written};
use shared::{Fingerprint, JobEntry, JobId, JobTable, Principal, State, Timestamp};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::grouped::{InCompany, Watched};
use crate::job_table::dynamodb;

/// Half a second past a whole one, since expiry is compared in whole seconds.
const NOW: u64 = 1_800_000_000_500;

/// Jobs of one sequence.
const JOBS: u128 = 2;

/// The largest result that the consumer can be configured to store.
const LARGEST_RESULT: usize = 256 * 1024;

#[derive(Clone, Debug)]
enum Operation {
    Get,
    Put { entry: Box<JobEntry>, condition: PutIf },
    Settle { token: Uuid, settlement: Settlement },
    Cancel { principal: Principal },
}

/// An operation on one of the jobs, at a moment.
#[derive(Clone, Debug)]
struct Step {
    job: u128,
    now: Timestamp,
    operation: Operation,
}

/// What a table answered.
#[derive(Debug, PartialEq)]
enum Answer {
    Got(Option<Box<JobEntry>>),
    Written(Written),
    Cancelled(Cancellation),
}

impl Answer {
    /// Whether the condition held, or the entry was there.
    fn is_yes(&self) -> bool {
        match self {
            Self::Got(entry) => entry.is_some(),
            Self::Written(written) => *written == Written::Yes,
            Self::Cancelled(cancellation) => matches!(cancellation, Cancellation::Done(_)),
        }
    }
}

impl Operation {
    /// Its kind, with the part that its condition depends on.
    fn name(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put { condition: PutIf::Absent, .. } => "put if absent",
            Self::Put { condition: PutIf::Claimable { again: Again::Any, .. }, .. } => {
                "put if claimable"
            }
            Self::Put {
                condition: PutIf::Claimable { again: Again::FailedBefore(_), .. }, ..
            } => "put if claimable and failed before",
            Self::Put { condition: PutIf::Unclaimed { .. }, .. } => "put if unclaimed",
            Self::Settle { settlement: Settlement::Complete { .. }, .. } => "complete",
            Self::Settle { settlement: Settlement::Release { .. }, .. } => "release",
            Self::Settle { settlement: Settlement::Fail(_), .. } => "fail",
            Self::Settle { settlement: Settlement::Hold(_), .. } => "hold",
            Self::Cancel { .. } => "cancel",
        }
    }
}

/// Moments that conditions compare: before, at and after one another, by a
/// millisecond and by more than a second.
fn moments() -> impl Strategy<Value = Timestamp> {
    let offsets = vec![-5_000, -1_000, -501, -500, -1, 0, 1, 499, 500, 1_000, 5_000];
    select(offsets)
        .prop_map(|offset: i64| Timestamp::from_millis(NOW.saturating_add_signed(offset)))
}

/// Ends of entries; most lie far ahead.
fn ends() -> impl Strategy<Value = Timestamp> {
    let far = Just(Timestamp::from_millis(NOW) + Duration::from_hours(24));
    prop_oneof![2 => moments(), 5 => far]
}

fn tokens() -> impl Strategy<Value = Uuid> {
    (1..3_u128).prop_map(Uuid::from_u128)
}

fn fingerprints() -> impl Strategy<Value = Fingerprint> {
    select(vec!["f", "f", "f", "g"]).prop_map(Fingerprint::from_text)
}

fn principals() -> impl Strategy<Value = Principal> {
    let ann = Principal::jwt("https://issuer", "ann");
    select(vec![Principal::anonymous(), Principal::anonymous(), ann])
}

/// Texts of every size that is written, and with characters of every width.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(vec!["", "no", "\"{}\"", "naïve \u{1f600}\u{2028}\u{7f}\\"]).prop_map(str::to_owned),
        1 => Just("é".repeat(512)),
    ]
}

fn results() -> impl Strategy<Value = Option<String>> {
    option::of(prop_oneof![
        30 => texts(),
        1 => Just("x".repeat(64 * 1024)),
        1 => Just("x".repeat(LARGEST_RESULT)),
    ])
}

fn entries() -> impl Strategy<Value = JobEntry> {
    let states = select(vec![
        State::Queued,
        State::Queued,
        State::Running,
        State::Running,
        State::Running,
        State::Succeeded,
        State::Failed,
        State::Held,
        State::Cancelled,
    ]);
    let claim =
        (select(vec![0, 0, 1, 2, u32::MAX]), any::<bool>(), option::weighted(0.9, tokens()));
    let times = (moments(), ends(), option::of(moments()), option::of(moments()));
    let told = (option::of(texts()), option::of(texts()), results(), any::<bool>());
    (states, principals(), fingerprints(), claim, times, told).prop_map(
        |(state, principal, fingerprint, claim, times, told)| {
            let (attempt, last_attempt, lease_token) = claim;
            let (created_at, expires_at, lease_until, not_before) = times;
            // As its producer wrote it.
            let is_touched = attempt > 0;
            let (reason, error, result, result_omitted) = told;
            let id = JobId::new(Uuid::nil());
            let queued =
                JobEntry::queued(id, "report", principal, fingerprint, created_at, Duration::ZERO);
            JobEntry {
                state,
                expires_at,
                attempt,
                last_attempt,
                lease_token: lease_token.filter(|_| is_touched),
                lease_until,
                not_before: not_before.filter(|_| is_touched),
                reason,
                error,
                result,
                result_omitted,
                ..queued
            }
        },
    )
}

fn conditions() -> impl Strategy<Value = PutIf> {
    prop_oneof![
        Just(PutIf::Absent),
        fingerprints().prop_map(|fingerprint| PutIf::Unclaimed { fingerprint }),
        (option::of(fingerprints()), option::of(moments())).prop_map(|(fingerprint, failed)| {
            let again = failed.map_or(Again::Any, Again::FailedBefore);
            PutIf::Claimable { fingerprint, again }
        }),
    ]
}

fn settlements() -> impl Strategy<Value = Settlement> {
    let failure = || texts().prop_map(|error| Failure { reason: "permanent", error });
    prop_oneof![
        (results(), any::<bool>())
            .prop_map(|(result, result_omitted)| Settlement::Complete { result, result_omitted }),
        (texts(), moments())
            .prop_map(|(error, not_before)| Settlement::Release { error, not_before }),
        failure().prop_map(Settlement::Fail),
        failure().prop_map(Settlement::Hold),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let operation = prop_oneof![
        1 => Just(Operation::Get),
        6 => (entries(), conditions())
            .prop_map(|(entry, condition)| Operation::Put { entry: Box::new(entry), condition }),
        4 => (tokens(), settlements())
            .prop_map(|(token, settlement)| Operation::Settle { token, settlement }),
        2 => principals().prop_map(|principal| Operation::Cancel { principal }),
    ];
    let step = (0..JOBS, moments(), operation);
    step.prop_map(|(job, now, operation)| Step { job, now, operation })
}

async fn carry_out(table: &impl JobTable, id: JobId, step: &Step) -> Answer {
    let now = step.now;
    match &step.operation {
        Operation::Get => Answer::Got(table.get(id).await.unwrap().map(Box::new)),
        Operation::Put { entry, condition } => {
            let entry = JobEntry { id, ..(**entry).clone() };
            Answer::Written(table.put(&entry, condition, now).await.unwrap())
        }
        Operation::Settle { token, settlement } => {
            Answer::Written(table.settle(id, *token, settlement, now).await.unwrap())
        }
        Operation::Cancel { principal } => {
            Answer::Cancelled(table.cancel(id, principal, now).await.unwrap())
        }
    }
}

/// How often an operation was answered no, and how often yes.
type Tally = HashMap<&'static str, [u32; 2]>;

/// Runs a sequence on both tables, on jobs that DynamoDB has not seen before.
async fn compare(dynamodb: &impl JobTable, steps: &[Step], tally: &mut Tally) {
    let memory = InMemoryJobTable::default();
    let first = Uuid::new_v4().as_u128();
    let id_of = |job| JobId::new(Uuid::from_u128(first.wrapping_add(job)));
    for (position, step) in steps.iter().enumerate() {
        let id = id_of(step.job);
        let expected = carry_out(dynamodb, id, step).await;
        let answer = carry_out(&memory, id, step).await;
        assert_eq!(answer, expected, "step {position}: {}", step.operation.name());
        let [no, yes] = tally.entry(step.operation.name()).or_default();
        *if answer.is_yes() { yes } else { no } += 1;
    }
    for job in 0..JOBS {
        let id = id_of(job);
        assert_eq!(memory.entry(id), dynamodb.get(id).await.unwrap(), "entry {job} in the end");
    }
}

/// Runs random sequences on the table in memory and on `dynamodb`: how many,
/// and what came of them.
fn agree(runtime: &Runtime, dynamodb: &impl JobTable) -> (u32, String) {
    let tally = std::cell::RefCell::new(Tally::new());
    let config = Config { failure_persistence: None, ..Config::default() };
    let cases = config.cases;
    let compared = TestRunner::new(config).run(&vec(steps(), 1..20), |steps| {
        runtime.block_on(compare(dynamodb, &steps, &mut tally.borrow_mut()));
        Ok(())
    });
    let tally = tally.into_inner();
    let operations: u32 = tally.values().flatten().sum();
    compared.unwrap();
    let one_sided = tally.iter().find(|(_, counts)| counts.contains(&0));
    assert!(cases < 100 || (tally.len(), one_sided) == (10, None), "{tally:?}");
    (cases, format!("{cases} sequences, {operations} operations, no and yes: {tally:#?}"))
}

#[test]
fn both_tables_agree_on_random_operations() {
    let runtime = Runtime::new().unwrap();
    let dynamodb = runtime.block_on(dynamodb());
    let (_, summary) = agree(&runtime, &dynamodb);
    println!("{summary}");
}

#[test]
fn both_tables_agree_on_random_operations_in_groups() {
    let runtime = Runtime::new().unwrap();
    let dynamodb = Watched::new(runtime.block_on(dynamodb()));
    let (cases, summary) = agree(&runtime, &InCompany::new(Arc::clone(&dynamodb)));
    let made = dynamodb.made();
    println!("{summary}\nnew entries, claims, settlements made in groups: {made:?}");
    assert!(cases < 100 || made.iter().all(|writes| *writes > 0), "{made:?}");
}
