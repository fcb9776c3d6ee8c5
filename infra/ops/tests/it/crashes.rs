//! Functions that end in mid-job: killed, or by their own decision.
//!
//! What such a function had received comes back when its visibility timeout is
//! over, a minute later. So everything that crashes does so at once and early,
//! in a stack where nobody else's records are lost for that minute, and each
//! test waits for what becomes of one job.

use std::time::Duration;

use ops::evidence::{executions, outcomes};
use ops::living::processes_of;
use ops::local::Local;
use ops::logs::Line;
use ops::messages::{message, send_all};
use ops::stack::{Stack, eventually};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{PARAMETERS, PATIENCE, end_to_end, new_id, probe, report};

/// The visibility timeout of 61 s, and time to run what came back.
const UNTIL_IT_IS_BACK: Duration = Duration::from_secs(61 + 45);

static CRASHES: OnceCell<Crashes> = OnceCell::const_new();

/// What crashed.
struct Crashes {
    stack: Stack,
    killed: String,
    held: Sent,
    blocked: String,
    neighbours: Vec<String>,
}

/// A job and its message.
struct Sent {
    id: String,
    body: String,
}

#[test]
fn a_job_whose_process_is_killed_is_run_again_after_its_lease_and_succeeds_once() {
    end_to_end(async |local| {
        let Crashes { stack, killed, .. } = crashes(local).await;
        let job = stack.api.wait_for_job(killed, UNTIL_IT_IS_BACK).await.unwrap().body;
        assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(2)), "{job}");
        assert_eq!(executions(stack, killed).await.unwrap(), 2);
        // The killed attempt came to no end of any kind.
        assert_eq!(all_outcomes(stack, killed, 1).await, ["completed"]);
    });
}

#[test]
fn a_hold_job_whose_process_is_killed_is_held_and_never_run_again() {
    end_to_end(async |local| {
        let Crashes { stack, held, .. } = crashes(local).await;
        let letter = stack.wait_for_dead_letter(&held.body, UNTIL_IT_IS_BACK).await.unwrap();
        let attributes = letter.message_attributes().unwrap();
        assert_eq!(attributes["reason"].string_value(), Some("interrupted"));
        let job = stack.api.job(&held.id).await.unwrap().body;
        assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("interrupted")));
        let entry = stack.entry(&held.id).await.unwrap().unwrap();
        assert_eq!(entry["state"].as_s().unwrap(), "held");

        // A redrive from the console meets the held entry, and is not lost.
        send_all(stack, std::slice::from_ref(&held.body)).await.unwrap();
        stack.wait_for_dead_letter(&held.body, PATIENCE).await.unwrap();
        assert_eq!(all_outcomes(stack, &held.id, 2).await, ["interrupted", "interrupted"]);
        assert_eq!(executions(stack, &held.id).await.unwrap(), 1);
    });
}

#[test]
fn a_process_whose_work_cannot_be_stopped_ends_itself_before_that_work_runs_elsewhere() {
    end_to_end(async |local| {
        let Crashes { stack, blocked, .. } = crashes(local).await;
        let job = stack.api.wait_for_job(blocked, UNTIL_IT_IS_BACK).await.unwrap().body;
        assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(2)), "{job}");
        all_outcomes(stack, blocked, 1).await;
        let lines = consumer_log(stack).await;
        let ended = lines.iter().filter_map(Line::event).find(|event| {
            event["error"].as_str().is_some_and(|error| error.contains("still alive"))
        });
        let ended = ended.expect("the process ended itself");
        let starts = starts(&lines, blocked);
        assert_eq!(starts.len(), 2, "{starts:?}");
        // The blocked thread lived until its process ended.
        assert!(moment(&starts[1].1) > moment(&ended), "{starts:?} {ended}");
        assert!(!local.emulator.log().contains("Task timed out"));
    });
}

