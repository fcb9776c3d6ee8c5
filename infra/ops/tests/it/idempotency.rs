//! One piece of work, however often it is asked for or delivered.

use std::collections::HashSet;

use ops::evidence::{executions, outcomes};
use ops::messages::{message, send_all};
use ops::stack::{Stack, eventually};
use serde_json::json;

use crate::support::{PATIENCE, accepted, end_to_end, ended, new_id, report};

#[test]
fn the_same_request_twice_with_one_key_is_one_job_and_one_execution() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let key = new_id();
        let first = accepted(stack, &report("Twice"), Some(&key)).await;
        let second = accepted(stack, &report("Twice"), Some(&key)).await;
        assert_eq!(first, second);
        ended(stack, &first).await;
        let third = accepted(stack, &report("Twice"), Some(&key)).await;
        assert_eq!(first, third);
        assert_one_execution(stack, &first, 1).await;
    });
}

#[test]
fn ten_requests_at_once_with_one_key_are_one_job_and_one_execution() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let (key, request) = (new_id(), report("At once"));
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (api, key, request) = (stack.api.clone(), key.clone(), request.to_string());
            requests.spawn(async move { api.post_job(request, Some(&key)).await.unwrap() });
        }
        let answers = requests.join_all().await;
        assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
        let ids: HashSet<_> = answers.iter().map(|answer| answer.id().unwrap()).collect();
        let [id] = Vec::from_iter(ids)[..] else { panic!("several jobs: {answers:?}") };
        ended(stack, id).await;
        assert_one_execution(stack, id, 1).await;
    });
}

#[test]
fn a_key_that_names_another_job_is_refused() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let key = new_id();
        accepted(stack, &report("First"), Some(&key)).await;
        let other = report("Second").to_string();
        let answer = stack.api.post_job(other, Some(&key)).await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert!(answer.text("/type").ends_with("idempotency-key-reused"), "{}", answer.body);
    });
}

#[test]
fn copies_of_one_message_in_several_batches_run_once() {
    const COPIES: usize = 30;
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = new_id();
        let body = message(&id, &report("Copies").to_string()).unwrap();
        send_all(stack, &vec![body; COPIES]).await.unwrap();
        let job = ended(stack, &id).await;
        assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(1)), "{job}");
        // Those that met the running job come back when its lease is over.
        assert_one_execution(stack, &id, COPIES).await;
    });
}

#[test]
fn a_copy_that_comes_after_success_is_acknowledged_and_changes_nothing() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = new_id();
        let body = message(&id, &report("Late copy").to_string()).unwrap();
        send_all(stack, std::slice::from_ref(&body)).await.unwrap();
        ended(stack, &id).await;
        let before = stack.entry(&id).await.unwrap();
        send_all(stack, &[body]).await.unwrap();
        assert_one_execution(stack, &id, 2).await;
        assert_eq!(outcomes(stack, &id).await.unwrap(), ["completed", "duplicate"]);
        assert_eq!(stack.entry(&id).await.unwrap(), before);
    });
}

/// Waits until at least `copies` records of the job were acknowledged, and checks
/// that its handler was started once.
async fn assert_one_execution(stack: &Stack, id: &str, copies: usize) {
    let told = eventually(PATIENCE, "every copy is acknowledged", async || {
        let told = outcomes(stack, id).await?;
        let acknowledged = ["completed", "duplicate"];
        let count = told.iter().filter(|told| acknowledged.contains(&told.as_str())).count();
        Ok((count >= copies).then_some(told))
    });
    let told = told.await.unwrap();
    assert_eq!(executions(stack, id).await.unwrap(), 1, "{told:?}");
}
