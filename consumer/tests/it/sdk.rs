//! What AWS answers, or does not, through the real SDK: its retries, its
//! timeouts and its reading of errors are in the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use consumer::backoff::Backoff;
use consumer::batch::BatchError;
use consumer::config::{CALL_LIMITS, Settings};
use consumer::jobs::{self, Handlers};
use consumer::queue::SqsRetryQueue;
use consumer::{Consumer, Deadline};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shared::config::EntryTtl;
use shared::fake_aws::{FakeAws, Reply, Request};
use shared::metrics::Metrics;
use shared::table::{DynamoJobTable, GroupedJobTable};
use shared::{Clock, Ids, Random};

use crate::rig::{Job, TIMEOUT, record};

fn consumer_of(aws: &FakeAws) -> Consumer<GroupedJobTable<DynamoJobTable>, SqsRetryQueue> {
    let config = aws.sdk_config(CALL_LIMITS);
    let queue = |name| format!("https://sqs.eu-west-1.amazonaws.com/1/{name}").parse().unwrap();
    Consumer {
        table: GroupedJobTable::new(Arc::new(DynamoJobTable::new(&config, "jobs")), true),
        queue: SqsRetryQueue::new(&config, queue("jobs"), queue("jobs-dead")),
        settings: Settings {
            max_receive_count: 5,
            retention: Duration::from_hours(4 * 24),
            function_timeout: TIMEOUT,
            concurrency: 10,
            backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_mins(15) },
            max_result_bytes: 64 * 1024,
            entry_ttl: EntryTtl::DEFAULT,
        },
        handlers: Handlers::new(jobs::Settings::default(), Clock::system()),
        clock: Clock::system(),
        ids: Ids::random(),
        random: Random::new(|| 1.0),
        metrics: Metrics::none(),
    }
}

/// One invocation against an AWS that answers what `reply` says.
async fn deliver(
    records: &[Value],
    reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> (Result<Vec<String>, BatchError>, FakeAws) {
    let aws = FakeAws::start(reply).await.unwrap();
    let consumer = consumer_of(&aws);
    let event = RawValue::from_string(json!({ "Records": records }).to_string()).unwrap();
    let deadline = Deadline::new(&consumer.clock, consumer.clock.now() + TIMEOUT, TIMEOUT);
    let answer = consumer.handle(&event, &deadline).await;
    let ids = answer.map(|answer| {
        let failures = answer.batch_item_failures.into_iter();
        failures.map(|failure| failure.item_identifier).collect()
    });
    (ids, aws)
}

/// Everything works; what is sent to SQS is confirmed.
fn works(request: &Request) -> Reply {
    match request.operation.as_str() {
        "SendMessage" => Reply::Ok(json!({ "MessageId": "letter" })),
        "BatchExecuteStatement" => {
            let statements = request.body["Statements"].as_array().unwrap();
            let done = vec![json!({ "TableName": "jobs" }); statements.len()];
            Reply::Ok(json!({ "Responses": done }))
        }
        _ => Reply::Ok(json!({})),
    }
}

#[tokio::test]
async fn an_error_that_is_no_condition_failure_never_counts_as_a_duplicate() {
    let errors = [
        Reply::Error(400, "ProvisionedThroughputExceededException"),
        Reply::Error(400, "ThrottlingException"),
        Reply::Error(500, "InternalServerError"),
        Reply::Error(400, "AccessDeniedException"),
        Reply::Error(400, "ResourceNotFoundException"),
        Reply::Error(400, "ValidationException"),
        Reply::Reset,
    ];
    for error in errors {
        let jobs = [(); 3].map(|()| Job::probe(&json!(["succeed"])));
        let records: Vec<_> = jobs.iter().map(|job| job.record(&job.id.to_string())).collect();
        let put = error.clone();
        let (answer, aws) = deliver(&records, move |request| match request.operation.as_str() {
            "BatchExecuteStatement" | "PutItem" => put.clone(),
            _ => works(request),
        })
        .await;
        assert_eq!(answer, Err(BatchError::Outage(3)), "{error:?}");
        assert!(jobs.iter().all(|job| job.runs().started == 0), "{error:?}");
        assert_eq!(aws.requests("ChangeMessageVisibility").len(), 3, "{error:?}");
    }
}

#[tokio::test]
async fn an_error_of_one_claim_costs_the_others_nothing() {
    let (good, bad) = (Job::probe(&json!(["succeed"])), Job::probe(&json!(["succeed"])));
    let bad_id = bad.id.to_string();
    let records = [good.record("m-1"), bad.record("m-2")];
    let (answer, _) = deliver(&records, move |request| match request.operation.as_str() {
        "BatchExecuteStatement" => Reply::Error(500, "InternalServerError"),
        "PutItem" if request.body["Item"]["job_id"]["S"] == bad_id.as_str() => {
            Reply::Error(400, "ValidationException")
        }
        _ => works(request),
    })
    .await;
    assert_eq!(answer.unwrap(), ["m-2"]);
    assert_eq!((good.runs().started, bad.runs().started), (1, 0));
}

#[tokio::test]
async fn a_few_failures_are_retried_within_the_call() {
    for failure in [Reply::Error(500, "InternalServerError"), Reply::Reset] {
        let job = Job::probe(&json!(["succeed"]));
        let puts = AtomicUsize::new(0);
        let (answer, _) = deliver(&[job.record("m")], move |request| {
            let is_put = request.operation == "PutItem";
            if is_put && puts.fetch_add(1, Ordering::Relaxed) < 2 {
                return failure.clone();
            }
            works(request)
        })
        .await;
        assert!(answer.unwrap().is_empty());
        assert_eq!(job.runs().started, 1);
    }
}

#[tokio::test]
async fn a_table_that_never_answers_costs_a_few_seconds_and_not_the_invocation() {
    let job = Job::probe(&json!(["succeed"]));
    let started = Instant::now();
    let (answer, _) = deliver(&[job.record("m")], |request| match request.operation.as_str() {
        "PutItem" => Reply::Never,
        _ => works(request),
    })
    .await;
    assert_eq!(answer, Err(BatchError::Outage(1)));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(job.runs().started, 0);
}

#[tokio::test]
async fn a_connection_that_died_while_frozen_costs_one_attempt() {
    let job = Job::probe(&json!(["succeed"]));
    let puts = AtomicUsize::new(0);
    let started = Instant::now();
    let (answer, _) = deliver(&[job.record("m")], move |request| {
        if request.operation == "PutItem" && puts.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::Never;
        }
        works(request)
    })
    .await;
    assert!(answer.unwrap().is_empty());
    assert!(started.elapsed() < CALL_LIMITS.operation, "{:?}", started.elapsed());
    assert_eq!(job.runs().started, 1);
}

