//! Many jobs in one request, each answered for as if it had come alone.

use std::collections::HashSet;

use producer::{MAX_TOGETHER, Outgoing};
use serde_json::{Value, json};
use shared::entry::State;

use crate::events::{BODY, Event};
use crate::fakes::{Answer, Fixture};

pub(crate) fn batch_of(jobs: &[String]) -> Event {
    Event::post(&format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))).at("POST", "/jobs/batch")
}

pub(crate) fn titled(title: &str) -> String {
    BODY.replace("\"t\"", &format!("\"{title}\""))
}

/// A job with more fields.
pub(crate) fn with(title: &str, fields: &str) -> String {
    titled(title).replacen('{', &format!("{{{fields},"), 1)
}

pub(crate) fn keyed(title: &str, key: &str) -> String {
    with(title, &format!(r#""idempotency_key":"{key}""#))
}

pub(crate) fn titles(count: usize) -> Vec<String> {
    (0..count).map(|job| titled(&format!("job {job}"))).collect()
}

pub(crate) fn id(answer: &Answer, job: usize) -> &str {
    answer.body["jobs"][job]["job"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}"))
}

/// Which job of a batch a message carries.
pub(crate) fn title_of(body: &str) -> String {
    let message: Value = serde_json::from_str(body).unwrap();
    message["payload"]["title"].as_str().unwrap().to_owned()
}

/// Every job that was accepted is in the queue under its id, and nothing else.
pub(crate) fn check_promises(fixture: &Fixture, answer: &Answer) {
    let jobs = answer.body["jobs"].as_array().unwrap();
    let promised: HashSet<_> = jobs.iter().filter_map(|job| job["job"]["id"].as_str()).collect();
    let messages = fixture.decoded();
    let sent: HashSet<_> = messages.iter().map(|message| message.id.to_string()).collect();
    assert_eq!(sent, promised.into_iter().map(str::to_owned).collect());
    for job in jobs {
        let accepted = job["status"] == 202;
        assert_eq!((job.get("job").is_some(), job.get("problem").is_none()), (accepted, accepted));
        assert!(accepted || job["problem"]["status"] == job["status"], "{job}");
    }
}

#[tokio::test]
async fn a_batch_is_sent_by_tens_and_answered_in_order() {
    for (count, calls) in [(1, 1), (10, 1), (11, 2), (500, 50)] {
        let fixture = Fixture::new();
        let answer = fixture.send(&batch_of(&titles(count))).await;
        assert_eq!((answer.status, answer.statuses()), (202, vec![202; count]));
        assert_eq!(answer.header("retry-after"), Some("1"));
        check_promises(&fixture, &answer);
        let sent = fixture.producer.queue.calls.lock().unwrap();
        assert_eq!(sent.len(), calls);
        assert!(sent.iter().all(|call| call.len() <= MAX_TOGETHER));
        for message in sent.concat() {
            let position: usize = title_of(&message.body)["job ".len()..].parse().unwrap();
            assert!(message.body.contains(id(&answer, position)), "{}", message.body);
            assert!(message.trace.is_some());
        }
        assert!((0..count).all(|job| fixture.entry(id(&answer, job)).is_some()));
    }
}

#[tokio::test]
async fn an_accepted_job_reads_as_if_it_had_come_alone() {
    let fixture = Fixture::new();
    let jobs = [with("t", r#""delay_seconds":7,"group":"g","idempotency_key":"order-42""#)];
    let staged =
        batch_of(&jobs).at("POST", "/prod/jobs/batch").with("/requestContext/stage", json!("prod"));
    let answer = fixture.send(&staged).await;
    let single = fixture.send(&Event::post(BODY).key("order-42")).await;
    let mut job = answer.body["jobs"][0]["job"].clone();
    assert_eq!(job["links"]["self"], format!("/prod/jobs/{}", single.id()));
    job["links"] = single.body["links"].clone();
    assert_eq!(job, single.body);
    let call = &fixture.producer.queue.calls.lock().unwrap()[0];
    assert_eq!(call[0].delay_seconds, 7);
    assert_eq!(call[0].group_id, producer::group_id(&shared::Principal::anonymous(), Some("g")));
}

#[tokio::test]
async fn a_bad_job_costs_its_neighbours_nothing() {
    let fixture = Fixture::new();
    let jobs = [
        titled("a"),
        "7".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        r#"{"kind":"report","kind":"report","payload":{}}"#.to_owned(),
        r#"{"kind":"unheard-of","payload":{}}"#.to_owned(),
        titled("\\ud800"),
        BODY.replace("\"1.50\"", "\"x\""),
        with("d", r#""delay_seconds":901"#),
        with("k", r#""idempotency_key":"""#),
        with("e", r#""extra":1"#),
        with("n", &format!("\"extra\":{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        titled("\u{ffff}"),
        keyed("z", "z"),
    ];
    let answer = fixture.send(&batch_of(&jobs)).await;
    assert_eq!(answer.status, 207);
    assert_eq!(
        answer.statuses(),
        [202, 400, 400, 400, 400, 422, 400, 422, 422, 422, 422, 422, 422, 202]
    );
    check_promises(&fixture, &answer);
    let pointer = |job: usize| &answer.body["jobs"][job]["problem"]["errors"][0]["pointer"];
    assert_eq!(pointer(5), "/jobs/5/kind");
    assert_eq!(pointer(7), "/jobs/7/payload/rows/0/amount");
    assert_eq!(pointer(8), "/jobs/8/delay_seconds");
    assert_eq!(pointer(9), "/jobs/9/idempotency_key");
    assert_eq!(pointer(12), "/jobs/12/payload");
}

#[tokio::test]
async fn what_is_no_batch_is_refused_as_a_whole() {
    let fixture = Fixture::new();
    let batch = |body: &str| Event::post(body).at("POST", "/jobs/batch");
    for (event, status, problem) in [
        (batch(""), 400, "body-missing"),
        (batch("["), 400, "malformed"),
        (batch("[]"), 400, "malformed"),
        (batch("{\"jobs\":[]}{}"), 400, "malformed"),
        (batch(&format!(r#"{{"jobs":[{BODY}"#)), 400, "malformed"),
        (batch("{}"), 422, "invalid-job"),
        (batch(r#"{"jobs":{}}"#), 422, "invalid-job"),
        (batch(r#"{"jobs":null}"#), 422, "invalid-job"),
        (batch(r#"{"jobs":[]}"#), 422, "invalid-job"),
        (batch(r#"{"jobs":[],"jobs":[]}"#), 422, "invalid-job"),
        (batch(&format!(r#"{{"jobs":[{BODY}],"extra":1}}"#)), 422, "invalid-job"),
        (batch(BODY), 422, "invalid-job"),
        (batch_of(&titles(501)), 422, "invalid-job"),
        (batch_of(&titles(1)).key("order-42"), 400, "invalid-idempotency-key"),
        (batch_of(&titles(1)).header("content-type", "text/plain"), 415, "unsupported-media-type"),
    ] {
        let answer = fixture.send(&event).await;
        assert_eq!((answer.status, answer.problem()), (status, problem), "{answer:?}");
    }
    assert_eq!(fixture.steps.take(), [""; 0]);
}

#[tokio::test]
async fn named_jobs_are_written_before_anything_is_sent() {
    let fixture = Fixture::new();
    let jobs = [keyed("a", "a"), titled("b"), keyed("c", "c")];
    assert_eq!(fixture.send(&batch_of(&jobs)).await.status, 202);
    let steps = fixture.steps.take();
    assert_eq!(steps[..2], ["put", "put"]);
    assert_eq!(
        steps[2..].iter().collect::<HashSet<_>>(),
        HashSet::from([&"put", &"send together"])
    );
}

#[tokio::test]
async fn a_batch_can_be_sent_again() {
    let fixture = Fixture::new();
    let jobs: Vec<_> = (0..25).map(|job| keyed(&format!("job {job}"), &job.to_string())).collect();
    let first = fixture.send(&batch_of(&jobs)).await;
    fixture.change(id(&first, 3), |entry| {
        (entry.state, entry.attempt) = (State::Succeeded, 1);
    });
    let again = fixture.send(&batch_of(&jobs)).await;
    assert_eq!(again.status, 202);
    assert!((0..25).all(|job| id(&first, job) == id(&again, job)));
    assert_eq!(again.body["jobs"][3]["job"]["state"], "succeeded");
    // All that nobody has claimed are sent again.
    assert_eq!(fixture.messages().len(), 25 + 24);
}

#[tokio::test]
async fn one_key_in_a_batch_is_one_job() {
    let fixture = Fixture::new();
    let reordered = r#"{"payload":{"rows":[{"amount":"1.50","group":"a"}],"title":"a"},"idempotency_key":"k","kind":"report"}"#;
    let jobs = [
        keyed("a", "k"),
        keyed("b", "k"),
        reordered.to_owned(),
        keyed("a", "other"),
        keyed("b", "k"),
    ];
    let answer = fixture.send(&batch_of(&jobs)).await;
    assert_eq!((answer.status, answer.statuses()), (207, vec![202, 422, 202, 202, 422]));
    assert_eq!(id(&answer, 0), id(&answer, 2));
    assert_ne!(id(&answer, 0), id(&answer, 3));
    let problem = &answer.body["jobs"][1]["problem"]["type"];
    assert_eq!(problem, "urn:problem-type:relevo:idempotency-key-reused");
    assert_eq!(fixture.messages().len(), 2);

    // What the table knows decides, not what comes first in a batch.
    let jobs = [keyed("b", "k"), keyed("a", "k")];
    assert_eq!(fixture.send(&batch_of(&jobs)).await.statuses(), [422, 202]);
}

#[tokio::test]
async fn large_jobs_share_no_call_with_what_does_not_fit() {
    let rows = |bytes: usize| {
        let row = r#"{"group":"a","amount":"1"}"#;
        let spaces = " ".repeat(bytes);
        format!(r#"{{"kind":"report","payload":{{"title":"t",{spaces}"rows":[{row}]}}}}"#)
    };
    let fixture = Fixture::new();
    let mut jobs = vec![rows(2_048); 9];
    jobs.push(rows(1_039_500));
    jobs.extend(vec![rows(2_048); 9]);
    jobs.push(rows(1_100_000));
    let answer = fixture.send(&batch_of(&jobs)).await;
    assert_eq!(answer.statuses(), [vec![202; 19], vec![413]].concat());
    check_promises(&fixture, &answer);
    let calls = fixture.producer.queue.calls.lock().unwrap().clone();
    let sizes: Vec<usize> =
        calls.iter().map(|call| call.iter().map(Outgoing::size).sum()).collect();
    assert_eq!(calls.iter().map(Vec::len).collect::<Vec<_>>(), [9, 1, 9]);
    assert!(sizes.iter().all(|size| *size <= fixture.producer.message_limit), "{sizes:?}");

    let fixture = Fixture::new();
    let answer = fixture.send(&batch_of(&vec![rows(2_048); 500])).await;
    assert_eq!((answer.status, fixture.messages().len()), (202, 500));
}

#[tokio::test]
async fn an_answer_stays_within_what_lambda_takes() {
    let fixture = Fixture::new();
    let control = "\\u0001".repeat(400);
    let two = format!(r#"{{"{control}":1,"delay_seconds":-1,"kind":"report","payload":{{}}}}"#);
    let rows = vec![format!(r#"{{"group":"a","amount":"1","{control}":1}}"#); 4].join(",");
    let many = format!(r#"{{"kind":"report","payload":{{"title":"t","rows":[{rows}]}}}}"#);
    let twice = format!(r#"{{"{control}":1,"{control}":2}}"#);
    for job in [two, many, twice] {
        let answer = fixture.send(&batch_of(&vec![job; 500])).await;
        assert_eq!(answer.status, 207);
        let bytes = answer.event.to_string().len();
        assert!((200_000..5_500_000).contains(&bytes), "{bytes}");
    }
    let small = vec![BODY.replace("1.50", "x"); 5];
    let answer = fixture.send(&batch_of(&small)).await;
    assert_eq!(answer.body["jobs"][4]["problem"]["error_count"], 1);
}
