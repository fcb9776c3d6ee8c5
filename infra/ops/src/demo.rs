//! `cargo ops demo`: sends real jobs through the real template and checks what
//! comes of them.

mod outside;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::evidence::executions;
use crate::functions::Profile;
use crate::local::{Local, Options};
use crate::messages::{message, send_all};
use crate::output::print;
use crate::progress::Progress;
use crate::stack::Stack;
use crate::stories::{Row, table};
use crate::workspace::Workspace;

/// A job takes milliseconds, a busy machine seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A short lease, so that copies that met a running job come back soon.
const PARAMETERS: [(&str, &str); 1] = [("ConsumerTimeout", "10")];

/// More than two batches of ten.
const COPIES: usize = 30;

/// What no consumer can read: it names no job.
const POISON: &str = "this is no job, whoever sent it";

/// Sets up, tells every story, prints the table, and takes everything down.
///
/// # Errors
///
/// The set-up failed, or something differed from what is promised.
pub async fn run(workspace: &Workspace, progress: Progress) -> Result<()> {
    let options = Options {
        profile: Profile::Release,
        port: None,
        parameters: &PARAMETERS,
        functions_endpoint: None,
    };
    let local = Local::start(workspace, options, progress).await?;
    let requests = Requests::read(workspace)?;
    let step = progress.step("Jobs");
    let rows = tell_all(&local, &requests, |title| step.at(title)).await;
    let broken: Vec<_> = rows.iter().filter_map(Row::broken).collect();
    step.ended(broken.is_empty(), &format!("{} stories", rows.len()));
    print(&format!("\n{}\n", table(&rows)))?;
    if !broken.is_empty() {
        bail!("not as promised: {}", broken.join("; "));
    }
    print("All as promised. `cargo ops up` keeps it running; the README says what next.")
}

/// The samples that the stories send.
struct Requests {
    report: String,
    invalid: String,
}

impl Requests {
    fn read(workspace: &Workspace) -> Result<Self> {
        let read = |name: &str| {
            let path = format!("events/requests/{name}");
            std::fs::read_to_string(workspace.path(&path)).context(format!("could not read {path}"))
        };
        Ok(Self { report: read("report.json")?, invalid: read("report-invalid-rows.json")? })
    }
}