#[test]
fn what_a_process_did_before_it_ended_itself_is_not_done_again() {
    end_to_end(async |local| {
        let Crashes { stack, blocked, neighbours, .. } = crashes(local).await;
        for id in neighbours {
            let job = stack.api.wait_for_job(id, PATIENCE).await.unwrap().body;
            assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(1)), "{job}");
        }
        all_outcomes(stack, blocked, 1).await;
        let lines = consumer_log(stack).await;
        let batch = |id| starts(&lines, id)[0].0;
        // Who sends ten messages at once does not get them as one batch always.
        let beside: Vec<_> = neighbours.iter().filter(|id| batch(id) == batch(blocked)).collect();
        assert!(!beside.is_empty(), "all came in different batches");
        for id in beside {
            assert_eq!(all_outcomes(stack, id, 2).await, ["completed", "duplicate"]);
            assert_eq!(executions(stack, id).await.unwrap(), 1);
        }
    });
}

/// Has everything crash, once for all tests.
async fn crashes(local: &Local) -> &'static Crashes {
    CRASHES.get_or_init(async || crash(local).await).await
}

async fn crash(local: &Local) -> Crashes {
    let stack = local.another_stack("crashes", &PARAMETERS).await.unwrap();
    let killed = Sent::new(&probe(&["hang", "succeed"]));
    let mut request = probe(&["hang"]);
    request["payload"]["hold"] = json!(true);
    let held = Sent::new(&request);
    send_all(&stack, &[killed.body, held.body.clone()]).await.unwrap();
    for id in [&killed.id, &held.id] {
        wait_until_running(&stack, id).await;
    }
    kill(&stack.outputs.consumer, &local.emulator.endpoint());

    let block = json!({ "kind": "probe", "payload": {
        "attempts": [{ "block_for_ms": 60_000 }, "succeed"],
    } });
    let blocked = Sent::new(&block);
    let neighbours: Vec<_> = (0..9).map(|_| Sent::new(&report("Beside"))).collect();
    let mut bodies: Vec<_> = neighbours.iter().map(|sent| sent.body.clone()).collect();
    bodies.insert(5, blocked.body);
    send_all(&stack, &bodies).await.unwrap();
    wait_until_running(&stack, &blocked.id).await;
    let neighbours = neighbours.into_iter().map(|sent| sent.id).collect();
    Crashes { stack, killed: killed.id, held, blocked: blocked.id, neighbours }
}

impl Sent {
    fn new(request: &Value) -> Self {
        let id = new_id();
        let body = message(&id, &request.to_string()).unwrap();
        Self { id, body }
    }
}

async fn wait_until_running(stack: &Stack, id: &str) {
    let running = eventually(PATIENCE, "the job is running", async || {
        let entry = stack.entry(id).await?;
        let is_running = entry.is_some_and(|entry| entry["state"].as_s().unwrap() == "running");
        Ok(is_running.then_some(()))
    });
    running.await.unwrap();
}

/// Kills this emulator's processes of a function, as a crash of their host would.
pub(crate) fn kill(function: &str, endpoint: &str) {
    let processes = processes_of(function, endpoint);
    assert!(!processes.is_empty(), "{function} has no process");
    for process in processes {
        kill_process(process, Signal::KILL).unwrap();
    }
}

/// What came of a job's records, once there are that many.
async fn all_outcomes(stack: &Stack, id: &str, count: usize) -> Vec<String> {
    // A batch's log is written when the batch has ended.
    let told = eventually(UNTIL_IT_IS_BACK, "the outcomes are in the log", async || {
        let told = outcomes(stack, id).await?;
        Ok((told.len() >= count).then_some(told))
    });
    told.await.unwrap()
}

async fn consumer_log(stack: &Stack) -> Vec<Line> {
    stack.logs.of_function(&stack.outputs.consumer, 0).await.unwrap()
}

/// The starts of a job's handler in their order, with the log stream (that is,
/// the invocation) of each.
fn starts<'a>(lines: &'a [Line], id: &str) -> Vec<(&'a str, Value)> {
    let mut starts: Vec<_> = lines
        .iter()
        .filter_map(|line| Some((line.log_stream_name.as_str(), line.about_job(id)?)))
        .filter(|(_, event)| event["message"] == "job started")
        .collect();
    starts.sort_by(|(_, one), (_, other)| moment(one).cmp(moment(other)));
    starts
}

/// When an event happened: RFC 3339 in UTC, which sorts as text.
fn moment(event: &Value) -> &str {
    event["timestamp"].as_str().unwrap()
}
