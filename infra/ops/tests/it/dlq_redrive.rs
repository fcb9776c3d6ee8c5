//! `cargo ops dlq redrive`: what it sends, to whom, and what becomes of it.

use std::time::Duration;

use aws_sdk_sqs::types::{MessageAttributeValue, MessageSystemAttributeName as System};
use ops::dlq::redrive::{Plan, redrive};
use ops::evidence::{executions, outcomes};
use ops::messages::send_all;
use ops::stack::{Stack, eventually};
use serde_json::{Value, json};
use shared::State;

use crate::command_line::{ops, refusal, stdout};
use crate::dead_letters::{
    assert_shows, depth, entry, message, new_queue, now, office, plan, put_entry, put_letter,
    with_own_dead_letters, written,
};
use crate::support::{PARAMETERS, PATIENCE, end_to_end, ended, new_id, report};

async fn succeeded(stack: &Stack, id: &str) {
    let job = eventually(PATIENCE, "the job has succeeded", async || {
        let job = stack.api.job(id).await?.body;
        Ok((job["state"] == "succeeded").then_some(job))
    });
    job.await.unwrap();
}

#[test]
fn a_job_whose_cause_is_mended_succeeds_after_its_redrive() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-redrive", &PARAMETERS).await.unwrap();
        let id = new_id();
        let cause = local.emulator.state().join(&id);
        let body = message(
            &id,
            &json!({ "kind": "probe", "payload": {
            "attempts": [{ "fail_permanently_without": cause }],
        } }),
        );
        send_all(&stack, &[body]).await.unwrap();
        assert_eq!(ended(&stack, &id).await["reason"], "permanent");
        let arguments = ["dlq", "redrive", "--reason", "permanent", "--kind", "probe"];

        let dry = [&arguments[..], &["--dry-run"]].concat();
        assert_shows("dlq_redrive_dry_run", &stdout(ops(local, &stack, &dry)).await);
        assert_eq!(depth(&stack).await, (1, 0), "(visible, hidden)");

        // It fails again while its cause is there, and that is not an endless loop.
        let json = [&arguments[..], &["--json"]].concat();
        let told: Value = serde_json::from_str(&stdout(ops(local, &stack, &json)).await).unwrap();
        assert_eq!((&told["sent"], &told["deleted"]), (&json!(1), &json!(1)), "{told}");
        let executed = eventually(PATIENCE, "it has failed again", async || {
            let count = executions(&stack, &id).await?;
            Ok((count >= 2 && depth(&stack).await == (1, 0)).then_some(count))
        });
        assert_eq!(executed.await.unwrap(), 2);

        std::fs::write(&cause, "mended").unwrap();
        let by_id = ["dlq", "redrive", "--id", &id];
        assert_shows("dlq_redrive", &stdout(ops(local, &stack, &by_id)).await);
        succeeded(&stack, &id).await;
        assert_eq!(executions(&stack, &id).await.unwrap(), 3);
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");

        let (code, told) = refusal(ops(local, &stack, &by_id)).await;
        assert_eq!(code, 1);
        assert!(told.contains(&format!("error: there is no dead letter of job {id}")), "{told}");
        let (code, _) = refusal(ops(local, &stack, &["dlq", "redrive"])).await;
        assert_eq!(code, 2, "nobody said which letters");
    });
}

#[test]
fn a_held_job_and_one_that_has_just_failed_run_once_more_by_a_persons_word() {
    end_to_end(async |local| {
        let stack = with_own_dead_letters(&local.stack, "dlq-held").await;
        let mut jobs = Vec::new();
        for (state, reason) in [(State::Held, "interrupted"), (State::Failed, "permanent")] {
            let id = new_id();
            let to = format!("{id}@example.org");
            let body = message(
                &id,
                &json!({ "kind": "welcome-email", "payload": {
                "candidate_id": id, "to": to, "name": "Ada", "language": "en",
            } }),
            );
            put_entry(&stack, &entry(&id, "welcome-email", state)).await;
            // The second one is a copy, and does not mean a second e-mail.
            put_letter(&stack, &body, &written(reason, "nobody knows")).await;
            put_letter(&stack, &body, &written(reason, "nobody knows")).await;
            jobs.push((id, to));
        }
        assert_eq!(redrive(&office(&stack), &plan(&["--all"])).await.unwrap(), 4);
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");
        for (id, to) in jobs {
            succeeded(&stack, &id).await;
            let ended = eventually(PATIENCE, "the copy has come to its end", async || {
                Ok((outcomes(&stack, &id).await?.contains(&"duplicate".to_owned())).then_some(()))
            });
            ended.await.unwrap();
            assert_eq!(local.receivers.mails(&to).len(), 1);
        }
    });
}

