//! What SQS and DynamoDB may answer, through the real SDK.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aws_types::SdkConfig;
use producer::{CALL_LIMITS, DEAD_LETTER_RESERVE, Producer, SqsJobQueue};
use serde_json::{Value, json};
use shared::aws::{Access, configure};
use shared::fake_aws::{FakeAws, Reply, Request};
use shared::jobs::Rules;
use shared::metrics::Metrics;
use shared::table::{DynamoJobTable, GroupedJobTable};
use shared::{Clock, Ids};

use crate::events::{BODY, Event, sample};
use crate::fakes::Answer;
use crate::logs;

/// What SQS answers when it has taken a message.
fn sent() -> Value {
    json!({"MessageId": "3f0c8d0e-3a6b-4c55-9a2f-7d3c5d8f1e20", "MD5OfMessageBody": "x"})
}

/// The producer as it is deployed, but for the endpoint.
pub(crate) fn producer(
    config: &SdkConfig,
) -> Producer<GroupedJobTable<DynamoJobTable>, SqsJobQueue> {
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs".parse().unwrap();
    Producer {
        table: GroupedJobTable::new(Arc::new(DynamoJobTable::new(config, "jobs")), true),
        queue: SqsJobQueue::new(config, &url),
        clock: Clock::system(),
        ids: Ids::random(),
        message_limit: 1024 * 1024 - DEAD_LETTER_RESERVE,
        rules: Rules::default(),
        entry_ttl: Duration::from_hours(30 * 24),
        metrics: Metrics::none(),
    }
}

/// Sends one event and gives back its answer, the log, and the time it took.
async fn send(config: &SdkConfig, event: &Event) -> (Answer, String, Duration) {
    logs::capture();
    let started = Instant::now();
    let answer = producer(config).handle(&event.raw(), None).await.unwrap();
    let answer = Answer::read(serde_json::to_value(answer).unwrap());
    (answer, logs::text(), started.elapsed())
}

fn is_send(request: &Request) -> bool {
    request.operation == "SendMessage"
}

/// A DynamoDB that says yes, and an SQS that answers `reply`.
async fn aws_with_sqs(reply: Reply) -> FakeAws {
    start(move |request| if is_send(request) { reply.clone() } else { Reply::Ok(json!({})) }).await
}

async fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> FakeAws {
    FakeAws::start(reply).await.unwrap()
}

fn assert_shows_no_plumbing(answer: &Answer) {
    let text = answer.event.to_string();
    for plumbing in
        ["arn:", "123456789012", "http:", "amazonaws", "sqs", "SQS", "DynamoDB", "service error"]
    {
        assert!(!text.contains(plumbing), "{plumbing} in {text}");
    }
    assert!(answer.body.get("id").is_none(), "{text}");
}

