//! Welcome e-mails, sent to a real SMTP server on loopback that goes wrong at
//! every point of the conversation.
#![expect(clippy::disallowed_methods, reason = "a test's server is no handler's work")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use shared::State;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::rig::{Job, Rig};

/// Long enough for a conversation, and short for one that hangs: handlers are
/// stopped after three of these seconds.
const TIME: Duration = Duration::from_secs(7);

/// What the server does at one point, instead of what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Answers(&'static str),
    Closes,
    Hangs,
}

/// The points at which something is answered.
const BEFORE_THE_MESSAGE: [&str; 5] = ["connect", "EHLO", "MAIL", "RCPT", "DATA"];
const AFTER_THE_MESSAGE: &str = ".";

/// A server, and what it took.
struct MailServer {
    port: u16,
    taken: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    async fn start(faults: &[(&'static str, Fault)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (taken, heard) = (Arc::default(), Arc::default());
        let server = Self { port, taken: Arc::clone(&taken), heard: Arc::clone(&heard) };
        let faults: BTreeMap<_, _> = faults.iter().copied().collect();
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let (taken, heard, faults) =
                    (Arc::clone(&taken), Arc::clone(&heard), faults.clone());
                tokio::spawn(async move {
                    converse(connection, &taken, &heard, &faults).await;
                });
            }
        });
        server
    }

    fn rig(&self) -> Rig {
        Rig::configured(&[
            ("SMTP_URL", &format!("smtp://127.0.0.1:{}?tls=none", self.port)),
            ("EMAIL_FROM", "Relevo <hello@relevo.example>"),
        ])
    }

    fn taken(&self) -> Vec<String> {
        self.taken.lock().unwrap().clone()
    }
}

/// Answers until the client goes, or a fault ends it.
async fn converse(
    connection: TcpStream,
    taken: &Mutex<Vec<String>>,
    heard: &Mutex<Vec<String>>,
    faults: &BTreeMap<&'static str, Fault>,
) {
    let mut connection = BufReader::new(connection);
    let (mut point, mut message) = ("connect".to_owned(), String::new());
    loop {
        let good = match point.as_str() {
            "connect" => "220 mail.example",
            "DATA" => "354 go ahead",
            _ => "250 fine",
        };
        let answer = match faults.get(point.as_str()) {
            Some(Fault::Answers(answer)) => answer,
            Some(Fault::Closes) => return,
            Some(Fault::Hangs) => std::future::pending().await,
            None => good,
        };
        if point == AFTER_THE_MESSAGE && answer.starts_with("250") {
            taken.lock().unwrap().push(std::mem::take(&mut message));
        }
        if connection.get_mut().write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
            return;
        }
        if point == "DATA" && answer.starts_with("354") {
            while !message.ends_with("\r\n.\r\n") {
                if connection.read_line(&mut message).await.unwrap_or_default() == 0 {
                    return;
                }
            }
            AFTER_THE_MESSAGE.clone_into(&mut point);
            continue;
        }
        let mut line = String::new();
        if connection.read_line(&mut line).await.unwrap_or_default() == 0 {
            return;
        }
        point = line.split(' ').next().unwrap().trim().to_owned();
        heard.lock().unwrap().push(line.trim().to_owned());
    }
}

fn welcome(candidate: &str) -> Job {
    let payload = json!({
        "candidate_id": candidate, "to": "ada@example.org", "name": "Ada", "language": "en",
    });
    Job::with_payload("welcome-email", &payload)
}

/// Sends one e-mail through a server with a fault; what became of the job.
async fn check(point: &'static str, fault: Fault, expected: State) {
    let server = MailServer::start(&[(point, fault)]).await;
    let (rig, job) = (server.rig(), welcome("c-1"));
    let reported = rig.deliver_within(TIME, &[job.record("1")]).await;
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, expected, "{point} {fault:?}: {:?}", entry.error);
    assert_eq!(reported.is_empty(), expected != State::Queued, "{point} {fault:?}");
    let letters = rig.letters();
    let reasons: Vec<_> = letters.iter().filter_map(|letter| letter.attribute("reason")).collect();
    let wanted: &[&str] = match expected {
        State::Held => &["interrupted"],
        State::Failed => &["permanent"],
        _ => &[],
    };
    assert_eq!(reasons, wanted, "{point} {fault:?}");
}

#[tokio::test]
async fn an_email_is_sent_with_the_jobs_id() {
    let server = MailServer::start(&[]).await;
    let (rig, job) = (server.rig(), welcome("c-1"));
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), [""; 0]);
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, State::Succeeded, "{:?}", entry.error);
    let [message] = &server.taken()[..] else { panic!("{:?}", server.taken()) };
    assert!(message.contains(&format!("Message-ID: <{}@relevo.example>\r\n", job.id)), "{message}");
    assert!(message.contains("\r\nTo: Ada <ada@example.org>\r\n"), "{message}");
    let heard = server.heard.lock().unwrap().clone();
    assert!(heard.contains(&"MAIL FROM:<hello@relevo.example>".to_owned()), "{heard:?}");
    assert!(heard.contains(&"RCPT TO:<ada@example.org>".to_owned()), "{heard:?}");
    let result = entry.result.unwrap();
    assert!(result.contains(&format!("<{}@relevo.example>", job.id)), "{result}");
}