#[test]
fn a_job_that_is_older_than_its_entry_is_sent_back_only_by_force() {
    end_to_end(async |local| {
        let stack = with_own_dead_letters(&local.stack, "dlq-old").await;
        let id = new_id();
        let mut old: Value = serde_json::from_str(&message(&id, &report("Old"))).unwrap();
        let accepted = now() - Duration::from_hours(31 * 24);
        old["created_at"] = json!(accepted.as_millis());
        put_letter(&stack, &old.to_string(), &written("permanent", "no")).await;

        let (office, plan) = (office(&stack), plan(&["--all"]));
        let error = redrive(&office, &plan).await.unwrap_err().to_string();
        assert!(error.starts_with("1 of 1 dead letter still here"), "{error}");
        assert_eq!(depth(&stack).await, (1, 0), "(visible, hidden)");

        assert_eq!(redrive(&office, &Plan { force: true, ..plan }).await.unwrap(), 1);
        succeeded(&stack, &id).await;
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");
    });
}

#[test]
fn what_is_sent_back_is_the_message_as_it_was_first_sent() {
    end_to_end(async |local| {
        let mut stack = with_own_dead_letters(&local.stack, "dlq-as-sent").await;
        stack.outputs.queue_url = new_queue(&stack, "dlq-as-sent-source").await;

        let text = |value: &str| {
            let value = MessageAttributeValue::builder().data_type("String").string_value(value);
            value.build().unwrap()
        };
        let body = "{ \"id\" :\t\"\\u00e9 é\",\n\"n\": 1.0 }";
        let mut send = stack
            .sqs
            .send_message()
            .queue_url(&stack.outputs.dead_letter_queue_url)
            .message_body(body)
            .message_group_id("a1b2");
        for (name, value) in written("undecodable", "no job id") {
            send = send.message_attributes(name, text(value));
        }
        let bytes = aws_sdk_sqs::primitives::Blob::new([0_u8, 1, 255]);
        let picture = MessageAttributeValue::builder().data_type("Binary.png").binary_value(bytes);
        let picture = picture.build().unwrap();
        send = send.message_attributes("picture", picture.clone());
        let letter = send.message_attributes("kind", text("report")).send().await.unwrap();

        let plan = plan(&["--message", letter.message_id().unwrap()]);
        assert_eq!(redrive(&office(&stack), &plan).await.unwrap(), 1);

        let received = stack
            .sqs
            .receive_message()
            .queue_url(&stack.outputs.queue_url)
            .message_attribute_names("All")
            .message_system_attribute_names(System::All)
            .send()
            .await
            .unwrap();
        let message = &received.messages()[0];
        assert_eq!(message.body(), Some(body));
        let attributes = message.message_attributes().unwrap();
        assert_eq!(attributes.len(), 2, "{attributes:?}");
        assert_eq!((&attributes["kind"], &attributes["picture"]), (&text("report"), &picture));
        // The emulator drops what else a batch says about the system.
        assert_eq!(message.attributes().unwrap()[&System::MessageGroupId], "a1b2");
    });
}

#[test]
fn what_has_succeeded_meanwhile_is_not_done_again() {
    end_to_end(async |local| {
        let stack = with_own_dead_letters(&local.stack, "dlq-done").await;
        let id = new_id();
        put_letter(&stack, &message(&id, &report("Done")), &written("permanent", "no")).await;
        put_entry(&stack, &entry(&id, "report", State::Succeeded)).await;
        assert_eq!(redrive(&office(&stack), &plan(&["--id", &id])).await.unwrap(), 1);
        let told = eventually(PATIENCE, "the consumer has seen it", async || {
            Ok(Some(outcomes(&stack, &id).await?).filter(|told| !told.is_empty()))
        });
        assert_eq!(told.await.unwrap(), ["duplicate"]);
        assert_eq!(executions(&stack, &id).await.unwrap(), 0);
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");
    });
}
