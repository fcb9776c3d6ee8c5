//! The program itself, with stand-ins for Lambda, AWS, a receiver of webhooks
//! and a collector of spans.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use shared::fake_aws::{FakeAws, Reply};

use crate::rig::Job;

const ROOT: &str = "Root=1-5759e988-bd862e3fe1be46a994272793";

/// Hands out one batch; everything else is answered with success.
pub(crate) async fn server(batch: Value) -> FakeAws {
    let is_handed_out = AtomicBool::default();
    let reply = FakeAws::start(move |request| {
        if !request.line.starts_with("GET /2018-06-01/runtime/invocation/next") {
            return Reply::Ok(json!({}));
        }
        if is_handed_out.swap(true, Ordering::Relaxed) {
            return Reply::Never;
        }
        Reply::invocation("1", batch.clone())
    });
    reply.await.unwrap()
}

pub(crate) fn program(server: &FakeAws) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consumer"));
    command.env_clear().stdout(Stdio::null()).envs([
        ("QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"),
        ("DEAD_LETTER_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/dead"),
        ("TABLE_NAME", "jobs"),
        ("MAX_RECEIVE_COUNT", "5"),
        ("FUNCTION_TIMEOUT_SECONDS", "30"),
        ("QUEUE_RETENTION_SECONDS", "345600"),
        ("WEBHOOK_ALLOWED_HOSTS", "127.0.0.1"),
        ("WEBHOOK_ALLOW_HTTP", "true"),
    ]);
    command.envs(server.variables("consumer"));
    command
}

#[tokio::test]
async fn a_job_goes_on_with_its_messages_trace_and_hands_it_to_the_receiver() {
    // The receiver's port is known only once the server runs: it is the server.
    let receiver = server(Value::Null).await;
    let url = format!("http://{}/hook", receiver.address());
    let mut record = Job::with_payload("webhook", &json!({ "url": url })).record("m-1");
    record["attributes"]["AWSTraceHeader"] =
        json!(format!("{ROOT};Parent=53995c3f42cd8ad8;Sampled=1"));
    let server = server(json!({ "Records": [record] })).await;
    let mut process = program(&server).spawn().unwrap();
    let sent = server.posted("/v1/traces").await.unwrap().body;
    process.kill().unwrap();
    process.wait().unwrap();

    let spans = sent.pointer("/resourceSpans/0/scopeSpans/0/spans").unwrap();
    let span = spans.as_array().unwrap().iter().find(|span| span["name"] == "record").unwrap();
    assert_eq!(span["traceId"], "5759e988bd862e3fe1be46a994272793");
    assert_eq!(span["parentSpanId"], "53995c3f42cd8ad8");
    let expected =
        format!("00-5759e988bd862e3fe1be46a994272793-{}-01", span["spanId"].as_str().unwrap());
    assert_eq!(receiver.posted("/hook").await.unwrap().headers["traceparent"], expected);
}

#[tokio::test]
async fn why_a_batch_failed_is_logged_once_and_not_as_rust_code() {
    let server = server(json!({ "no": "records" })).await;
    let mut process = program(&server).stdout(Stdio::piped()).spawn().unwrap();
    let told = server.posted("/2018-06-01/runtime/invocation/1/error").await.unwrap().body;
    process.kill().unwrap();
    let logged = String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(told["errorType"], "UnexpectedEvent", "{told}");
    let why = "the event cannot be taken";
    assert!(told["errorMessage"].as_str().unwrap().contains(why), "{told}");
    assert_eq!(logged.matches(why).count(), 1, "{logged}");
    assert!(logged.contains("the invocation is an error: UnexpectedEvent"), "{logged}");
    assert!(!logged.contains("Diagnostic"), "{logged}");
}
