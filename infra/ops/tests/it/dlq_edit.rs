//! `cargo ops dlq edit`, with an editor that is a program.

use ops::local::Local;
use ops::stack::Stack;
use serde_json::{Value, json};
use shared::State;
use tokio::process::Command;

use crate::command_line::{ops, refusal, stdout};
use crate::dead_letters::{depth, entry, message, put_entry, put_letter, written};
use crate::support::{PARAMETERS, end_to_end, ended, new_id};

/// The command with an editor that replaces a text.
fn edit(local: &Local, stack: &Stack, id: &str, from: &str, to: &str) -> Command {
    let mut command = ops(local, stack, &["dlq", "edit", id, "--json"]);
    command.env("EDITOR", format!("sed -i 's/{from}/{to}/'"));
    // What was written in vain is kept, and here nobody wants it.
    command.env("TMPDIR", local.emulator.state());
    command
}

#[test]
fn an_edited_letter_becomes_another_job_and_is_gone() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-edit", &PARAMETERS).await.unwrap();
        let id = new_id();
        let rows = json!([{ "group": "north", "amount": "12,50" }]);
        let request = json!({ "kind": "report", "payload": { "title": "Sales", "rows": rows } });
        let body = message(&id, &request);
        put_letter(&stack, &body, &written("invalid-payload", "row 0 is odd")).await;

        let unchanged = edit(local, &stack, &id, "nothing", "nothing");
        let (code, told) = refusal(unchanged).await;
        assert_eq!(code, 1);
        assert!(told.contains("error: nothing was changed, and nothing was sent"), "{told}");

        let invalid = edit(local, &stack, &id, "12,50", "much");
        let (code, told) = refusal(invalid).await;
        assert_eq!(code, 1);
        assert!(told.contains("error: nothing was sent: the API answered 422"), "{told}");
        assert!(told.contains("/payload/rows/0/amount: must be a decimal"), "{told}");
        let broken = edit(local, &stack, &id, "{", "");
        let (_, told) = refusal(broken).await;
        assert!(told.contains("error: nothing was sent: the payload is no JSON"), "{told}");
        assert_eq!(depth(&stack).await, (1, 0), "(visible, hidden)");

        let mended = stdout(edit(local, &stack, &id, "12,50", "12.50")).await;
        let mended: Value = serde_json::from_str(&mended).unwrap();
        assert_eq!(mended["old_job_id"], id);
        let job = ended(&stack, mended["new_job_id"].as_str().unwrap()).await;
        assert_eq!(job["state"], "succeeded", "{job}");
        assert_eq!(job["result"]["total"]["sum"], "12.50", "{job}");
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");
    });
}

#[test]
fn another_payload_for_the_same_intent_is_no_other_job_and_the_letter_stays() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-edit-intent", &PARAMETERS).await.unwrap();
        let request = json!({ "kind": "welcome-email", "payload": {
            "candidate_id": new_id(), "to": "ada@example.org", "name": "Ada", "language": "en",
        } });
        let id = crate::support::accepted(&stack, &request, None).await;
        put_letter(&stack, &message(&id, &request), &written("permanent", "no")).await;
        let (code, told) = refusal(edit(local, &stack, &id, "Ada", "Eve")).await;
        assert_eq!(code, 1);
        assert!(told.contains("takes every payload with this intent for the same job"), "{told}");
        assert_eq!(depth(&stack).await, (1, 0), "(visible, hidden)");
    });
}

#[test]
fn the_letter_of_a_held_job_is_edited_only_by_force() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-edit-held", &PARAMETERS).await.unwrap();
        let id = new_id();
        let request = json!({ "kind": "welcome-email", "payload": {
            "candidate_id": id, "to": "ada@example.org", "name": "Ada", "language": "en",
        } });
        put_letter(&stack, &message(&id, &request), &written("interrupted", "nobody knows")).await;
        put_entry(&stack, &entry(&id, "welcome-email", State::Held)).await;

        let (code, told) = refusal(edit(local, &stack, &id, &id, &new_id())).await;
        assert_eq!(code, 1);
        assert!(told.contains("its effect may have happened"), "{told}");
        assert_eq!(depth(&stack).await, (1, 0), "(visible, hidden)");

        let mut forced = edit(local, &stack, &id, &id, &new_id());
        forced.arg("--force");
        let edited: Value = serde_json::from_str(&stdout(forced).await).unwrap();
        assert_eq!(edited["old_job_id"], id);
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");
    });
}

#[test]
fn a_letter_without_a_payload_says_how_to_go_on() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-edit-poison", &PARAMETERS).await.unwrap();
        let letter = put_letter(&stack, "{ no job", &written("undecodable", "no JSON")).await;
        let (code, told) = refusal(edit(local, &stack, &letter, "no", "a")).await;
        assert_eq!(code, 1);
        let export = format!("`cargo ops dlq export --message {letter} > letter.ndjson`");
        assert!(told.contains(&export), "{told}");
        assert!(told.contains("redrive the new letter, and purge this one"), "{told}");
    });
}
