//! What SQS may answer to a call with several messages, through the real SDK.

use std::sync::Mutex;

use producer::CALL_LIMITS;
use serde_json::{Value, json};
use shared::fake_aws::{FakeAws, Reply, Request};

use crate::aws::producer;
use crate::events::{BODY, Event};
use crate::fakes::Answer;

/// Sends a batch to an SQS that answers one call after the other what
/// `replies` make of its entries' ids, and then takes everything.
async fn send(count: usize, replies: Vec<fn(&[String]) -> Reply>) -> (Answer, FakeAws) {
    let replies = Mutex::new(replies.into_iter());
    let aws = FakeAws::start(move |request| match request.operation.as_str() {
        "SendMessageBatch" => {
            let reply = replies.lock().unwrap().next().unwrap_or(taken);
            reply(&ids(request))
        }
        _ => Reply::Ok(json!({})),
    })
    .await
    .unwrap();
    let answer = post(&aws, count).await;
    (answer, aws)
}

async fn post(aws: &FakeAws, count: usize) -> Answer {
    post_all(aws, &vec![BODY.to_owned(); count]).await
}

async fn post_all(aws: &FakeAws, jobs: &[String]) -> Answer {
    let producer = producer(&aws.sdk_config(CALL_LIMITS));
    let body = format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
    let event = Event::post(&body).at("POST", "/jobs/batch");
    let answer = producer.handle(&event.raw(), None).await.unwrap();
    Answer::read(serde_json::to_value(answer).unwrap())
}

