//! Records that fail beside records that do not.

use ops::evidence::outcomes;
use ops::messages::{message, send_all};
use ops::stack::{Depth, eventually};
use serde_json::json;

use crate::support::{PARAMETERS, PATIENCE, end_to_end, ended, new_id, probe, report};

#[test]
fn a_poison_record_lands_in_the_dead_letter_queue_byte_for_byte_and_its_neighbours_succeed() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let poison = format!("{{\"no\": \"job\", \"mark\": \"{} é \\u00e9\"  }} \n", new_id());
        let ids = [new_id(), new_id()];
        let good = ids.each_ref().map(|id| message(id, &report("Beside").to_string()).unwrap());
        let [before, after] = good;
        send_all(stack, &[before, poison.clone(), after]).await.unwrap();
        let letter = stack.wait_for_dead_letter(&poison, PATIENCE).await.unwrap();
        let attributes = letter.message_attributes().unwrap();
        assert_eq!(attributes["reason"].string_value(), Some("undecodable"));
        assert!(attributes.contains_key("error"), "{attributes:?}");
        assert!(attributes.contains_key("source_message_id"), "{attributes:?}");
        for id in &ids {
            let job = ended(stack, id).await;
            assert_eq!((&job["state"], &job["attempt"]), (&json!("succeeded"), &json!(1)));
        }
    });
}

/// Fails without `ReportBatchItemFailures`: the record that failed would be
/// deleted with its neighbours, and its job would stay queued.
#[test]
fn only_the_record_that_failed_comes_back() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let ids = [new_id(), new_id(), new_id()];
        let requests = [report("Before"), probe(&["fail", "succeed"]), report("After")];
        let bodies: Vec<_> = std::iter::zip(&ids, &requests)
            .map(|(id, request)| message(id, &request.to_string()).unwrap())
            .collect();
        send_all(stack, &bodies).await.unwrap();
        for (id, attempts) in std::iter::zip(&ids, [1, 2, 1]) {
            let job = ended(stack, id).await;
            assert_eq!(
                (&job["state"], &job["attempt"]),
                (&json!("succeeded"), &json!(attempts)),
                "{job}"
            );
        }
    });
}

/// Fails without `ReportBatchItemFailures`, too: a newer producer's job would
/// be lost to an older consumer.
#[test]
fn a_message_of_a_kind_that_is_not_known_yet_stays_in_the_queue() {
    end_to_end(async |local| {
        // A queue of its own, whose messages can be counted.
        let stack = local.another_stack("not-known-yet", &PARAMETERS).await.unwrap();
        let id = new_id();
        let request = json!({ "kind": "not-known-yet", "payload": {} }).to_string();
        send_all(&stack, &[message(&id, &request).unwrap()]).await.unwrap();
        let told = eventually(PATIENCE, "the consumer has seen the message", async || {
            let told = outcomes(&stack, &id).await?;
            Ok((!told.is_empty()).then_some(told))
        });
        assert_eq!(told.await.unwrap(), ["not-understood"]);
        let kept = eventually(PATIENCE, "the message is in flight", async || {
            let depth = stack.queue_depth().await?;
            Ok((depth == Depth { visible: 0, in_flight: 1 }).then_some(()))
        });
        kept.await.unwrap();
        assert_eq!(stack.entry(&id).await.unwrap(), None);
    });
}
