//! What strangers send, as a fuzzer makes it up: requests and keys.
//!
//! The fuzzer (`infra/fuzz`) calls these functions with whatever it thinks of;
//! here they run over what it has kept.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use shared::fingerprint::Fingerprint;
use shared::message::Message;
use shared::{Job, JobId};

use crate::events::{BODY, Event};
use crate::fakes::{Answer, Fixture};

/// Stands in a path for the id that was answered last.
const LAST_ID: &str = "LAST";

/// Stands between two requests of one input.
const NEXT_REQUEST: &str = "\n---\n";

/// Requests, one after the other, or an event as it is.
///
/// An event begins with a brace. A request is an HTTP/1.1 message whose first
/// line names a gateway (`http`, `rest` or `alb`), a method, a path and, if it
/// likes, how many of the next messages the queue refuses.
pub(crate) fn http_event(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    let fixture = Fixture::new();
    run(async {
        if input.starts_with('{') {
            let Ok(event) = RawValue::from_string(input.into_owned()) else { return };
            if let Ok(answer) = fixture.producer.handle(&event, None).await {
                let answer = Answer::read(serde_json::to_value(answer).unwrap());
                check(&fixture, &answer, &body_of(&event));
            }
            return;
        }
        let mut last_id = LAST_ID.to_owned();
        for request in input.split(NEXT_REQUEST) {
            let Some(request) = Request::read(request) else { return };
            *fixture.producer.queue.failures.lock().unwrap() = request.failures;
            let answer = fixture.send(&request.event(&last_id)).await;
            check(&fixture, &answer, request.body.as_bytes());
            if let Some(id) = answer.body["id"].as_str() {
                id.clone_into(&mut last_id);
            }
        }
    });
}

/// A value of the header `Idempotency-Key`.
pub(crate) fn idempotency_key(data: &[u8]) {
    let value = String::from_utf8_lossy(data);
    let fixture = Fixture::new();
    run(async {
        let first = fixture.send(&Event::post(BODY).key(&value)).await;
        let second = fixture.send(&Event::post(BODY).key(&value)).await;
        assert_eq!((first.status, &first.body), (second.status, &second.body));
        if first.status == 400 {
            assert!(fixture.messages().is_empty());
            return;
        }
        assert_eq!(first.status, 202, "{first:?}");
        let bare = value.trim_matches([' ', '\t']);
        if !bare.starts_with('"') {
            // The same key in quotes, and in the body of a batch.
            let quoted = format!("\"{}\"", bare.replace('\\', "\\\\"));
            let again = fixture.send(&Event::post(BODY).key(&quoted)).await;
            assert_eq!(again.body, first.body);
            let mut job: Value = serde_json::from_str(BODY).unwrap();
            job["idempotency_key"] = json!(bare);
            let batch = json!({ "jobs": [job] }).to_string();
            let batch = fixture.send(&Event::post(&batch).at("POST", "/jobs/batch")).await;
            assert_eq!(batch.body["jobs"][0]["job"], first.body);
        }
        assert!(fixture.decoded().iter().all(|message| message.id.to_string() == first.id()));
    });
}

fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test);
}

/// A request as the fuzzer writes it.
struct Request<'a> {
    gateway: &'a str,
    method: &'a str,
    path: &'a str,
    failures: u32,
    headers: Map<String, Value>,
    body: &'a str,
}

impl<'a> Request<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let mut words = lines.next()?.split(' ');
        let (gateway, method, path) = (words.next()?, words.next()?, words.next()?);
        let failures = words.next().and_then(|count| count.parse().ok()).unwrap_or_default();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_owned(), json!(value))).collect();
        Some(Self { gateway, method, path, failures, headers, body })
    }

    fn event(&self, last_id: &str) -> Event {
        let path = self.path.replace(LAST_ID, last_id);
        let (method, headers) = (json!(self.method), json!(self.headers));
        let event = match self.gateway {
            "rest" => Event::rest_post(self.body).with("/multiValueHeaders", Value::Null),
            "alb" => Event::alb_post(self.body),
            _ => return Event::post(self.body).at(self.method, &path).with("/headers", headers),
        };
        event.with("/httpMethod", method).with("/path", json!(path)).with("/headers", headers)
    }
}

/// The body of an event, as the producer reads it.
fn body_of(event: &RawValue) -> Vec<u8> {
    let event: Value = serde_json::from_str(event.get()).unwrap_or_default();
    let body = event["body"].as_str().unwrap_or_default();
    match event["isBase64Encoded"].as_bool() {
        Some(true) => aws_smithy_types::base64::decode(body).unwrap_or_default(),
        _ => body.as_bytes().to_vec(),
    }
}

/// What a client asked for.
#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct AskedTogether<'a> {
    #[serde(borrow)]
    jobs: Vec<&'a RawValue>,
}

/// Every answer is one that HTTP has, and what it accepts is in the queue.
fn check(fixture: &Fixture, answer: &Answer, body: &[u8]) {
    assert!((200..600).contains(&answer.status), "{answer:?}");
    let body = String::from_utf8_lossy(body);
    let body = body.trim_start_matches('\u{feff}');
    let sent = fixture.decoded();
    match answer.body["jobs"].as_array() {
        Some(jobs) => {
            let asked: AskedTogether<'_> = serde_json::from_str(body).unwrap();
            assert_eq!(jobs.len(), asked.jobs.len());
            for (job, asked) in jobs.iter().zip(asked.jobs) {
                assert!(job["status"] == 202 || job["problem"].is_object(), "{job}");
                if job["status"] == 202 {
                    check_promise(&sent, &job["job"], asked.get());
                }
            }
        }
        None if answer.status == 202 => check_promise(&sent, &answer.body, body),
        None => {}
    }
}

/// The message of an accepted job holds what was asked for. A job with an
/// intent may have been asked for in other words; a cancelled one is not run.
fn check_promise(sent: &[Message], accepted: &Value, asked: &str) {
    let Asked { kind, payload } = serde_json::from_str(asked).unwrap();
    let job = Job::parse(&kind, payload).unwrap();
    let id: JobId = accepted["id"].as_str().unwrap().parse().unwrap();
    if accepted["state"] == "cancelled" {
        return;
    }
    let messages: Vec<_> = sent.iter().filter(|message| message.id == id).collect();
    assert!(!messages.is_empty(), "{accepted} was accepted and is not in the queue");
    for message in messages.into_iter().filter(|_| job.intent().is_none()) {
        assert_eq!(message.job, job);
        assert_eq!(message.fingerprint, Fingerprint::of(&kind, payload).unwrap());
    }
}

#[test]
fn what_the_fuzzer_kept_of_requests_is_answered_as_promised() {
    for input in corpus("http_event") {
        http_event(&input);
    }
}

#[test]
fn what_the_fuzzer_kept_of_keys_names_one_job_or_none() {
    for input in corpus("idempotency_key") {
        idempotency_key(&input);
    }
}

#[cfg(test)]
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/../infra/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert!(files.len() > 4, "{target} has no corpus");
    files
}
