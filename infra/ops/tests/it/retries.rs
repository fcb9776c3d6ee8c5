//! Jobs that fail or hang: tried again, given up, and redriven.

use ops::evidence::{executions, outcomes};
use ops::messages::{message, send_all};
use ops::stack::eventually;
use serde_json::json;

use crate::support::{PATIENCE, accepted, end_to_end, ended, new_id, probe};

/// `MaxReceiveCount`, as the template has it by default.
const RECEIVES: usize = 5;

#[test]
fn a_job_that_fails_once_is_run_again_and_succeeds() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = accepted(stack, &probe(&["fail", "succeed"]), None).await;
        let job = ended(stack, &id).await;
        assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(2)), "{job}");
    });
}

#[test]
fn a_job_that_always_fails_is_given_up_and_lies_in_the_dead_letter_queue_byte_for_byte() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = new_id();
        // White space and escapes: nothing on the way may write it anew.
        let body = message(&id, &probe(&["fail"]).to_string()).unwrap();
        let body = body.replacen('{', "{ \"note\" :\t\"\\u00e9 é\",\n", 1);
        send_all(stack, std::slice::from_ref(&body)).await.unwrap();
        let job = ended(stack, &id).await;
        assert_eq!(
            (&job["state"], &job["reason"], &job["attempt"]),
            (&json!("failed"), &json!("retries-exhausted"), &json!(RECEIVES)),
            "{job}"
        );
        stack.wait_for_dead_letter(&body, PATIENCE).await.unwrap();
        assert_eq!(executions(stack, &id).await.unwrap(), RECEIVES);
    });
}

#[test]
fn a_dead_letter_that_is_sent_back_when_its_cause_is_mended_succeeds() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = new_id();
        let cause = local.emulator.state().join(&id);
        let request = json!({ "kind": "probe", "payload": {
            "attempts": [{ "fail_permanently_without": cause }],
        } });
        let body = message(&id, &request.to_string()).unwrap();
        send_all(stack, std::slice::from_ref(&body)).await.unwrap();
        let letter = stack.wait_for_dead_letter(&body, PATIENCE).await.unwrap();
        assert_eq!(ended(stack, &id).await["reason"], "permanent");

        std::fs::write(&cause, "mended").unwrap();
        send_all(stack, &[letter.body().unwrap().to_owned()]).await.unwrap();
        let succeeded = eventually(PATIENCE, "the job has succeeded", async || {
            let job = stack.api.job(&id).await?.body;
            Ok((job["state"] == "succeeded").then_some(job))
        });
        let job = succeeded.await.unwrap();
        // Another copy of the message, whose receives count from one.
        assert_eq!((&job["attempt"], &job["reason"]), (&json!(1), &json!(null)), "{job}");
        assert_eq!(executions(stack, &id).await.unwrap(), 2);
    });
}

#[test]
fn a_job_that_hangs_is_stopped_in_time_given_back_and_run_again() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = accepted(stack, &probe(&["hang", "succeed"]), None).await;
        let job = ended(stack, &id).await;
        assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(2)), "{job}");
        let told = eventually(PATIENCE, "both attempts are in the log", async || {
            let told = outcomes(stack, &id).await?;
            Ok((told.len() >= 2).then_some(told))
        });
        assert_eq!(told.await.unwrap(), ["released", "completed"]);
        // It stopped by itself; the emulator did not have to.
        assert!(!local.emulator.log().contains("Task timed out"));
    });
}
