//! `cargo ops poll`, with a consumer that answers as it is told.

use std::convert::Infallible;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ops::mapping::Mapping;
use ops::messages::send_all;
use ops::poll::{Event, Poller};
use ops::stack::{Stack, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;

use crate::command_line::{ops, refusal};
use crate::support::{PARAMETERS, PATIENCE, accepted, end_to_end, ended, report};

/// What a consumer does with the records of a batch.
type Answers = fn(&[Value]) -> Answer;

enum Answer {
    Body(Value),
    Status(u16),
    Never,
}

/// Answers as `cargo lambda watch` does.
struct Watched {
    url: String,
    batches: Arc<Mutex<Vec<Vec<Value>>>>,
}

impl Watched {
    async fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let batches = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&batches);
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let seen = Arc::clone(&seen);
                let service =
                    service_fn(move |request| invoked(request, answers, Arc::clone(&seen)));
                let served =
                    http1::Builder::new().serve_connection(TokioIo::new(connection), service);
                tokio::spawn(served);
            }
        });
        Self { url, batches }
    }

    /// The batches so far, without those that only ask whether it is there.
    fn batches(&self) -> Vec<Vec<Value>> {
        self.batches.lock().unwrap().clone()
    }
}

async fn invoked(
    request: Request<Incoming>,
    answers: Answers,
    seen: Arc<Mutex<Vec<Vec<Value>>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let event = request.into_body().collect().await.unwrap().to_bytes();
    if path != "/2015-03-31/functions/consumer/invocations" {
        return Ok(response(404, "no such function"));
    }
    let event: Value = serde_json::from_slice(&event).unwrap();
    let records = event["Records"].as_array().unwrap().clone();
    if records.is_empty() {
        return Ok(response(200, r#"{"batchItemFailures":[]}"#));
    }
    let answer = answers(&records);
    seen.lock().unwrap().push(records);
    Ok(match answer {
        Answer::Body(body) => response(200, &body.to_string()),
        Answer::Status(status) => response(status, r#"{"errorType":"X"}"#),
        Answer::Never => std::future::pending().await,
    })
}

fn response(status: u16, body: &str) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(body.to_owned().into()).unwrap()
}

/// What a poller told of its batches: how many records, and which came back.
type Told = Mutex<Vec<(usize, Vec<String>)>>;

/// Sends messages, waits until they are handled, and returns the bodies of those
/// that come back.
async fn back(stack: &Stack, watched: &Watched, told: &Told, bodies: &[&str]) -> Vec<String> {
    let all: Vec<_> = bodies.iter().map(|&body| body.to_owned()).collect();
    send_all(stack, &all).await.unwrap();
    let (mut handled, mut back) = (0, Vec::new());
    eventually(PATIENCE, "all are handled", async || {
        for (records, ids) in told.lock().unwrap().drain(..) {
            handled += records;
            back.extend(ids);
        }
        Ok((handled == bodies.len()).then_some(()))
    })
    .await
    .unwrap();
    let records = watched.batches().concat();
    let body = |id: &String| {
        let record = records.iter().find(|record| record["messageId"] == **id).unwrap();
        record["body"].as_str().unwrap().to_owned()
    };
    let mut back: Vec<_> = back.iter().map(body).collect();
    back.sort();
    back
}

/// Has a poller take what there is to the consumer for as long as the story lasts,
/// which sees what the poller tells.
async fn polled<T>(stack: &Stack, watched: &Watched, story: impl AsyncFnOnce(&Told) -> T) -> T {
    let poller = Poller::new(stack, &watched.url).await.unwrap();
    let told = Told::default();
    let following = poller.follow(|event| {
        if let Event::Batch { records, back, .. } = event {
            told.lock().unwrap().push((*records, back.clone()));
        }
        Ok(())
    });
    tokio::select! {
        ended = following => panic!("it ended: {ended:?}"),
        ended = story(&told) => ended,
    }
}

/// Sets for how many seconds a received message is hidden.
async fn hide(stack: &Stack, seconds: u32) {
    let queue = stack.outputs.queue_url.as_str();
    let visibility = format!("VisibilityTimeout={seconds}");
    let change = ["sqs", "set-queue-attributes", "--queue-url", queue, "--attributes", &visibility];
    stack.aws.call(&change).await.unwrap();
}

async fn in_flight(stack: &Stack) -> u32 {
    let depth = stack.queue_depth().await.unwrap();
    assert_eq!(depth.visible, 0);
    depth.in_flight
}

/// Answers in every way, as the first record asks for.
fn as_the_body_says(records: &[Value]) -> Answer {
    match records[0]["body"].as_str().unwrap() {
        "all done" => Answer::Body(Value::Null),
        "unknown 1" | "unknown 2" => {
            Answer::Body(json!({ "batchItemFailures": [{ "itemIdentifier": "unknown" }] }))
        }
        "error" => Answer::Status(500),
        _ => {
            let failed = records.iter().filter(|record| record["body"] == "failed");
            let failed: Vec<_> =
                failed.map(|record| json!({ "itemIdentifier": record["messageId"] })).collect();
            Answer::Body(json!({ "batchItemFailures": failed }))
        }
    }
}

#[test]
fn what_is_done_is_deleted_and_the_rest_comes_back() {
    end_to_end(async |local| {
        let stack = local.another_stack("polled", &PARAMETERS).await.unwrap();
        Mapping::of(&stack).await.unwrap().switch_off(&stack).await.unwrap();
        // What comes back does so after this test.
        hide(&stack, 3600).await;
        let watched = Watched::start(as_the_body_says).await;
        polled(&stack, &watched, async |told| {
            let back = async |bodies: &[&str]| back(&stack, &watched, told, bodies).await;
            assert_eq!(back(&["one", "failed", "two"]).await, ["failed"]);
            assert_eq!(in_flight(&stack).await, 1);
            assert_eq!(back(&["all done"]).await, [""; 0]);
            assert_eq!(in_flight(&stack).await, 1);
            assert_eq!(back(&["unknown 1", "unknown 2"]).await, ["unknown 1", "unknown 2"]);
            assert_eq!(in_flight(&stack).await, 3);
            assert_eq!(back(&["error"]).await, ["error"]);
            assert_eq!(in_flight(&stack).await, 4);
        })
        .await;
        let sample = std::fs::read("../../events/sqs-report.json").unwrap();
        let sample: Value = serde_json::from_slice(&sample).unwrap();
        let keys = |value: &Value| {
            value.as_object().unwrap().keys().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let record = &watched.batches().concat()[0];
        assert_eq!(keys(record), keys(&sample["Records"][0]));
        for name in keys(&sample["Records"][0]["attributes"]) {
            assert!(record["attributes"][&name].is_string(), "{name}");
        }
    });
}

#[test]
fn a_message_survives_a_poller_that_is_killed_and_the_mapping_goes_on() {
    end_to_end(async |local| {
        let stack = local.another_stack("poll-killed", &PARAMETERS).await.unwrap();
        // It comes back soon.
        hide(&stack, 5).await;

        let watched = Watched::start(|_| Answer::Never).await;
        let mut command = ops(local, &stack, &["poll", "--json", "--watch", &watched.url]);
        let mut polling = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(polling.stdout.take().unwrap()).lines();
        for expected in [r#"{"what":"waiting"}"#, r#"{"what":"ready"}"#] {
            assert_eq!(lines.next_line().await.unwrap().unwrap(), expected);
        }
        assert!(!Mapping::of(&stack).await.unwrap().is_on());
        let id = accepted(&stack, &report("Survives"), None).await;
        eventually(PATIENCE, "the consumer has it", async || Ok(watched.batches().pop()))
            .await
            .unwrap();
        polling.kill().await.unwrap();

        // The deployed consumer has it, once the mapping is on again.
        assert_eq!(ended(&stack, &id).await["state"], "succeeded");
        assert!(Mapping::of(&stack).await.unwrap().is_on());
    });
}

/// Nobody waits for the visibility timeout after a change, only for the lease.
#[test]
fn what_a_replaced_consumer_had_in_hand_comes_back_when_its_lease_is_over() {
    end_to_end(async |local| {
        let stack = local.another_stack("poll-lost", &PARAMETERS).await.unwrap();
        Mapping::of(&stack).await.unwrap().switch_off(&stack).await.unwrap();
        hide(&stack, 3600).await;
        let watched = Watched::start(|records| {
            let is_first = records[0]["attributes"]["ApproximateReceiveCount"] == "1";
            if is_first { Answer::Never } else { Answer::Body(Value::Null) }
        })
        .await;
        send_all(&stack, &["in hand".to_owned()]).await.unwrap();
        let start = Instant::now();
        let told = polled(&stack, &watched, async |told| {
            stack.wait_until_queue_is_empty(PATIENCE).await.unwrap();
            told.lock().unwrap().clone()
        })
        .await;
        let took = start.elapsed();
        assert_eq!((told.len(), told[0].0, told[0].1.len()), (2, 1, 1), "{told:?}");
        assert_eq!(told[1], (1, vec![]));
        // The timeout of 10 s, and 5 s that leases are longer.
        assert!(took > Duration::from_secs(15), "{took:?}");
    });
}

#[test]
fn without_a_watched_consumer_poll_says_so_and_touches_nothing() {
    end_to_end(async |local| {
        let nowhere = ["poll", "--watch", "http://127.0.0.1:1"];
        let (code, said) = refusal(ops(local, &local.stack, &nowhere)).await;
        assert_eq!(code, 1);
        assert!(said.starts_with("error: nothing answers at http://127.0.0.1:1: start"), "{said}");
        for no_url in ["127.0.0.1:1", "localhost:9000", "https://127.0.0.1:1", "nowhere"] {
            let wrong = ["poll", "--watch", no_url];
            let (code, said) = refusal(ops(local, &local.stack, &wrong)).await;
            assert_eq!(code, 1);
            assert!(said.starts_with(&format!("error: --watch {no_url} is no URL")), "{said}");
        }
        assert!(Mapping::of(&local.stack).await.unwrap().is_on());
    });
}

#[test]
fn a_batch_is_one_line_of_json() {
    let batch = Event::Batch { records: 2, back: vec!["id".to_owned()], why: None };
    insta::assert_snapshot!(
        serde_json::to_string(&batch).unwrap(),
        @r#"{"what":"batch","records":2,"back":["id"],"why":null}"#
    );
}
