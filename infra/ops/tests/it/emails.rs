//! Welcome e-mails through a real mail server: never two, whatever happens.

use std::time::Duration;

use ops::dlq::redrive::redrive;
use ops::evidence::outcomes;
use ops::local::Local;
use ops::messages::send_all;
use ops::stack::{Stack, eventually};
use serde_json::{Value, json};

use crate::crashes::kill;
use crate::dead_letters::{office, plan};
use crate::support::{PARAMETERS, PATIENCE, accepted, end_to_end, ended, new_id};

/// Copies of one message, in several batches.
const COPIES: usize = 20;

/// The visibility timeout of 61 s, twice, since a copy may come back to a job
/// that another one holds; and time to run what came back.
const UNTIL_ALL_ARE_BACK: Duration = Duration::from_secs(2 * 61 + 60);

/// A request, and the address of its candidate, whom nobody else writes to.
fn welcome(prefix: &str) -> (Value, String) {
    let candidate = new_id();
    let to = format!("{prefix}{candidate}@example.org");
    let request = json!({ "kind": "welcome-email", "payload": {
        "candidate_id": candidate, "to": to, "name": "Ada", "language": "en",
    } });
    (request, to)
}

/// The message of a job, byte for byte as the producer would send it again.
fn copy(id: &str, request: &Value) -> String {
    let mut message = request.clone();
    message["v"] = json!(1);
    message["id"] = json!(id);
    message.to_string()
}

/// A stack of its own, whose e-mails go to this server.
async fn stack_with_mail_server(local: &Local, name: &str, url: &str) -> Stack {
    let parameters = [&PARAMETERS[..], &[("SmtpUrl", url)]].concat();
    local.another_stack(name, &parameters).await.unwrap()
}

async fn wait_for_outcomes(stack: &Stack, id: &str, count: usize) -> Vec<String> {
    let told = eventually(UNTIL_ALL_ARE_BACK, "every copy has come to an end", async || {
        let mut told = outcomes(stack, id).await?;
        told.retain(|told| told != "in-progress");
        Ok((told.len() >= count).then_some(told))
    });
    told.await.unwrap()
}

#[test]
fn twenty_copies_and_two_callers_are_one_email() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let (request, to) = welcome("");
        let id = accepted(stack, &request, Some(&new_id())).await;
        assert_eq!(accepted(stack, &request, Some(&new_id())).await, id);
        send_all(stack, &vec![copy(&id, &request); COPIES]).await.unwrap();
        let job = ended(stack, &id).await;
        assert_eq!(job["state"], "succeeded", "{job}");
        let told = wait_for_outcomes(stack, &id, COPIES).await;
        let completed = told.iter().filter(|told| *told == "completed").count();
        assert_eq!(completed, 1, "{told:?}");
        let mails = local.receivers.mails(&to);
        assert_eq!(mails.len(), 1, "{mails:?}");
        let message_id = format!("Message-ID: <{id}@relevo.example>");
        assert!(mails[0]["message"].as_str().unwrap().contains(&message_id), "{mails:?}");
    });
}

#[test]
fn an_email_whose_answer_never_comes_is_held_and_no_copy_sends_it() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let (request, to) = welcome("silent-");
        let id = accepted(stack, &request, None).await;
        let body = copy(&id, &request);
        local.receivers.wait_for_mail(&to, PATIENCE).await.unwrap();
        send_all(stack, &vec![body.clone(); COPIES]).await.unwrap();
        assert_held(stack, &id, &body).await;
        let told = wait_for_outcomes(stack, &id, 1 + COPIES).await;
        assert!(told.iter().all(|told| told == "interrupted"), "{told:?}");
        assert_eq!(local.receivers.mails(&to).len(), 1);
    });
}

#[test]
fn a_process_killed_after_the_server_took_the_email_leaves_it_to_a_person() {
    end_to_end(async |local| {
        // Its own one: what is killed takes its neighbours' records with it.
        let url = local.receivers.starttls_url();
        let stack = &stack_with_mail_server(local, "emails", &url).await;
        let (request, to) = welcome("silent-");
        let id = accepted(stack, &request, None).await;
        let body = copy(&id, &request);
        send_all(stack, &vec![body.clone(); COPIES]).await.unwrap();
        // The server has it; its answer is on its way, and the crash is quicker.
        let mail = local.receivers.wait_for_mail(&to, PATIENCE).await.unwrap();
        assert_secure(&mail);
        kill(&stack.outputs.consumer, &local.emulator.endpoint());
        assert_held(stack, &id, &body).await;
        // Whichever copies are still under way, and a redrive by hand.
        send_all(stack, &vec![body.clone(); 3]).await.unwrap();
        let told = wait_for_outcomes(stack, &id, 1 + COPIES + 3).await;
        assert!(told.iter().all(|told| told == "interrupted"), "{told:?}");
        stack.wait_until_queue_is_empty(UNTIL_ALL_ARE_BACK).await.unwrap();
        assert_eq!(local.receivers.mails(&to).len(), 1);
    });
}

#[test]
fn an_email_whose_handler_panics_after_the_send_is_sent_again_only_by_a_persons_word() {
    end_to_end(async |local| {
        let stack = &stack_with_mail_server(local, "panics", &local.receivers.smtps_url()).await;
        let (request, to) = welcome("panics-");
        let id = accepted(stack, &request, None).await;
        let body = copy(&id, &request);
        send_all(stack, &vec![body.clone(); COPIES]).await.unwrap();
        assert_held(stack, &id, &body).await;
        let told = wait_for_outcomes(stack, &id, 1 + COPIES).await;
        assert!(told.iter().all(|told| told == "interrupted"), "{told:?}");
        let mails = local.receivers.mails(&to);
        assert_eq!(mails.len(), 1, "{mails:?}");
        assert_secure(&mails[0]);

        let sent_back = redrive(&office(stack), &plan(&["--id", &id])).await.unwrap();
        assert!(sent_back > 1, "all copies, of which one may run");
        wait_for_outcomes(stack, &id, 1 + COPIES + sent_back).await;
        assert_eq!(local.receivers.mails(&to).len(), 2);
    });
}

/// It came over TLS, from somebody who had logged in.
fn assert_secure(mail: &Value) {
    assert_eq!((&mail["tls"], &mail["login"]), (&json!(true), &json!("relevo")), "{mail}");
}

/// The job is held, at least one copy lies in the dead-letter queue, and clients
/// see that it was interrupted.
async fn assert_held(stack: &Stack, id: &str, body: &str) {
    let letter = stack.wait_for_letter_of(id, UNTIL_ALL_ARE_BACK).await.unwrap();
    let attributes = letter.message_attributes().unwrap();
    assert_eq!(attributes["reason"].string_value(), Some("interrupted"), "{body}");
    let entry = stack.entry(id).await.unwrap().unwrap();
    assert_eq!(entry["state"].as_s().unwrap(), "held");
    let job = stack.api.job(id).await.unwrap().body;
    assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("interrupted")), "{job}");
}