#[tokio::test]
async fn a_message_reaches_sqs_with_its_attributes() {
    let server = aws_with_sqs(Reply::Ok(sent())).await;
    let body = BODY.replacen('{', r#"{"delay_seconds":7,"#, 1);
    let (answer, log, _) = send(&server.sdk_config(CALL_LIMITS), &Event::post(&body)).await;
    assert_eq!(answer.status, 202, "{log}");
    let sent = &server.requests("SendMessage")[0].body;
    assert_eq!(sent["QueueUrl"], "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs");
    assert_eq!(
        sent["MessageAttributes"],
        json!({"kind": {"DataType": "String", "StringValue": "report"}})
    );
    assert_eq!(
        sent["MessageSystemAttributes"],
        json!({"AWSTraceHeader": {
            "DataType": "String",
            "StringValue": "Root=1-65537c80-0a1b2c3d4e5f60718293a4b5"
        }})
    );
    assert_eq!(sent["DelaySeconds"], 7);
    assert_eq!(sent["MessageGroupId"].as_str().unwrap().len(), 64);
    let message = shared::message::Message::decode(sent["MessageBody"].as_str().unwrap()).unwrap();
    assert_eq!(message.id.to_string(), answer.id());
    assert!(log.contains("job accepted") && log.contains(answer.id()), "{log}");
}

#[tokio::test]
async fn an_answer_waits_for_that_of_sqs() {
    let reply = Reply::After(Duration::from_millis(500), sent());
    let server = aws_with_sqs(reply).await;
    let config = server.sdk_config(CALL_LIMITS);
    for event in [Event::post(BODY), Event::post(BODY).key("k")] {
        let (answer, _, elapsed) = send(&config, &event).await;
        assert_eq!(answer.status, 202);
        assert!(elapsed >= Duration::from_millis(500), "{elapsed:?}");
    }
}

#[tokio::test]
async fn what_time_may_mend_is_503() {
    for (status, code) in [
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (400, "ThrottlingException"),
        (403, "RequestThrottled"),
        (400, "KmsThrottled"),
    ] {
        let server = aws_with_sqs(Reply::Error(status, code)).await;
        let (answer, log, elapsed) =
            send(&server.sdk_config(CALL_LIMITS), &Event::post(BODY)).await;
        assert_eq!((answer.status, answer.problem()), (503, "unavailable"), "{code}");
        assert_eq!(answer.header("retry-after"), Some("5"));
        assert_shows_no_plumbing(&answer);
        assert!(log.contains(code) && log.contains("fake-request-id"), "{log}");
        assert!(elapsed < CALL_LIMITS.operation, "{elapsed:?}");
    }
}

#[tokio::test]
async fn what_only_a_deployment_can_mend_is_500() {
    // SQS tells two names: its own, and that of its former protocol.
    for (code, query_code) in [
        ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
        ("QueueDoesNotExist", ""),
        ("AccessDeniedException", "AccessDenied"),
        ("AccessDeniedException", ""),
        ("KmsAccessDenied", "KMS.AccessDeniedException"),
    ] {
        let mut reply = Reply::Error(400, code);
        if !query_code.is_empty() {
            reply = reply.with("x-amzn-query-error", format!("{query_code};Sender"));
        }
        let server = aws_with_sqs(reply).await;
        let (answer, log, _) = send(&server.sdk_config(CALL_LIMITS), &Event::post(BODY)).await;
        assert_eq!((answer.status, answer.problem()), (500, "internal"), "{code}: {log}");
        assert_eq!(answer.header("retry-after"), None);
        assert_shows_no_plumbing(&answer);
        assert_eq!(server.requests("SendMessage").len(), 1);
        let lines: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
        assert_eq!(lines.len(), 1, "{log}");
        let line: Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(line["aws_request_id"], "fake-request-id");
        assert!(line["cause"].as_str().unwrap().contains(&format!("jobs {code}")), "{line}");
        let expected = if query_code.is_empty() { code } else { query_code };
        assert_eq!(line["aws_code"], expected);
    }
}

#[tokio::test]
async fn a_success_that_names_no_message_is_none() {
    let server = aws_with_sqs(Reply::Ok(json!({}))).await;
    let (answer, log, _) = send(&server.sdk_config(CALL_LIMITS), &Event::post(BODY)).await;
    assert_eq!(answer.status, 503, "{log}");
    assert!(log.contains("no message id"), "{log}");
}

#[tokio::test]
async fn a_moment_of_trouble_is_got_over() {
    let failures = AtomicU32::new(2);
    let server = start(move |request| {
        let trouble = failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        match is_send(request) {
            true if trouble => Reply::Error(500, "InternalError"),
            true => Reply::Ok(sent()),
            false => Reply::Ok(json!({})),
        }
    })
    .await;
    let event = Event::post(BODY).key("k");
    let (answer, log, _) = send(&server.sdk_config(CALL_LIMITS), &event).await;
    assert_eq!(answer.status, 202, "{log}");
}

#[tokio::test]
async fn nobody_there_is_503() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let config = configure(Access::for_tests(&address), CALL_LIMITS);
    for event in [Event::post(BODY), Event::post(BODY).key("k")] {
        let (answer, log, elapsed) = send(&config, &event).await;
        assert_eq!(answer.status, 503);
        assert_shows_no_plumbing(&answer);
        assert!(log.to_lowercase().contains("connect"), "{log}");
        assert!(elapsed < CALL_LIMITS.operation, "{elapsed:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_never_answers_does_not_eat_the_invocation() {
    let server = start(|_| Reply::Never).await;
    let config = server.sdk_config(CALL_LIMITS);
    let (post, get) = (Event::post(BODY), sample!("http-get-job"));
    // At the same time, since each takes as long as a call may.
    let (post, get) = tokio::join!(send(&config, &post), send(&config, &get));
    for (answer, _, elapsed) in [&post, &get] {
        assert_eq!(answer.status, 503);
        assert!(*elapsed < CALL_LIMITS.operation + Duration::from_secs(1), "{elapsed:?}");
    }
    let log = post.1 + &get.1;
    assert!(log.contains("timeout") || log.contains("timed out"), "{log}");
}

#[tokio::test]
async fn a_table_that_says_no_is_told_from_one_that_is_away() {
    for (code, status) in [
        ("ProvisionedThroughputExceededException", 503),
        ("InternalServerError", 503),
        ("ResourceNotFoundException", 500),
        ("AccessDeniedException", 500),
        ("ValidationException", 500),
    ] {
        let http = if code == "InternalServerError" { 500 } else { 400 };
        let server =
            start(
                move |request| {
                    if is_send(request) { Reply::Ok(sent()) } else { Reply::Error(http, code) }
                },
            )
            .await;
        let config = server.sdk_config(CALL_LIMITS);
        let (answer, log, _) = send(&config, &Event::post(BODY).key("k")).await;
        assert_eq!(answer.status, status, "{code}: {log}");
        assert_eq!(server.requests("SendMessage").len(), 0);
        assert_shows_no_plumbing(&answer);
        assert!(log.contains(code) && log.contains("fake-request-id"), "{log}");
    }
}

#[tokio::test]
async fn missing_credentials_are_found_at_once_and_named() {
    let server = start(|_| Reply::Never).await;
    let mut builder = server.sdk_config(CALL_LIMITS).into_builder();
    builder.set_credentials_provider(None);
    let (answer, log, elapsed) = send(&builder.build(), &Event::post(BODY)).await;
    assert!(answer.status >= 500, "{answer:?}");
    assert!(log.contains("credential") || log.contains("identity"), "{log}");
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
    assert_eq!(server.received().len(), 0);
}

/// The first write takes effect, but its answer is lost; the SDK sends it
/// again and meets its own write.
#[tokio::test]
async fn a_cancellation_that_the_sdk_repeats_meets_its_own_write() {
    let failures = AtomicU32::new(1);
    let server = start(move |request| {
        let event = sample!("http-cancel-job");
        let caller = event.value()["requestContext"]["authorizer"]["iam"]["userId"].clone();
        let caller = caller.as_str().unwrap().split(':').next().unwrap().to_owned();
        assert_eq!(request.operation, "UpdateItem");
        if failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok()
        {
            return Reply::Reset;
        }
        let code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        let item = json!({
            "job_id": request.body["Key"]["job_id"], "kind": {"S": "report"},
            "state": {"S": "cancelled"}, "principal": {"S": format!("iam:123456789012:{caller}")},
            "fingerprint": {"S": "f"}, "created_at": {"N": "1"}, "updated_at": {"N": "2"},
            "expires_at": {"N": "99999999999"},
        });
        Reply::Json(400, json!({"__type": code, "message": "refused", "Item": item}))
    })
    .await;
    let config = server.sdk_config(CALL_LIMITS);
    let (answer, log, _) = send(&config, &sample!("http-cancel-job")).await;
    assert_eq!((answer.status, &answer.body["state"]), (200, &json!("cancelled")), "{log}");
    assert_eq!(server.requests("UpdateItem").len(), 2);
}
