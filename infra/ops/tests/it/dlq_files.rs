//! `cargo ops dlq export`, `import` and `purge`: letters leave their queue and
//! come back, byte for byte.

use std::process::Stdio;

use ops::stack::Stack;
use tokio::io::AsyncWriteExt;

use crate::command_line::{at_a_terminal, ops, refusal, stdout};
use crate::dead_letters::{assert_shows, depth, message, put_letter, written};
use crate::support::{PARAMETERS, end_to_end, new_id, report};

/// White space and escapes: nothing on the way may write them anew.
const POISON: &str = "{ \"note\" :\t\"\\u00e9 é\",\n\"n\": 1.0 }";

/// What an export has, without what differs from export to export.
fn contents(export: &str) -> Vec<serde_json::Value> {
    let mut lines: Vec<serde_json::Value> =
        export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        let line = line.as_object_mut().unwrap();
        line.remove("message_id");
        line.remove("sent_at");
    }
    lines.sort_by_key(ToString::to_string);
    lines
}

async fn letters(stack: &Stack) {
    put_letter(stack, POISON, &written("undecodable", "no job id")).await;
    let id = new_id();
    put_letter(stack, &message(&id, &report("Sales")), &written("permanent", "no")).await;
    put_letter(stack, &message(&new_id(), &report("Sales")), &[("kind", "report")]).await;
}

#[test]
fn what_is_exported_and_purged_is_the_same_when_it_is_imported() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-files", &PARAMETERS).await.unwrap();
        letters(&stack).await;
        let all = ["dlq", "export", "--all"];
        let exported = stdout(ops(local, &stack, &all)).await;
        assert_eq!(depth(&stack).await, (3, 0), "(visible, hidden)");
        let poison = ["dlq", "export", "--reason", "undecodable"];
        let only = stdout(ops(local, &stack, &poison)).await;
        assert_shows("dlq_export", &only);
        assert_eq!(contents(&only)[0]["body"], POISON);

        // Nobody is there to be asked.
        let (code, told) = refusal(ops(local, &stack, &["dlq", "purge", "--all"])).await;
        assert_eq!(code, 1);
        assert!(told.contains("error: nothing was deleted: add --yes"), "{told}");
        assert_eq!(depth(&stack).await, (3, 0), "(visible, hidden)");
        let one = ["dlq", "purge", "--reason", "undecodable", "--yes"];
        assert_shows("dlq_purge", &stdout(ops(local, &stack, &one)).await);
        assert_eq!(depth(&stack).await, (2, 0), "(visible, hidden)");
        let rest = ["dlq", "purge", "--all", "--yes", "--json"];
        assert_shows("dlq_purge_json", &stdout(ops(local, &stack, &rest)).await);
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");

        let file = local.emulator.state().join("letters.ndjson");
        std::fs::write(&file, &exported).unwrap();
        let import = ["dlq", "import", file.to_str().unwrap()];
        assert_shows("dlq_import", &stdout(ops(local, &stack, &import)).await);
        assert_eq!(depth(&stack).await, (3, 0), "(visible, hidden)");
        let again = stdout(ops(local, &stack, &all)).await;
        assert_eq!(contents(&again), contents(&exported));

        // The second line is none, so the first one is not sent either.
        let mut bad = ops(local, &stack, &["dlq", "import", "-"]);
        let mut bad = bad.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let text = format!("{}\n{{\"v\":1}}\n", exported.lines().next().unwrap());
        bad.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
        let output = bad.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("error: line 2 is no dead letter, and nothing was sent"), "{told}");
        assert_eq!(depth(&stack).await, (3, 0), "(visible, hidden)");
    });
}

const QUESTION: &str = "Type \"purge 3\" to delete them:";

#[test]
fn purge_deletes_only_what_somebody_confirms_by_its_number() {
    end_to_end(async |local| {
        let stack = local.another_stack("dlq-purge", &PARAMETERS).await.unwrap();
        letters(&stack).await;
        let purge = ops(local, &stack, &["dlq", "purge", "--all"]);
        for (typed, code, told) in [
            ("yes\n", 1, "error: nothing was deleted"),
            ("purge 2\n", 1, "error: nothing was deleted"),
            ("\n", 1, "error: nothing was deleted"),
            // The end of what is typed, and Ctrl-C.
            ("\u{4}", 1, "error: nothing was deleted: nobody answered"),
            ("\u{3}", 130, QUESTION),
        ] {
            let (ended, screen) = at_a_terminal(&purge, 100, (QUESTION, typed)).await;
            assert_eq!(ended, code, "{typed:?}: {screen}");
            assert!(screen.contains(told), "{typed:?}: {screen}");
            assert_eq!(depth(&stack).await, (3, 0), "(visible, hidden) after {typed:?}");
        }
        let (ended, screen) = at_a_terminal(&purge, 100, (QUESTION, "purge 3\n")).await;
        assert_eq!(ended, 0, "{screen}");
        assert!(screen.contains("3 dead letters deleted"), "{screen}");
        assert_eq!(depth(&stack).await, (0, 0), "(visible, hidden)");
    });
}