/// The first put takes effect, but its answer is lost; the SDK sends it again
/// and meets its own write.
#[tokio::test]
async fn a_put_that_the_sdk_repeats_meets_its_own_write_and_runs() {
    let job = Job::probe(&json!(["succeed"]));
    let puts = AtomicUsize::new(0);
    let (answer, aws) = deliver(&[job.record("m")], move |request| {
        if request.operation != "PutItem" {
            return works(request);
        }
        if puts.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::Reset;
        }
        let refusal = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "message": "The conditional request failed",
            "Item": request.body["Item"],
        });
        Reply::Json(400, refusal)
    })
    .await;
    assert!(answer.unwrap().is_empty());
    assert_eq!(job.runs().started, 1);
    assert_eq!(aws.requests("UpdateItem").len(), 1);
}

#[tokio::test]
async fn a_refusal_with_a_succeeded_entry_is_a_duplicate() {
    let job = Job::probe(&json!(["succeed"]));
    let (answer, aws) = deliver(&[job.record("m")], |request| {
        let mut there = request.body["Item"].clone();
        there["state"] = json!({ "S": "succeeded" });
        there["lease_token"] = json!({ "S": "somebody-else" });
        let code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        Reply::Json(400, json!({ "__type": code, "Item": there }))
    })
    .await;
    assert!(answer.unwrap().is_empty());
    assert_eq!(job.runs().started, 0);
    assert!(aws.requests("UpdateItem").is_empty());
}

#[tokio::test]
async fn a_good_record_costs_one_put_and_one_update() {
    let job = Job::probe(&json!(["succeed"]));
    let (answer, aws) = deliver(&[job.record("m")], works).await;
    assert!(answer.unwrap().is_empty());
    let counts = ["PutItem", "UpdateItem", "GetItem", "ChangeMessageVisibility", "SendMessage"]
        .map(|operation| aws.requests(operation).len());
    assert_eq!(counts, [1, 1, 0, 0, 0]);
}

#[tokio::test]
async fn a_batch_of_ten_costs_two_calls_to_the_table() {
    let jobs = [(); 10].map(|()| Job::probe(&json!(["succeed"])));
    let records: Vec<_> = jobs.iter().map(|job| job.record(&job.id.to_string())).collect();
    let (answer, aws) = deliver(&records, works).await;
    assert!(answer.unwrap().is_empty());
    assert!(jobs.iter().all(|job| job.runs().started == 1));
    let operations: Vec<_> = aws.received().into_iter().map(|it| it.operation).collect();
    assert_eq!(operations, ["BatchExecuteStatement", "BatchExecuteStatement"]);
}

#[tokio::test]
async fn a_dead_letter_carries_body_attributes_group_and_trace() {
    let body = "{\"emoji\":\"\u{1f600}\"}";
    let (answer, aws) = deliver(&[record("m", body, 1)], works).await;
    assert!(answer.unwrap().is_empty());
    let sent = &aws.requests("SendMessage")[0].body;
    assert!(sent["QueueUrl"].as_str().unwrap().ends_with("/jobs-dead"));
    assert_eq!(sent["MessageBody"], body);
    assert_eq!(sent["MessageGroupId"], "group");
    assert_eq!(sent["MessageAttributes"]["reason"]["StringValue"], "undecodable");
    let trace = &sent["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"];
    assert_eq!(trace, "Root=1-67a1b2c3-0123456789abcdef01234567");
}

#[tokio::test]
async fn a_dead_letter_is_acknowledged_only_after_sqs_confirmed_it() {
    for failure in [Reply::Error(500, "InternalError"), Reply::Error(403, "AccessDenied")] {
        let good = Job::probe(&json!(["succeed"]));
        let records = [record("poison", "{", 1), good.record("m")];
        let (answer, _) = deliver(&records, move |request| match request.operation.as_str() {
            "SendMessage" => failure.clone(),
            _ => works(request),
        })
        .await;
        assert_eq!(answer.unwrap(), ["poison"]);
    }
}

#[tokio::test]
async fn a_visibility_that_sqs_refuses_to_change_loses_nothing() {
    let job = Job::probe(&json!(["fail"]));
    let (answer, _) = deliver(&[job.record("m")], |request| match request.operation.as_str() {
        "ChangeMessageVisibility" => Reply::Error(400, "ReceiptHandleIsInvalid"),
        _ => works(request),
    })
    .await;
    assert_eq!(answer.unwrap(), ["m"]);
}
