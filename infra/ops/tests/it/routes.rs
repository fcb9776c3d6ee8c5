//! The API's other routes, through the deployed stack.

use ops::evidence::{executions, outcomes};
use ops::stack::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, accepted, end_to_end, ended, report};

#[test]
fn a_job_that_is_cancelled_while_it_waits_never_runs() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let mut request = report("Never");
        request["delay_seconds"] = json!(2);
        let id = accepted(stack, &request, None).await;
        for _ in 0..2 {
            let cancelled = stack.api.cancel(&id).await.unwrap();
            assert_eq!((cancelled.status, cancelled.text("/state")), (200, "cancelled"));
        }
        let told = eventually(PATIENCE, "the message is acknowledged", async || {
            let told = outcomes(stack, &id).await?;
            Ok((!told.is_empty()).then_some(told))
        });
        assert_eq!(told.await.unwrap(), ["cancelled"]);
        assert_eq!(executions(stack, &id).await.unwrap(), 0);
        assert_eq!(ended(stack, &id).await["state"], "cancelled");
    });
}

#[test]
fn a_job_that_has_ended_is_not_cancelled() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = accepted(stack, &report("Done"), None).await;
        let done = ended(stack, &id).await;
        let refused = stack.api.cancel(&id).await.unwrap();
        assert_eq!(refused.status, 409, "{}", refused.body);
        assert_eq!(ended(stack, &id).await, done);
    });
}

#[test]
fn every_job_of_a_batch_is_done_and_an_invalid_one_costs_the_others_nothing() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let mut jobs: Vec<Value> = (1..=25).map(|n| report(&format!("Number {n}"))).collect();
        jobs.insert(12, json!({ "kind": "report", "payload": {} }));
        let answer = stack.api.post_batch(json!({ "jobs": jobs }).to_string()).await.unwrap();
        assert_eq!(answer.status, 207, "{}", answer.body);
        let answers = answer.body["jobs"].as_array().unwrap();
        assert_eq!(answers.len(), 26);
        for (position, one) in answers.iter().enumerate() {
            if position == 12 {
                assert_eq!(one["status"], 422, "{one}");
                continue;
            }
            assert_eq!(one["status"], 202, "{one}");
            let job = ended(stack, one["job"]["id"].as_str().unwrap()).await;
            assert_eq!(job["state"], "succeeded", "{job}");
        }
    });
}

#[test]
fn the_description_is_served() {
    end_to_end(async |local| {
        let description = local.stack.api.get("/openapi.json").await.unwrap();
        assert_eq!(description.status, 200);
        assert!(description.text("/openapi").starts_with("3.1"), "{}", description.body);
    });
}
