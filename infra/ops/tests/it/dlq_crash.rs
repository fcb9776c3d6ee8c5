//! `cargo ops dlq redrive`, cut off at each of its calls: nothing is lost, and
//! nothing is done twice.

use std::collections::HashMap;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use futures::future::join_all;
use ops::dlq::Office;
use ops::dlq::redrive::redrive;
use ops::dlq::scan::Bounds;
use ops::emulator::{ACCESS_KEY, REGION, SECRET_KEY};
use ops::local::Local;
use ops::stack::{Stack, eventually};
use serde_json::json;
use shared::table::DynamoJobTable;
use shared::{JobTable, State};

use crate::cutting::{Cut, Cutting};
use crate::dead_letters::{
    depth, entry, message, office, plan, put_entry, put_letter, with_own_dead_letters, written,
};
use crate::support::{PATIENCE, end_to_end, new_id, report};

/// Short, since a command that is cut off cannot give back what it has hidden.
const HIDDEN_FOR: Duration = Duration::from_secs(10);

/// What a redrive asks of AWS, on the way of a letter.
const STEPS: [&str; 6] = [
    "BatchGetItem",
    "DeleteMessageBatch",
    "GetQueueAttributes",
    "ReceiveMessage",
    "SendMessageBatch",
    "UpdateItem",
];

#[test]
fn a_redrive_that_is_cut_off_before_or_after_any_call_loses_nothing() {
    end_to_end(async |local| {
        let mut cases = Vec::new();
        for cut in [Cut::LostForGood, Cut::UnansweredForGood, Cut::UnansweredOnce] {
            for nth in [0, 1] {
                let run = STEPS.map(async |step| {
                    let queue = format!("dlq-crash-{cut:?}-{step}-{nth}");
                    let stack = with_own_dead_letters(&local.stack, &queue).await;
                    let jobs = letters(&stack).await;
                    let is_cut = cut_off(local, &stack, cut, (step, nth), &jobs).await;
                    assert!(is_cut || nth > 0, "no {step}");
                    Case { stack, jobs }
                });
                cases.extend(join_all(run).await);
            }
        }
        join_all(cases.iter().map(|case| finish(&case.stack))).await;
        let jobs = cases.into_iter().flat_map(|case| case.jobs);
        let jobs: Vec<_> = jobs.collect();
        for (id, _) in &jobs {
            succeeded(&local.stack, id).await;
        }
        let starts = starts(&local.stack).await;
        for (id, to) in jobs {
            assert_eq!(starts.get(&id), Some(&1), "job {id} was started that often");
            if let Some(to) = to {
                assert_eq!(local.receivers.mails(&to).len(), 1, "{to}");
            }
        }
    });
}

/// One redrive that was cut off.
struct Case {
    stack: Stack,
    /// The ids, and the address of an e-mail.
    jobs: Vec<(String, Option<String>)>,
}

/// A letter of a job that is held, of one that has failed, and of one whose
/// entry was never written; the job's id and the address of its e-mail.
async fn letters(stack: &Stack) -> Vec<(String, Option<String>)> {
    let (held, failed, missing) = (new_id(), new_id(), new_id());
    let to = format!("{held}@example.org");
    let email = json!({ "kind": "welcome-email", "payload": {
        "candidate_id": held, "to": to, "name": "Ada", "language": "en",
    } });
    put_entry(stack, &entry(&held, "welcome-email", State::Held)).await;
    put_letter(stack, &message(&held, &email), &written("interrupted", "nobody knows")).await;
    put_entry(stack, &entry(&failed, "report", State::Failed)).await;
    put_letter(stack, &message(&failed, &report("Failed")), &written("permanent", "no")).await;
    put_letter(stack, &message(&missing, &report("Missing")), &[]).await;
    vec![(held, Some(to)), (failed, None), (missing, None)]
}

/// Redrives these letters over a way that is cut off at the nth call of a step;
/// whether there was such a call.
async fn cut_off(
    local: &Local,
    stack: &Stack,
    cut: Cut,
    (step, nth): (&'static str, usize),
    jobs: &[(String, Option<String>)],
) -> bool {
    let cutting = Cutting::start(local.emulator.endpoint(), cut, step, nth).await;
    let config = config(&cutting.endpoint(), cut == Cut::UnansweredOnce);
    let table = DynamoJobTable::new(&config, &stack.outputs.table_name);
    let direct = office(stack);
    let queues = direct.queues.through(aws_sdk_sqs::Client::new(&config));
    let bounds = Bounds { hidden_for: HIDDEN_FOR, ..Bounds::DEFAULT };
    let office = Office { table, queues, bounds, ..direct };
    let ids: Vec<_> = jobs.iter().flat_map(|(id, _)| ["--id", id]).collect();
    let outcome = redrive(&office, &plan(&ids)).await;
    let is_cut = cutting.is_cut();
    // The emulator, unlike SQS, refuses to delete what is deleted already.
    if (cut, step) != (Cut::UnansweredOnce, "DeleteMessageBatch") {
        let must_fail = is_cut && cut != Cut::UnansweredOnce;
        assert_eq!(outcome.is_err(), must_fail, "{cut:?} {step} {nth} {outcome:?}");
    }
    is_cut
}

/// Everything through `endpoint`; without a retry, so that what is cut off is.
fn config(endpoint: &str, retries: bool) -> SdkConfig {
    let root = Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "emulator");
    let retry = if retries { RetryConfig::standard() } else { RetryConfig::disabled() };
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .credentials_provider(SharedCredentialsProvider::new(root))
        .retry_config(retry)
        .endpoint_url(endpoint)
        .build()
}

/// What a person does then: says the same again, until all is done.
async fn finish(stack: &Stack) {
    let done = eventually(PATIENCE, "no dead letter is left", async || {
        redrive(&office(stack), &plan(&["--all"])).await?;
        Ok((depth(stack).await == (0, 0)).then_some(()))
    });
    done.await.unwrap();
}

async fn succeeded(stack: &Stack, id: &str) {
    let table = stack.connection.job_table(&stack.outputs.table_name);
    let what = format!("job {id} has succeeded");
    let done = eventually(PATIENCE, &what, async || {
        let entry = table.get(id.parse().unwrap()).await.unwrap();
        Ok(entry.filter(|entry| entry.state == State::Succeeded))
    });
    done.await.unwrap();
}

/// How often each job was started.
async fn starts(stack: &Stack) -> HashMap<String, usize> {
    let mut starts = HashMap::new();
    for line in stack.logs.of_function(&stack.outputs.consumer, 0).await.unwrap() {
        let Some(event) = line.event() else { continue };
        if event["message"] == "job started" {
            *starts.entry(event["job.id"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    starts
}
