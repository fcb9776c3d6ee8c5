//! A batch has the same outcomes whether its jobs are written in groups or one
//! by one, whatever becomes of the calls.

use std::time::Duration;

use serde_json::{Value, json};
use shared::entry::JobEntry;
use shared::{JobId, State, Timestamp};
use uuid::Uuid;

use crate::rig::{Fault, Job, Rig, START};

/// What became of a job.
#[derive(Debug, PartialEq)]
struct End {
    is_reported: bool,
    runs: usize,
    entry: Option<JobEntry>,
    letters: usize,
}

/// A job, and its entry when it is delivered.
type Case = (Job, Option<JobEntry>);

fn probe(steps: &Value, state: State) -> Case {
    over(Job::probe(steps), |job| job.entry(state))
}

fn over(job: Job, entry: impl FnOnce(&Job) -> JobEntry) -> Case {
    let entry = entry(&job);
    (job, Some(entry))
}

fn waiting(until: Timestamp) -> Case {
    over(Job::probe(&json!(["succeed"])), |job| JobEntry {
        not_before: Some(until),
        attempt: 1,
        ..job.entry(State::Queued)
    })
}

/// Jobs that begin and end in every way, in batches of ten.
fn batches() -> [Vec<Case>; 2] {
    let succeed = &json!(["succeed"]);
    let later = START + Duration::from_mins(1);
    let over_by_now = Timestamp::from_millis(START.as_millis() - 1);
    [
        vec![
            probe(succeed, State::Queued),
            probe(&json!(["fail"]), State::Queued),
            probe(&json!(["fail_permanently"]), State::Queued),
            probe(&json!(["panic"]), State::Queued),
            over(Job::held(succeed), |job| job.entry(State::Queued)),
            over(Job::held(&json!(["panic"])), |job| job.entry(State::Queued)),
            over(Job::intended(succeed), |job| job.entry(State::Queued)),
            waiting(later),
            waiting(START),
            (Job::probe(succeed), None),
        ],
        vec![
            probe(succeed, State::Succeeded),
            probe(succeed, State::Cancelled),
            probe(succeed, State::Held),
            probe(succeed, State::Failed),
            over(Job::held(succeed), |job| job.entry(State::Failed)),
            over(Job::probe(succeed), |job| job.running(later)),
            over(Job::probe(succeed), |job| job.running(over_by_now)),
            over(Job::held(succeed), |job| job.running(over_by_now)),
            over(Job::probe(succeed), |job| {
                job.other_payload(&json!(["fail"])).entry(State::Queued)
            }),
            probe(succeed, State::Queued),
        ],
    ]
}

/// Delivers each batch to a consumer that makes groups, or does not: what
/// became of its jobs, and how many writes each group had.
async fn ends(is_grouping: bool, faults: &[Fault]) -> (Vec<End>, Vec<usize>) {
    let (mut ends, mut groups) = (Vec::new(), Vec::new());
    for batch in batches() {
        let rig = Rig::with_groups(is_grouping);
        batch.iter().filter_map(|(_, entry)| entry.clone()).for_each(|entry| rig.set(entry));
        rig.faults(faults.iter().copied());
        let records: Vec<_> =
            batch.iter().map(|(job, _)| job.record(&job.id.to_string())).collect();
        let reported = rig.deliver(&records).await.unwrap();
        ends.extend(batch.iter().map(|(job, _)| End {
            is_reported: reported.contains(&job.id.to_string()),
            runs: job.runs().started,
            entry: rig.entry(job).map(without_names),
            letters: rig.letters().iter().filter(|letter| letter.body == job.body).count(),
        }));
        groups.append(&mut rig.table.groups.lock().unwrap());
    }
    (ends, groups)
}

/// An entry without what is different each time.
fn without_names(entry: JobEntry) -> JobEntry {
    let lease_token = entry.lease_token.map(|_| Uuid::nil());
    JobEntry { id: JobId::new(Uuid::nil()), lease_token, ..entry }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_entry_ends_in_a_group_as_it_does_alone() {
    let (alone, no_groups) = ends(false, &[]).await;
    let (grouped, groups) = ends(true, &[]).await;
    assert_eq!(no_groups, [] as [usize; 0]);
    assert_eq!(groups.iter().filter(|writes| **writes == 10).count(), 2, "{groups:?}");
    assert!(groups.len() > 2, "nothing was settled in a group: {groups:?}");
    assert_eq!(grouped, alone);
}

/// The call of the claims, that is: the first.
#[tokio::test(start_paused = true)]
async fn a_group_whose_call_goes_wrong_changes_no_outcome() {
    let (alone, _) = ends(false, &[]).await;
    for fault in [Fault::Fails, Fault::AnswerLost, Fault::SentTwice, Fault::NoOldItem] {
        let (grouped, groups) = ends(true, &[fault]).await;
        assert!(groups.contains(&10), "{groups:?}");
        assert_eq!(grouped, alone, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_completions_lose_their_answer_is_acknowledged() {
    let rig = Rig::with_groups(true);
    let jobs = [(); 10].map(|()| Job::probe(&json!(["succeed"])));
    for job in &jobs {
        rig.set(job.entry(State::Queued));
    }
    rig.faults([Fault::None, Fault::AnswerLost]);
    let records: Vec<_> = jobs.iter().map(|job| job.record(&job.id.to_string())).collect();
    assert!(rig.deliver(&records).await.unwrap().is_empty());
    assert_eq!(rig.table.groups.lock().unwrap().clone(), [10, 10]);
    for job in &jobs {
        assert_eq!((rig.state(job), job.runs().started), (Some(State::Succeeded), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn claims_whose_group_hangs_come_back() {
    let rig = Rig::with_groups(true);
    let jobs = [(); 3].map(|()| Job::probe(&json!(["succeed"])));
    for job in &jobs {
        rig.set(job.entry(State::Queued));
    }
    rig.faults([Fault::Hangs]);
    let records: Vec<_> = jobs.iter().map(|job| job.record(&job.id.to_string())).collect();
    assert!(rig.deliver(&records).await.is_err());
    // The next invocation does not meet what this one left.
    assert!(rig.deliver(&records).await.unwrap().is_empty());
    assert!(jobs.iter().all(|job| job.runs().started == 1));
}