async fn tell_all(local: &Local, requests: &Requests, show: impl Fn(&'static str)) -> Vec<Row> {
    let stack = &local.stack;
    let mut rows = Vec::new();
    let title = "A report";
    show(title);
    rows.push(Row::new(title, a_report(stack, requests).await));
    let title = "The same request twice, with one Idempotency-Key";
    show(title);
    rows.push(Row::new(title, twice_with_one_key(stack, requests).await));
    let title = "30 copies of one SQS message, in several batches";
    show(title);
    rows.push(Row::new(title, copies_of_one_message(stack, requests).await));
    let title = "A request with two invalid rows";
    show(title);
    rows.push(Row::new(title, an_invalid_request(stack, requests).await));
    let title = "A message that is no job, between two that are";
    show(title);
    rows.push(Row::new(title, a_poison_message(stack, requests).await));
    let title = "A webhook whose receiver is busy, twice";
    show(title);
    rows.push(Row::new(title, outside::a_busy_receiver(local).await));
    let title = "A webhook whose receiver is gone";
    show(title);
    rows.push(Row::new(title, outside::a_receiver_that_is_gone(local).await));
    let title = "An e-mail, asked for by two services";
    show(title);
    rows.push(Row::new(title, outside::an_email_asked_for_twice(local).await));
    rows
}

async fn a_report(stack: &Stack, requests: &Requests) -> Result<(String, Duration)> {
    let start = Instant::now();
    let accepted = stack.api.post_job(requests.report.as_str(), None).await?;
    ensure!(accepted.status == 202, "expected 202, got {} {}", accepted.status, accepted.body);
    let job = stack.api.wait_for_job(accepted.id()?, PATIENCE).await?;
    let took = start.elapsed();
    ensure!(job.text("/state") == "succeeded", "the job ended as {}", job.body);
    let total = job.body.pointer("/result/total").cloned().unwrap_or_default();
    ensure!(total.get("sum") == Some(&json!("16.30")), "the total is {total}, not 16.30");
    let told = format!(
        "202 after {} ms, then succeeded: {}",
        accepted.took.as_millis(),
        figures(&job.body)
    );
    Ok((told, took))
}

async fn twice_with_one_key(stack: &Stack, requests: &Requests) -> Result<(String, Duration)> {
    let start = Instant::now();
    let key = Uuid::new_v4().to_string();
    let first = stack.api.post_job(requests.report.as_str(), Some(&key)).await?;
    let second = stack.api.post_job(requests.report.as_str(), Some(&key)).await?;
    ensure!(first.status == 202, "expected 202, got {} {}", first.status, first.body);
    ensure!(second.status == 202, "expected 202 again, got {} {}", second.status, second.body);
    let id = first.id()?;
    ensure!(second.id()? == id, "two ids for one key: {id} and {}", second.text("/id"));
    stack.api.wait_for_job(id, PATIENCE).await?;
    let took = start.elapsed();
    stack.wait_until_queue_is_empty(PATIENCE).await?;
    let executions = executions(stack, id).await?;
    ensure!(executions == 1, "the job was executed {executions} times");
    Ok((format!("one job, {id}\nexecutions in the consumer's log: 1"), took))
}

async fn copies_of_one_message(stack: &Stack, requests: &Requests) -> Result<(String, Duration)> {
    let start = Instant::now();
    let id = Uuid::now_v7().to_string();
    let body = message(&id, &requests.report)?;
    send_all(stack, &vec![body; COPIES]).await?;
    let job = stack.api.wait_for_job(&id, PATIENCE).await?;
    let took = start.elapsed();
    ensure!(job.text("/state") == "succeeded", "the job ended as {}", job.body);
    // Copies that met the running job come back after its lease.
    stack.wait_until_queue_is_empty(PATIENCE).await?;
    let attempt = job.body.get("attempt").cloned().unwrap_or_default();
    ensure!(attempt == json!(1), "the job took attempt {attempt}");
    let executions = executions(stack, &id).await?;
    ensure!(executions == 1, "the job was executed {executions} times");
    let told = "one job, attempt 1\nexecutions in the consumer's log: 1, and the queue is empty";
    Ok((told.to_owned(), took))
}

async fn an_invalid_request(stack: &Stack, requests: &Requests) -> Result<(String, Duration)> {
    let answer = stack.api.post_job(requests.invalid.as_str(), None).await?;
    ensure!(answer.status == 422, "expected 422, got {} {}", answer.status, answer.body);
    ensure!(
        answer.content_type == "application/problem+json",
        "the problem's type is {}",
        answer.content_type
    );
    let errors = answer.body.get("errors").and_then(Value::as_array);
    let mut told = format!("422 {}", answer.text("/title"));
    let mut pointers = Vec::new();
    for error in errors.into_iter().flatten() {
        let field = |name| error.get(name).and_then(Value::as_str).unwrap_or_default();
        pointers.push(field("pointer"));
        told = format!("{told}\n{}: {}", field("pointer"), field("detail"));
    }
    let expected = ["/payload/rows/1/amount", "/payload/rows/2/group"];
    ensure!(pointers == expected, "the problem points at {pointers:?}, not {expected:?}");
    Ok((told, answer.took))
}

async fn a_poison_message(stack: &Stack, requests: &Requests) -> Result<(String, Duration)> {
    let start = Instant::now();
    let neighbours = [Uuid::now_v7().to_string(), Uuid::now_v7().to_string()];
    let [before, after] =
        [message(&neighbours[0], &requests.report)?, message(&neighbours[1], &requests.report)?];
    send_all(stack, &[before, POISON.to_owned(), after]).await?;
    let letter = stack.wait_for_dead_letter(POISON, PATIENCE).await?;
    let took = start.elapsed();
    let reason = letter.message_attributes().and_then(|all| all.get("reason"));
    let reason = reason.and_then(|reason| reason.string_value()).unwrap_or_default().to_owned();
    ensure!(!reason.is_empty(), "the dead letter does not say why it is one");
    for id in &neighbours {
        let job = stack.api.wait_for_job(id, PATIENCE).await?;
        ensure!(job.text("/state") == "succeeded", "its neighbour ended as {}", job.body);
    }
    let told = format!(
        "dead-letter queue, body unchanged, reason \"{reason}\"\nboth neighbours succeeded"
    );
    Ok((told, took))
}

/// A result in one line a group.
fn figures(job: &Value) -> String {
    let groups = job.pointer("/result/groups").and_then(Value::as_array);
    let mut told = String::new();
    for group in groups.into_iter().flatten() {
        let field = |name| group.get(name).and_then(Value::as_str).unwrap_or("?");
        let (name, sum) = (field("group"), field("sum"));
        told = format!(
            "{told}\n{name}: sum {sum}, mean {}, median {}",
            field("mean"),
            field("median")
        );
    }
    told
}
