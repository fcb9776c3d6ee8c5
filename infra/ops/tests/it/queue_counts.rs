//! `cargo ops queue`.

use std::process::Stdio;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use ops::messages::send_all;
use ops::stack::eventually;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::command_line::{ops, stdout};
use crate::submitting::documents;
use crate::support::{PARAMETERS, PATIENCE, accepted, end_to_end, new_id, report};

#[test]
fn the_queue_is_counted_and_nothing_is_received() {
    end_to_end(async |local| {
        // A queue of its own, whose messages can be counted.
        let parameters = [&PARAMETERS[..], &[("MaximumConcurrency", "20")]].concat();
        let stack = local.another_stack("counted", &parameters).await.unwrap();
        let mut later = report("Later");
        later["delay_seconds"] = json!(900);
        for _ in 0..2 {
            accepted(&stack, &later, Some(&new_id())).await;
        }
        send_all(&stack, &["no job".to_owned()]).await.unwrap();
        let counted = eventually(PATIENCE, "the poison is a dead letter", async || {
            let lines = stdout(ops(local, &stack, &["queue", "--json"])).await;
            let counted = documents(&lines).remove(0);
            Ok((counted["dead_letters"] == 1).then_some(counted))
        });
        let counted = counted.await.unwrap();
        assert_eq!(
            counted,
            json!({
                "queue": counted["queue"], "waiting": 0, "in_flight": 0, "delayed": 2,
                "oldest_age_seconds": null, "dead_letters": 1, "consumer": {
                    "enabled": true, "maximum_concurrency": 20, "reserved_concurrency": null,
                    "concurrency_in_use": null,
                },
            })
        );
        let shown = stdout(ops(local, &stack, &["queue"])).await;
        let name = counted["queue"].as_str().unwrap();
        insta::assert_snapshot!("queue", shown.replace(name, &"q".repeat(name.len())));

        let mut command = ops(local, &stack, &["queue", "--follow", "--interval", "1"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for words in ["Waiting", "  2 ", "  2 "] {
            let line = lines.next_line().await.unwrap().unwrap();
            assert!(line.contains(words), "{line}");
        }
        child.kill().await.unwrap();
        let letters = stack.sqs.receive_message().queue_url(&stack.outputs.dead_letter_queue_url);
        let count = MessageSystemAttributeName::ApproximateReceiveCount;
        let letters = letters.message_system_attribute_names(count.clone()).send().await.unwrap();
        assert_eq!(letters.messages()[0].attributes().unwrap()[&count], "1");
    });
}
