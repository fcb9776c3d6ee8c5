//! What the tests share.

use std::sync::LazyLock;
use std::time::Duration;

use ops::functions::Profile;
use ops::local::{Local, Options};
use ops::progress::Progress;
use ops::stack::Stack;
use ops::workspace::Workspace;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use uuid::Uuid;

/// A job takes milliseconds. A message whose invocation was lost on a busy machine
/// comes back when its visibility timeout of 61 s is over, and that is no failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(61 + 20);

/// Short leases and backoffs, so that what comes back does so soon.
pub(crate) const PARAMETERS: [(&str, &str); 3] =
    [("ConsumerTimeout", "10"), ("BackoffBaseSeconds", "1"), ("BackoffCapSeconds", "1")];

/// One for all tests: the clients' connections belong to it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Never dropped; the emulator's watchdog sees this process end.
static LOCAL: OnceCell<Result<Local, String>> = OnceCell::const_new();

/// Runs a test that has a set-up of its own.
pub(crate) fn run(test: impl Future<Output = ()>) {
    RUNTIME.block_on(test);
}

/// Runs a test against the shared set-up.
pub(crate) fn end_to_end(test: impl AsyncFnOnce(&Local)) {
    run(async {
        let local = LOCAL.get_or_init(start).await;
        let local = local.as_ref().unwrap_or_else(|error| panic!("the set-up failed: {error}"));
        test(local).await;
    });
}

async fn start() -> Result<Local, String> {
    let options = Options {
        profile: Profile::EndToEnd,
        port: None,
        parameters: &PARAMETERS,
        functions_endpoint: None,
    };
    let started = Local::start(&Workspace::here(), options, Progress::Lines).await;
    started.map_err(|error| format!("{error:#}"))
}

/// A request for a report with this title.
pub(crate) fn report(title: &str) -> Value {
    let rows = json!([
        { "group": "north", "amount": "12.50" },
        { "group": "south", "amount": "0.10" },
        { "group": "north", "amount": "7.25" },
        { "group": "south", "amount": "0.20" },
    ]);
    json!({ "kind": "report", "payload": { "title": title, "rows": rows } })
}

/// A request for a job that does as it is told, attempt by attempt.
pub(crate) fn probe(attempts: &[&str]) -> Value {
    json!({ "kind": "probe", "payload": { "attempts": attempts } })
}

/// An id that no job has yet.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}

/// Posts a request that must be accepted, and returns the job's id.
pub(crate) async fn accepted(stack: &Stack, request: &Value, key: Option<&str>) -> String {
    let answer = stack.api.post_job(request.to_string(), key).await.unwrap();
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.id().unwrap().to_owned()
}

/// Waits for a job's end and returns it as the API shows it.
pub(crate) async fn ended(stack: &Stack, id: &str) -> Value {
    stack.api.wait_for_job(id, PATIENCE).await.unwrap().body
}
