//! What is wrong is said in one sentence, with what to do, and by the exit code.

use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use crate::command_line::{at_a_terminal, bare, ops, refusal, stdout};
use crate::dead_letters::{depth, message, put_letter};
use crate::submitting::ended_as;
use crate::support::{PARAMETERS, end_to_end, new_id, report, run};

/// The command must fail with this code, and say this in one line.
async fn check(command: Command, code: i32, words: &str) {
    let (ended, told) = refusal(command).await;
    assert_eq!(ended, code, "{told}");
    let error = told.split_once("error: ").unwrap_or_default().1;
    assert!(error.contains(words), "{told}");
    // What clap says of a wrong call has its own lines behind it.
    assert!(code == 2 || error.trim_end().lines().count() == 1, "{told}");
}

#[test]
fn a_stack_elsewhere_is_not_taken_for_the_one_that_was_named() {
    end_to_end(async |local| {
        let id = new_id();
        let status = |more: &[&str]| ops(local, &local.stack, &[&["status", &*id], more].concat());
        let elsewhere = status(&["--region", "eu-west-1"]);
        let words = format!("there is no stack {} in eu-west-1 in this account", local.stack.name);
        check(elsewhere, 1, &words).await;
        // There are credentials in the environment, and they are not those of the profile.
        let words = "there are no usable AWS credentials: log in";
        check(status(&["--profile", "nope"]), 1, words).await;
        let mut nobodys = status(&[]);
        nobodys.env("AWS_ACCESS_KEY_ID", "AKIANOBODY");
        check(nobodys, 1, "or name another profile with --profile").await;
        let mut unreachable = status(&[]);
        unreachable.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
        check(unreachable, 1, "is there a network, and is the stack still there?").await;
    });
}

#[test]
fn what_is_called_wrongly_is_said_before_anything_is_done() {
    run(async {
        for (arguments, words) in [
            (&["logs", "--job", "42"][..], "ids of jobs are UUIDs, such as"),
            (&["dlq", "redrive"], "--all"),
            (&["dev", "--watch-port", "0"], "0 is not in 1..=65535"),
        ] {
            check(bare(arguments), 2, words).await;
        }
    });
}

#[test]
fn a_token_that_can_be_no_header_is_refused_and_not_shown() {
    run(async {
        for token in ["eyJsecret\r", "eyJsecret\n", " eyJsecret", "eyJs\u{e9}cret"] {
            let (code, told) = refusal(bare(&["dlq", "list", "--token", token])).await;
            let words = "error: the token (--token, RELEVO_TOKEN) has blanks or line ends\n";
            assert_eq!((code, &*told), (1, words));
        }
        // A variable that is set to nothing is none.
        let mut empty = bare(&["dlq", "list", "--stack", "relevo"]);
        empty.env("RELEVO_TOKEN", "");
        check(empty, 1, "region").await;
    });
}

#[test]
fn a_stack_that_lacks_its_table_or_queue_is_said_to_and_nothing_is_half_done() {
    end_to_end(async |local| {
        let stack = local.another_stack("lacking", &PARAMETERS).await.unwrap();
        put_letter(&stack, &message(&new_id(), &report("Sales")), &[("kind", "report")]).await;
        let table = stack.outputs.table_name.as_str();
        let unprotect = stack.dynamodb.update_table().table_name(table);
        unprotect.deletion_protection_enabled(false).send().await.unwrap();
        stack.dynamodb.delete_table().table_name(table).send().await.unwrap();
        let words = "could not read the jobs' entries: BatchGetItem failed \
                     (ResourceNotFoundException)";
        for arguments in [
            &["dlq", "list"][..],
            &["dlq", "list", "--group", "--json"],
            &["dlq", "reconcile"],
            &["dlq", "redrive", "--all"],
            &["dlq", "purge", "--all", "--yes"],
            &["dlq", "export", "--all"],
        ] {
            let output = ops(local, &stack, arguments).output().await.unwrap();
            let (code, shown, told) = ended_as(output);
            assert_eq!(code, 1, "{told}");
            assert!(!shown.contains("every entry knows"), "{shown}");
            assert!(told.contains(words), "{told}");
            assert!(told.ends_with("; `cargo ops doctor` says what the stack lacks\n"), "{told}");
            assert_eq!(depth(&stack).await, (1, 0), "(visible, hidden) after {arguments:?}");
        }
        let letters = &stack.outputs.dead_letter_queue_url;
        stack.sqs.delete_queue().queue_url(letters).send().await.unwrap();
        for arguments in [&["dlq", "list"][..], &["queue"]] {
            let words = "; `cargo ops doctor` says what the stack lacks";
            check(ops(local, &stack, arguments), 1, words).await;
        }
    });
}

#[test]
fn whoever_reads_no_further_is_no_reason_to_panic_or_complain() {
    run(async {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = bare(&["completions", "bash"]);
        let writing = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = writing.wait_with_output().await.unwrap();
        // As a shell tells of `head`, which is no error to be told.
        assert_eq!((output.status.code(), output.stderr), (Some(141), vec![]));

        let mut command = bare(&["completions", "bash"]);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let writing = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let output = writing.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.starts_with("error: could not write to stdout: No space left"), "{told}");
    });
}

#[test]
fn dead_letters_do_not_command_the_terminal_however_narrow_it_is() {
    end_to_end(async |local| {
        let stack = local.another_stack("commanding", &PARAMETERS).await.unwrap();
        let kind = "\u{1b}[2J\u{9b}31mred\r";
        let body = json!({ "v": 1, "id": new_id(), "kind": kind, "payload": {} }).to_string();
        let name = put_letter(&stack, &body, &[]).await;
        let list = ops(local, &stack, &["dlq", "list"]);
        let (code, screen) = at_a_terminal(&list, 20, ("nothing is asked", "")).await;
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains(r"\u001b[2J\u009b31mred\u000d"), "{screen}");
        assert!(screen.contains(&name), "{screen}");
        let show = stdout(ops(local, &stack, &["dlq", "show", &name])).await;
        assert!(show.contains(r"\u001b[2J"), "{show}");
        assert!(!show.contains(['\u{1b}', '\u{9b}', '\r']), "{show:?}");
        let json = stdout(ops(local, &stack, &["dlq", "show", &name, "--json"])).await;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["body"], &json["letter"]["kind"]), (&json!(body), &json!(kind)));
    });
}