#[tokio::test]
async fn until_the_message_begins_nothing_has_happened() {
    for point in BEFORE_THE_MESSAGE {
        check(point, Fault::Answers("451 later"), State::Queued).await;
        check(point, Fault::Answers("550 never"), State::Failed).await;
        check(point, Fault::Closes, State::Queued).await;
    }
    check("DATA", Fault::Answers("250 what?"), State::Queued).await;
}

#[tokio::test]
async fn an_address_that_the_server_quotes_is_not_kept() {
    let answer = "550 5.1.1 <Ada@Example.org>: no such user, ada@example.org";
    let server = MailServer::start(&[("RCPT", Fault::Answers(answer))]).await;
    let (rig, job) = (server.rig(), welcome("c-1"));
    rig.deliver(&[job.record("1")]).await.unwrap();
    let error = format!("{:?}", rig.entry(&job).unwrap().error);
    assert!(error.contains("<(the recipient)>: no such user, (the recipient)"), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_before_the_message_is_tried_again() {
    for point in BEFORE_THE_MESSAGE {
        check(point, Fault::Hangs, State::Queued).await;
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_message_itself_did_not_take_it() {
    check(AFTER_THE_MESSAGE, Fault::Answers("451 later"), State::Queued).await;
    check(AFTER_THE_MESSAGE, Fault::Answers("554 never"), State::Failed).await;
}

#[tokio::test]
async fn after_the_message_an_answer_that_does_not_come_is_a_persons_to_find_out() {
    check(AFTER_THE_MESSAGE, Fault::Closes, State::Held).await;
    check(AFTER_THE_MESSAGE, Fault::Hangs, State::Held).await;
    check(AFTER_THE_MESSAGE, Fault::Answers("nonsense"), State::Held).await;
}

#[tokio::test]
async fn a_server_that_does_not_say_good_bye_costs_no_time() {
    let server = MailServer::start(&[("QUIT", Fault::Hangs)]).await;
    let (rig, job) = (server.rig(), welcome("c-1"));
    let start = std::time::Instant::now();
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), [""; 0]);
    assert_eq!(rig.state(&job), Some(State::Succeeded));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn nobody_who_listens_is_no_reason_to_give_up_and_no_server_is() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let rig = Rig::configured(&[
        ("SMTP_URL", &format!("smtp://127.0.0.1:{port}?tls=none")),
        ("EMAIL_FROM", "hello@relevo.example"),
    ]);
    let job = welcome("c-1");
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), ["1"]);
    assert_eq!(rig.state(&job), Some(State::Queued));

    let (rig, job) = (Rig::configured(&[]), welcome("c-1"));
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), [""; 0]);
    assert_eq!(rig.state(&job), Some(State::Failed));
    let letter = rig.letters().pop().unwrap();
    assert!(letter.attribute("error").unwrap().contains("SMTP_URL"), "{letter:?}");
}

#[tokio::test]
async fn a_password_is_not_told_to_a_server_without_tls() {
    let server = MailServer::start(&[]).await;
    let rig = Rig::configured(&[
        ("SMTP_URL", &format!("smtp://user:hunter2@127.0.0.1:{}", server.port)),
        ("EMAIL_FROM", "hello@relevo.example"),
    ]);
    let job = welcome("c-1");
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), ["1"]);
    assert_eq!(rig.state(&job), Some(State::Queued));
    let heard = server.heard.lock().unwrap().clone();
    assert!(heard.iter().all(|line| line.starts_with("EHLO") || line == "QUIT"), "{heard:?}");
}

#[tokio::test]
async fn twenty_copies_are_one_email() {
    let server = MailServer::start(&[]).await;
    let (rig, job) = (server.rig(), welcome("c-1"));
    let records: Vec<_> = (0..20).map(|number| job.record(&number.to_string())).collect();
    let (first, second) = records.split_at(10);
    let (first, second) = tokio::join!(rig.deliver(first), rig.deliver(second));
    let mut late = [first.unwrap(), second.unwrap()].concat();
    // Copies that met the running job come back.
    assert!(late.len() <= 10, "{late:?}");
    late.push("20".to_owned());
    let again: Vec<_> = late.iter().map(|id| job.record_at(id, 2)).collect();
    assert_eq!(rig.deliver(&again).await.unwrap(), [""; 0]);
    assert_eq!(server.taken().len(), 1);
    assert_eq!(rig.state(&job), Some(State::Succeeded));
}

#[tokio::test]
async fn an_email_that_is_held_is_not_sent_by_any_other_copy() {
    let server = MailServer::start(&[(AFTER_THE_MESSAGE, Fault::Closes)]).await;
    let (rig, job) = (server.rig(), welcome("c-1"));
    for number in 0..3 {
        assert_eq!(rig.deliver(&[job.record(&number.to_string())]).await.unwrap(), [""; 0]);
    }
    assert_eq!(rig.state(&job), Some(State::Held));
    let reasons = rig
        .letters()
        .iter()
        .filter(|letter| letter.attribute("reason") == Some("interrupted"))
        .count();
    assert_eq!(reasons, 3);
    let data = server.heard.lock().unwrap().iter().filter(|line| *line == "DATA").count();
    assert_eq!(data, 1);
}
