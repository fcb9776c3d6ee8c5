//! Webhooks, delivered to a real HTTP server on loopback.
#![expect(clippy::disallowed_methods, reason = "a test's server is no handler's work")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use shared::State;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::rig::{Job, Rig};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// An answer that accepts.
const OK: &str =
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\nset-cookie: a=b\r\n\r\nok";

/// A server that answers each request with the next of its answers, and goes on
/// with the last; an empty one is no answer at all.
struct Receiver {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    async fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answers) =
            (Arc::clone(&requests), answers.iter().map(|text| (*text).to_owned()));
        let answers: Vec<_> = answers.collect();
        tokio::spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                let request = read(&mut connection).await;
                let number = seen.lock().unwrap().len();
                seen.lock().unwrap().push(request);
                let answer = answers.get(number).or(answers.last()).unwrap();
                if answer.is_empty() {
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_secs(30)).await;
                        drop(connection);
                    });
                    continue;
                }
                // Whoever has read enough may be gone.
                let _ = connection.write_all(answer.as_bytes()).await;
            }
        });
        Self { port, requests }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/in?token=t0k3n", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read(connection: &mut TcpStream) -> String {
    let (mut text, mut buffer) = (String::new(), vec![0; 4096]);
    loop {
        let length = connection.read(&mut buffer).await.unwrap_or_default();
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if length == 0 {
                return text;
            }
            continue;
        };
        let expected = header(head, "content-length").map_or(0, |text| text.parse().unwrap());
        if length == 0 || body.len() >= expected {
            return text;
        }
    }
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = request.split("\r\n\r\n").next()?.split("\r\n").skip(1);
    lines.find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// A consumer that may deliver to loopback.
fn local(hosts: &str) -> Rig {
    Rig::configured(&[("WEBHOOK_ALLOWED_HOSTS", hosts), ("WEBHOOK_ALLOW_HTTP", "true")])
}

fn webhook(url: &str, more: &Value) -> Job {
    let mut payload = json!({ "url": url });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Job::with_payload("webhook", &payload)
}

/// Delivers a job that must fail for good before anybody is connected to.
async fn check_refused(rig: &Rig, url: &str, reason: &str) {
    let job = webhook(url, &json!({}));
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), [""; 0], "{url}");
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, State::Failed, "{url}: {entry:?}");
    let letter = rig.letters().pop().unwrap();
    assert_eq!(letter.attribute("reason"), Some("permanent"), "{url}");
    assert!(letter.attribute("error").unwrap().contains(reason), "{url}: {letter:?}");
}

