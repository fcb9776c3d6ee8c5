//! Welcome e-mails, sent to a real SMTP server on loopback that goes wrong at
//! every point of the conversation.

use std::time::Duration;

use serde_json::json;
use shared::State;
use tokio::net::TcpListener;

use crate::mail_server::{AFTER_THE_MESSAGE, Fault, MailServer};
use crate::rig::{Job, Rig};

/// Long enough for a conversation, and short for one that hangs: handlers are
/// stopped after three of these seconds.
const TIME: Duration = Duration::from_secs(7);

/// The points at which something is answered.
const BEFORE_THE_MESSAGE: [&str; 5] = ["connect", "EHLO", "MAIL", "RCPT", "DATA"];

fn rig(server: &MailServer) -> Rig {
    Rig::configured(&[
        ("SMTP_URL", &format!("smtp://127.0.0.1:{}?tls=none", server.port)),
        ("EMAIL_FROM", "Relevo <hello@relevo.example>"),
    ])
}

pub(crate) fn welcome(to: &str) -> Job {
    let payload = json!({ "candidate_id": "c-1", "to": to, "name": "Ada", "language": "en" });
    Job::with_payload("welcome-email", &payload)
}

/// Sends one e-mail through a server with a fault; what became of the job.
async fn check(point: &'static str, fault: Fault, expected: State) {
    let server = MailServer::start(&[(point, fault)]).await;
    let (rig, job) = (rig(&server), welcome("ada@example.org"));
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
    let (rig, job) = (rig(&server), welcome("ada@example.org"));
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), [""; 0]);
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, State::Succeeded, "{:?}", entry.error);
    let [message] = &server.taken()[..] else { panic!("{:?}", server.taken()) };
    assert!(message.contains(&format!("Message-ID: <{}@relevo.example>\r\n", job.id)), "{message}");
    assert!(message.contains("\r\nTo: Ada <ada@example.org>\r\n"), "{message}");
    let heard = server.heard();
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
    let (rig, job) = (rig(&server), welcome("ada@example.org"));
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
    let (rig, job) = (rig(&server), welcome("ada@example.org"));
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
    let job = welcome("ada@example.org");
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), ["1"]);
    assert_eq!(rig.state(&job), Some(State::Queued));

    let (rig, job) = (Rig::configured(&[]), welcome("ada@example.org"));
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
    let job = welcome("ada@example.org");
    assert_eq!(rig.deliver(&[job.record("1")]).await.unwrap(), ["1"]);
    assert_eq!(rig.state(&job), Some(State::Queued));
    let heard = server.heard();
    assert!(heard.iter().all(|line| line.starts_with("EHLO") || line == "QUIT"), "{heard:?}");
}

#[tokio::test]
async fn twenty_copies_are_one_email() {
    let server = MailServer::start(&[]).await;
    let (rig, job) = (rig(&server), welcome("ada@example.org"));
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
    let (rig, job) = (rig(&server), welcome("ada@example.org"));
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
    let data = server.heard().iter().filter(|line| *line == "DATA").count();
    assert_eq!(data, 1);
}

#[tokio::test]
async fn twenty_copies_of_an_email_whose_handler_panics_after_the_send_are_one_email() {
    let server = MailServer::start(&[]).await;
    let (rig, job) = (rig(&server), welcome("panics-ada@example.org"));
    for batch in 0..4 {
        let records: Vec<_> = (0..5).map(|copy| job.record(&format!("{batch}-{copy}"))).collect();
        assert_eq!(rig.deliver(&records).await.unwrap(), [""; 0]);
    }
    assert_eq!(server.taken().len(), 1);
    let entry = rig.entry(&job).unwrap();
    assert_eq!(entry.state, State::Held);
    let error = format!("{:?}", entry.error);
    assert!(error.contains("panicked as asked, after the e-mail"), "{error}");
    let letters = rig.letters();
    assert_eq!(letters.len(), 20, "none of them vanished");
    assert!(letters.iter().all(|letter| letter.attribute("reason") == Some("interrupted")));
}
