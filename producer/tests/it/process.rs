//! The program itself, with a stand-in for Lambda's runtime API.

use std::collections::VecDeque;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use shared::emf::published;
use shared::fake_aws::{FakeAws, Reply};

use crate::events::{BODY, Event};

fn program(variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_producer"));
    command.env_clear().envs(variables.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[test]
fn a_bad_configuration_is_one_line_and_a_failure() {
    let sound = [
        ("QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"),
        ("TABLE_NAME", "jobs"),
        ("MAX_MESSAGE_BYTES", "1048576"),
    ];
    for (name, value, expected) in [
        ("QUEUE_URL", "", "QUEUE_URL is not set"),
        ("QUEUE_URL", "jobs", "not the URL of an SQS queue"),
        ("QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/jobs.fifo", "FIFO"),
        ("TABLE_NAME", " ", "TABLE_NAME is not set"),
        ("MAX_MESSAGE_BYTES", "x", "MAX_MESSAGE_BYTES"),
    ] {
        let variables =
            sound.map(|(known, sound)| if known == name { (name, value) } else { (known, sound) });
        let output = program(&variables).output().unwrap();
        let text = text(&output);
        assert!(!output.status.success() && text.contains(expected), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let text = text(&program(&[]).output().unwrap());
    for name in ["QUEUE_URL", "TABLE_NAME", "MAX_MESSAGE_BYTES"] {
        assert!(text.contains(name), "{text}");
    }
}

/// Answers as Lambda, SQS and DynamoDB at once.
async fn aws(events: Vec<Event>) -> FakeAws {
    let events: VecDeque<_> = events.into_iter().enumerate().collect();
    let events = Mutex::new(events);
    let reply = FakeAws::start(move |request| {
        if request.line.starts_with("GET /2018-06-01/runtime/invocation/next") {
            let Some((number, event)) = events.lock().unwrap().pop_front() else {
                return Reply::Never;
            };
            return Reply::invocation(number.to_string(), event.value().clone());
        }
        match request.operation.as_str() {
            "SendMessage" => Reply::Ok(json!({"MessageId": "m"})),
            "" => Reply::Json(202, json!({})),
            _ => Reply::Ok(json!({})),
        }
    });
    reply.await.unwrap()
}

/// The program, with all that Lambda tells it.
fn function(server: &FakeAws) -> Command {
    let mut command = program(&[
        ("QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"),
        ("TABLE_NAME", "jobs"),
        ("MAX_MESSAGE_BYTES", "1048576"),
        ("METRICS_NAMESPACE", "Ours"),
        ("AWS_LAMBDA_HTTP_IGNORE_STAGE_IN_PATH", "false"),
    ]);
    command.envs(server.variables("producer"));
    command
}

/// What the program asked for until it asked for its first event.
async fn asked_at_its_start(server: &FakeAws) -> Vec<String> {
    let mut process = function(server).spawn().unwrap();
    let mut asked = Vec::new();
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(25)).await;
        asked = server.received();
        if asked.iter().any(|request| request.line.contains("/invocation/next ")) {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let asked = asked.into_iter().take_while(|request| !request.operation.is_empty());
    asked.map(|request| request.operation).collect()
}

/// Runs the program until it has posted to a path; what it has logged.
async fn run_until_posted(server: &FakeAws, path: &str) -> String {
    let mut process = function(server).spawn().unwrap();
    server.posted(path).await;
    process.kill().unwrap();
    text(&process.wait_with_output().unwrap())
}

#[tokio::test]
async fn the_connections_are_open_before_the_first_event() {
    let server = aws(Vec::new()).await;
    let mut asked = asked_at_its_start(&server).await;
    asked.sort();
    assert_eq!(asked, ["GetItem", "GetQueueAttributes"]);
    assert!(server.received().last().unwrap().line.contains("/invocation/next "));
}

#[tokio::test]
async fn an_aws_that_does_not_answer_delays_the_start_but_does_not_prevent_it() {
    let server = FakeAws::start(|_| Reply::Never).await.unwrap();
    let asked = asked_at_its_start(&server).await;
    assert!(asked.len() >= 2, "{asked:?}");
    assert!(server.received().last().unwrap().line.contains("/invocation/next "));
}

#[tokio::test]
async fn events_that_are_no_requests_leave_the_process_healthy() {
    let sqs = Event::of(json!({"Records": [{"messageId": "m", "body": "{}"}]}));
    let not_base64 = Event::post("%%%").with("/isBase64Encoded", json!(true));
    let server = aws(vec![sqs, not_base64, Event::post(BODY)]).await;
    let invocation = |path: &str| format!("/2018-06-01/runtime/invocation/{path}");
    let posted = async |path: &str| server.posted(&invocation(path)).await;
    let log = run_until_posted(&server, &invocation("2/response")).await;

    let error = posted("0/error").await.expect(&log).body;
    assert_eq!(error["errorType"], "NotHttp");
    assert!(error["errorMessage"].as_str().unwrap().contains("expects events of"), "{error}");
    let lines = log.lines().filter(|line| line.contains("\"level\":\"ERROR\"")).count();
    assert_eq!(lines, 1, "{log}");
    let cold = log.lines().filter(|line| line.contains("cold_start")).count();
    assert_eq!(log.lines().filter(|line| line.contains("ColdStarts")).count(), 1, "{log}");
    assert_eq!(cold, 0, "nothing of ours was logged about the first event: {log}");
    let accepted_line = log.lines().find(|line| line.contains("job accepted")).expect(&log);
    assert!(accepted_line.contains(r#""aws.request_id":"2""#), "{accepted_line}");
    assert_eq!(published(&log, "Ours").expect("sound")["JobsAccepted"], [1.0]);
    let refused = posted("1/response").await.expect(&log).body;
    assert_eq!(refused["statusCode"], 400);
    let accepted = posted("2/response").await.expect(&log).body;
    assert_eq!(accepted["statusCode"], 202, "{log}");
    assert_eq!(server.requests("SendMessage").len(), 1);
}

#[tokio::test]
async fn a_request_and_its_message_belong_to_one_trace() {
    let header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let event = Event::post(BODY).with("/headers/x-amzn-trace-id", json!(header));
    let server = aws(vec![event]).await;
    let log = run_until_posted(&server, "/v1/traces").await;

    let sent = server.posted("/v1/traces").await.expect(&log).body;
    let spans = sent.pointer("/resourceSpans/0/scopeSpans/0/spans").expect(&log);
    let request = spans.as_array().unwrap().iter().find(|span| span["name"] == "request");
    let request = request.expect(&log);
    assert_eq!(request["traceId"], "5759e988bd862e3fe1be46a994272793");
    assert_eq!(request["parentSpanId"], "53995c3f42cd8ad8");
    // Whoever works on the job goes on from there.
    let message = &server.requests("SendMessage")[0].body;
    let on = message.pointer("/MessageSystemAttributes/AWSTraceHeader/StringValue");
    let root = "Root=1-5759e988-bd862e3fe1be46a994272793";
    let parent = request["spanId"].as_str().unwrap();
    assert_eq!(on.unwrap(), &json!(format!("{root};Parent={parent};Sampled=1")));
}