#[tokio::test]
async fn a_delivery_is_what_was_asked_for_and_says_which_job_it_is() {
    let receiver = Receiver::start(&[OK]).await;
    let secrets = format!(r#"{{"127.0.0.1":["{SECRET}","{OTHER_SECRET}"]}}"#);
    let rig = Rig::configured(&[
        ("WEBHOOK_ALLOWED_HOSTS", "127.0.0.1"),
        ("WEBHOOK_ALLOW_HTTP", "true"),
        ("WEBHOOK_SECRETS", &secrets),
    ]);
    let job = webhook(
        &receiver.url(),
        &json!({ "method": "PUT", "headers": { "X-Tenant": "7" }, "body": { "amount": "BODY" } }),
    );
    // Numbers that no float holds, and white space.
    let body = r#"{ "amount" : 10.10, "large": 12345678901234567890.5 }"#;
    let record = job.record("1").to_string();
    let written = serde_json::to_string(&json!({ "amount": "BODY" })).unwrap();
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let record = record.replace(&escape(&written), &escape(body));
    let event = format!(r#"{{"Records":[{record}]}}"#);
    assert_eq!(rig.answer(&event).await.unwrap(), r#"{"batchItemFailures":[]}"#);

    let [request] = &receiver.requests()[..] else { panic!("{:?}", receiver.requests()) };
    assert!(request.starts_with("PUT /in?token=t0k3n HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
    let id = job.id.to_string();
    for (name, expected) in [
        ("host", &*format!("127.0.0.1:{}", receiver.port)),
        ("content-type", "application/json"),
        ("x-tenant", "7"),
        ("webhook-id", &id),
        ("idempotency-key", &id),
        ("x-job-attempt", "1"),
    ] {
        assert_eq!(header(request, name), Some(expected), "{name} in {request}");
    }
    let traceparent = header(request, "traceparent").unwrap();
    assert!(traceparent.starts_with("00-67a1b2c30123456789abcdef01234567-"), "{traceparent}");
    let signatures: Vec<_> = header(request, "webhook-signature").unwrap().split(' ').collect();
    let seconds = header(request, "webhook-timestamp").unwrap().parse().unwrap();
    let signed = [SECRET, OTHER_SECRET].map(|secret| {
        let secret = standardwebhooks::Webhook::new(secret).unwrap();
        secret.sign(&id, seconds, body.as_bytes()).unwrap()
    });
    assert_eq!(signatures, signed);

    let entry = rig.entry(&job).unwrap();
    let result: Value = serde_json::from_str(&entry.result.unwrap()).unwrap();
    assert_eq!(
        result,
        json!({"status": 200, "headers": {"content-type": "text/plain"}, "body": "ok", "truncated": false})
    );
}

#[tokio::test]
async fn a_receiver_that_is_busy_gets_the_same_message_when_it_asks_for_it() {
    let busy = "HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::start(&[busy, OK]).await;
    let rig = local("127.0.0.1");
    let job = webhook(&receiver.url(), &json!({ "body": "x", "content_type": "text/plain" }));
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), ["1"]);
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, State::Queued);
    let wait = entry.not_before.unwrap().since(entry.updated_at);
    assert!((6_500..=7_000).contains(&wait.as_millis()), "{wait:?}");

    // Nobody waits seven seconds here.
    rig.set(shared::JobEntry { not_before: None, ..entry });
    assert_eq!(rig.deliver(&[job.record_at("1", 2)]).await.unwrap(), [""; 0]);
    assert_eq!(rig.state(&job), Some(State::Succeeded));
    let requests = receiver.requests();
    let all =
        |name| requests.iter().map(|request| header(request, name).unwrap()).collect::<Vec<_>>();
    assert_eq!(all("webhook-id"), [job.id.to_string(), job.id.to_string()]);
    assert_eq!(all("x-job-attempt"), ["1", "2"]);
    assert_eq!(header(&requests[0], "webhook-signature"), None);
    assert!(requests.iter().all(|request| request.ends_with("\r\n\r\nx")), "{requests:?}");
}

#[tokio::test]
async fn an_answer_that_is_final_is_a_dead_letter_at_once() {
    let redirect = "HTTP/1.1 307 Over there\r\nlocation: http://169.254.169.254/latest/meta-data/\r\n\
                    content-length: 0\r\n\r\n";
    for (answer, reason) in [
        ("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", "410 Gone"),
        ("HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n", "400 Bad Request"),
        (redirect, "redirects are not followed"),
        (
            "HTTP/1.1 503 No\r\nwebhook-delivery: abort-message\r\ncontent-length: 0\r\n\r\n",
            "does not want the message again",
        ),
    ] {
        let receiver = Receiver::start(&[answer]).await;
        let rig = local("127.0.0.1");
        check_refused(&rig, &receiver.url(), reason).await;
        assert_eq!(receiver.requests().len(), 1, "{answer}");
    }
}

#[tokio::test]
async fn nobody_is_connected_to_who_is_not_allowed() {
    let receiver = Receiver::start(&[OK]).await;
    let port = receiver.port;
    let not_public = "the host's address is not a public one";
    // Every host at a public address; the first is a name that leads to 127.0.0.1.
    for rig in [local("*"), local("elsewhere.example,*")] {
        for host in [
            "localhost",
            "LOCALHOST",
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "[::ffff:127.0.0.1]",
            "0",
        ] {
            check_refused(&rig, &format!("http://{host}:{port}/"), not_public).await;
        }
    }
    // Only who is named.
    let rig = local("elsewhere.example");
    check_refused(&rig, &receiver.url(), "not on the list").await;
    check_refused(&rig, &format!("http://localhost:{port}/"), "not on the list").await;
    // As it is where nothing is configured.
    let rig = Rig::configured(&[]);
    check_refused(&rig, &receiver.url(), "only https").await;
    check_refused(&rig, &format!("https://localhost:{port}/"), not_public).await;
    check_refused(&rig, "https://169.254.169.254/latest/meta-data/", not_public).await;
    assert_eq!(receiver.requests(), [""; 0]);

    let job = webhook(&format!("http://localhost:{port}/"), &json!({}));
    local("localhost").deliver(&[job.record("1")]).await.unwrap();
    assert_eq!(receiver.requests().len(), 1, "a name that is listed is connected to");
}

#[tokio::test]
async fn what_does_not_come_through_is_tried_again_and_the_url_is_not_told() {
    let silent = Receiver::start(&[""]).await;
    let broken = Receiver::start(&["HTTP/1.1 2"]).await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    for url in [
        silent.url(),
        broken.url(),
        format!("http://127.0.0.1:{closed}/?token=t0k3n"),
        // Plain text where TLS is expected.
        broken.url().replace("http:", "https:"),
        "http://no-such-host.invalid/?token=t0k3n".to_owned(),
    ] {
        let rig = local("127.0.0.1,*");
        let job = webhook(&url, &json!({ "timeout_seconds": 1 }));
        assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), ["1"], "{url}");
        let entry = rig.entry(&job).unwrap();
        let error = entry.error.unwrap();
        assert_eq!(entry.state, State::Queued, "{url}: {error}");
        assert!(error.contains("broke off") && !error.contains("t0k3n"), "{url}: {error}");
    }
}

#[tokio::test]
async fn of_a_large_answer_the_beginning_is_kept() {
    let exact = format!("HTTP/1.1 200 OK\r\ncontent-length: 16384\r\n\r\n{}", "x".repeat(16384));
    let more = format!("HTTP/1.1 201 OK\r\ncontent-length: 16385\r\n\r\n{}", "x".repeat(16385));
    let huge = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(4 << 20));
    // It says that there is more, and never sends it.
    let unfinished = "HTTP/1.1 202 OK\r\ncontent-length: 10\r\n\r\nxyz".to_owned();
    for (answer, length, truncated) in
        [(exact, 16384, false), (more, 16384, true), (huge, 16384, true), (unfinished, 3, true)]
    {
        let receiver = Receiver::start(&[&answer]).await;
        let rig = local("127.0.0.1");
        let job = webhook(&receiver.url(), &json!({ "timeout_seconds": 5 }));
        assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), [""; 0]);
        let entry = rig.entry(&job).unwrap();
        assert_eq!(entry.state, State::Succeeded);
        let result: Value = serde_json::from_str(&entry.result.unwrap()).unwrap();
        assert_eq!(result["body"].as_str().unwrap().len(), length);
        assert_eq!(result["truncated"], truncated, "{length}");
    }
}