fn ids(request: &Request) -> Vec<String> {
    let entries = request.body["Entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["Id"].as_str().unwrap().to_owned()).collect()
}

fn success(id: &str) -> Value {
    json!({"Id": id, "MessageId": format!("message-{id}"), "MD5OfMessageBody": "x"})
}

fn failure(id: &str, sender_fault: bool) -> Value {
    json!({"Id": id, "Code": "InternalError", "SenderFault": sender_fault, "Message": "arn:aws:x"})
}

fn taken(ids: &[String]) -> Reply {
    let successful: Vec<_> = ids.iter().map(|id| success(id)).collect();
    Reply::Ok(json!({ "Successful": successful, "Failed": [] }))
}

/// The ids of the jobs that were sent, call by call.
fn sent(aws: &FakeAws) -> Vec<Vec<String>> {
    let job_id = |entry: &Value| {
        let body: Value = serde_json::from_str(entry["MessageBody"].as_str().unwrap()).unwrap();
        body["id"].as_str().unwrap().to_owned()
    };
    let calls = aws.requests("SendMessageBatch");
    calls
        .iter()
        .map(|call| call.body["Entries"].as_array().unwrap().iter().map(job_id).collect())
        .collect()
}

fn job_ids(answer: &Answer) -> Vec<String> {
    let jobs = answer.body["jobs"].as_array().unwrap();
    jobs.iter().map(|job| job["job"]["id"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn an_entry_carries_what_a_single_message_does() {
    let (answer, aws) = send(11, vec![]).await;
    assert_eq!(answer.status, 202);
    let calls = aws.requests("SendMessageBatch");
    let sizes: Vec<_> = calls.iter().map(|call| ids(call).len()).collect();
    assert_eq!(sizes, [10, 1]);
    let entry = &calls[1].body["Entries"][0];
    let kind = json!({"kind": {"DataType": "String", "StringValue": "report"}});
    assert_eq!(entry["MessageAttributes"], kind);
    let trace = &entry["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"];
    assert_eq!(trace, "Root=1-65537c80-0a1b2c3d4e5f60718293a4b5");
    assert_eq!(entry["MessageGroupId"].as_str().unwrap().len(), 64);
    assert_eq!(entry["DelaySeconds"], 0);
    assert_eq!(sent(&aws).concat(), job_ids(&answer));
}

#[tokio::test]
async fn a_hundred_jobs_take_fourteen_calls() {
    let aws = FakeAws::start(|request| match request.operation.as_str() {
        "SendMessageBatch" => taken(&ids(request)),
        "BatchExecuteStatement" => {
            let statements = request.body["Statements"].as_array().unwrap().len();
            Reply::Ok(json!({ "Responses": vec![json!({}); statements] }))
        }
        operation => panic!("{operation}"),
    });
    let aws = aws.await.unwrap();
    let answer = post(&aws, 100).await;
    assert_eq!((answer.status, job_ids(&answer).len()), (202, 100));
    let calls = |operation| aws.requests(operation).len();
    assert_eq!((calls("SendMessageBatch"), calls("BatchExecuteStatement")), (10, 4));
}

/// Without a group's answer, each entry is written by a call of its own.
#[tokio::test]
async fn entries_that_no_group_wrote_are_written_alone() {
    let aws = FakeAws::start(|request| match request.operation.as_str() {
        "SendMessageBatch" => taken(&ids(request)),
        "BatchExecuteStatement" => Reply::Error(400, "AccessDeniedException"),
        _ => Reply::Ok(json!({})),
    });
    let aws = aws.await.unwrap();
    let answer = post(&aws, 30).await;
    assert_eq!(answer.status, 202);
    let puts = aws.requests("PutItem");
    let written = puts.iter().map(|put| put.body["Item"]["job_id"]["S"].as_str().unwrap());
    let (mut written, mut ids): (Vec<_>, Vec<_>) = (written.collect(), job_ids(&answer));
    written.sort_unstable();
    ids.sort_unstable();
    assert_eq!(written, ids);
}

#[tokio::test]
async fn a_group_that_is_never_answered_leaves_time_for_a_call_for_each_entry() {
    let aws = FakeAws::start(|request| match request.operation.as_str() {
        "SendMessageBatch" => taken(&ids(request)),
        "BatchExecuteStatement" => Reply::Never,
        _ => Reply::Ok(json!({})),
    });
    let aws = aws.await.unwrap();
    let keyed = |key| BODY.replacen('{', &format!(r#"{{"idempotency_key":"{key}","#), 1);
    let answer = post_all(&aws, &[keyed(1), keyed(2)]).await;
    assert_eq!((answer.status, aws.requests("PutItem").len()), (202, 2), "{answer:?}");
}

#[tokio::test]
async fn only_what_failed_is_sent_again() {
    let (answer, aws) = send(
        10,
        vec![|ids| {
            let (throttled, taken) = ids.split_at(5);
            let failed: Vec<_> = throttled.iter().map(|id| failure(id, false)).collect();
            let successful: Vec<_> = taken.iter().map(|id| success(id)).collect();
            Reply::Ok(json!({ "Successful": successful, "Failed": failed }))
        }],
    )
    .await;
    assert_eq!((answer.status, answer.statuses()), (202, vec![202; 10]));
    let (sent, ids) = (sent(&aws), job_ids(&answer));
    assert_eq!(sent, [&ids[..], &ids[..5]]);
}

#[tokio::test]
async fn a_senders_fault_is_not_tried_again() {
    let (answer, aws) = send(
        3,
        vec![|ids| {
            let successful = [success(&ids[0]), success(&ids[2])];
            Reply::Ok(json!({ "Successful": successful, "Failed": [failure(&ids[1], true)] }))
        }],
    )
    .await;
    assert_eq!((answer.status, answer.statuses()), (207, vec![202, 500, 202]));
    assert_eq!(sent(&aws).len(), 1);
    assert!(!answer.event.to_string().contains("arn:"), "{answer:?}");
}

#[tokio::test]
async fn an_entry_in_neither_list_is_sent_again() {
    let (answer, aws) = send(3, vec![|ids| taken(&ids[..2])]).await;
    assert_eq!(answer.status, 202);
    let ids = job_ids(&answer);
    assert_eq!(sent(&aws), [&ids[..], &ids[2..]]);

    let (answer, _) = send(3, vec![|ids| taken(&ids[..2]), |_| taken(&[]), |_| taken(&[])]).await;
    assert_eq!((answer.status, answer.statuses()), (207, vec![202, 202, 503]));
}

#[tokio::test]
async fn only_ids_that_were_sent_count() {
    let strange: fn(&[String]) -> Reply = |_| {
        let ids = ["2", "02", "+1", " 0", "-1", "a", "", "99999999999999999999"];
        let successful: Vec<_> = ids.iter().map(|id| success(id)).collect();
        Reply::Ok(json!({ "Successful": successful, "Failed": [failure("7", true)] }))
    };
    let (answer, aws) = send(2, vec![strange, strange, strange]).await;
    assert_eq!((answer.status, sent(&aws).len()), (503, 3));
}

#[tokio::test]
async fn what_names_no_message_or_both_lists_is_not_acknowledged() {
    let (answer, aws) = send(
        3,
        vec![|ids| {
            let nameless = json!({"Id": ids[0], "MessageId": "", "MD5OfMessageBody": "x"});
            let successful = [nameless, success(&ids[1]), success(&ids[2]), success(&ids[2])];
            Reply::Ok(json!({ "Successful": successful, "Failed": [failure(&ids[1], false)] }))
        }],
    )
    .await;
    assert_eq!(answer.status, 202);
    let ids = job_ids(&answer);
    assert_eq!(sent(&aws), [&ids[..], &ids[..2]]);
}

#[tokio::test]
async fn errors_of_the_whole_call_mean_what_they_mean_for_one_message() {
    for (code, http, status) in [
        ("InternalError", 500, 503),
        ("ThrottlingException", 400, 503),
        ("AccessDeniedException", 400, 500),
        ("QueueDoesNotExist", 400, 500),
        ("AWS.SimpleQueueService.BatchRequestTooLong", 400, 500),
    ] {
        let aws = FakeAws::start(move |request| match request.operation.as_str() {
            "SendMessageBatch" => Reply::Error(http, code),
            _ => Reply::Ok(json!({})),
        });
        let answer = post(&aws.await.unwrap(), 2).await;
        assert_eq!(answer.status, status, "{code}: {answer:?}");
        assert!(!answer.event.to_string().contains("arn:"), "{answer:?}");
    }
}
