//! `cargo ops submit`.

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use ops::local::Local;
use serde_json::{Value, json};
use shared::{JobId, Principal};
use tokio::io::AsyncWriteExt;

use crate::command_line::{bare, ops, refusal, stdout};
use crate::support::{end_to_end, ended, new_id, probe, report, run};

/// Snapshots in which ids and times are the same each time.
pub(crate) fn normalised(snapshot: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        "00000000-0000-0000-0000-000000000000",
    );
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-11-30T00:00:00.000Z");
    settings.bind(snapshot);
}

/// A file that holds this.
fn file(local: &Local, text: &str) -> String {
    let path: PathBuf = local.emulator.state().join(new_id());
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What is written to stdout for each line, in their order.
pub(crate) fn documents(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn submit(local: &Local, arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<_> = std::iter::once("submit").chain(arguments.iter().copied()).collect();
    ended_as(ops(local, &local.stack, &arguments).output().await.unwrap())
}

pub(crate) fn ended_as(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_job_is_submitted_and_waited_for() {
    end_to_end(async |local| {
        // Over several lines, as people write it.
        let pretty = file(local, &format!("{:#}\n", report("Sales")));
        let (code, table, errors) = submit(local, &["--wait", &pretty]).await;
        assert_eq!(code, 0, "{errors}");
        normalised(|| insta::assert_snapshot!("submitted", table));
        let (code, lines, errors) = submit(local, &["--wait", "--json", &pretty]).await;
        assert_eq!(code, 0, "{errors}");
        normalised(|| insta::assert_snapshot!("submitted_json", lines));
    });
}

#[test]
fn a_bad_line_costs_the_others_nothing() {
    end_to_end(async |local| {
        let good = report("Good");
        let input = format!(
            "{good}\nnot json\n{}\n[{good}]\n\n{}\n{good}\n",
            json!({ "kind": "report", "payload": { "title": "", "rows": [{}] } }),
            json!({ "payload": {} }),
        );
        let input = file(local, &input);
        let (code, table, errors) = submit(local, &[&input]).await;
        assert_eq!(code, 1);
        assert!(errors.contains(": 2 accepted, 4 refused"), "{errors}");
        assert!(!errors.contains('✓'), "{errors}");
        assert!(errors.ends_with("error: 4 of 6 jobs were refused\n"), "{errors}");
        normalised(|| insta::assert_snapshot!("refused", table));
        let (code, lines, _) = submit(local, &["--json", &input]).await;
        assert_eq!(code, 1);
        normalised(|| insta::assert_snapshot!("refused_json", lines));
        for line in [0, 5] {
            let id = documents(&lines)[line]["id"].as_str().unwrap().to_owned();
            assert_eq!(ended(&local.stack, &id).await["state"], "succeeded");
        }
    });
}

/// The API refuses requests of more than 500 as a whole.
#[test]
fn six_hundred_lines_from_stdin_are_more_than_one_request_and_keep_their_order() {
    end_to_end(async |local| {
        let key = new_id();
        // None of them runs while the tests do.
        let arguments = ["submit", "--json", "--key", &key, "--delay", "900", "-"];
        let mut child = ops(local, &local.stack, &arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Vec<_> = (1..=600).map(|n| report(&format!("Line {n}")).to_string()).collect();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines.join("\n").as_bytes()).await.unwrap();
        drop(stdin);
        let (code, told, errors) = ended_as(child.wait_with_output().await.unwrap());
        assert_eq!(code, 0, "{errors}");
        let told: Vec<_> = documents(&told)
            .iter()
            .map(|told| (told["line"].as_u64().unwrap(), told["id"].as_str().unwrap().to_owned()))
            .collect();
        let id = |n| JobId::of_key(&Principal::anonymous(), &format!("{key}/{n}")).to_string();
        let expected: Vec<_> = (1..=600).map(|n| (n, id(n))).collect();
        assert_eq!(told, expected);
    });
}

#[test]
fn numbers_reach_the_receiver_digit_for_digit() {
    const BODY: &str = r#"{"a":1.0,"b":12345678901234567890.50,"c":1e2,"d":-0}"#;
    end_to_end(async |local| {
        let url = local.receivers.url("/accepts");
        let payload = file(local, &format!("{{\n  \"url\": \"{url}\",\n  \"body\": {BODY}\n}}\n"));
        let arguments = ["--kind", "webhook", "--wait", "--json", &payload];
        let (code, lines, errors) = submit(local, &arguments).await;
        assert_eq!(code, 0, "{errors}");
        let id = documents(&lines)[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(local.receivers.webhooks(&id)[0]["body"], BODY);
    });
}

#[test]
fn a_job_that_fails_or_does_not_end_in_time_is_exit_code_3() {
    end_to_end(async |local| {
        let jobs = [probe(&["fail_permanently"]), report("Well")].map(|job| job.to_string());
        let failing = file(local, &jobs.join("\n"));
        let (code, table, errors) = submit(local, &["--wait", &failing]).await;
        assert_eq!(code, 3, "{errors}");
        assert!(errors.contains("  ✗  Waiting for them: 1 succeeded, 1 did not"), "{errors}");
        let (_, results) = table.split_once("Attempt").unwrap();
        assert!(results.contains("permanent: failed for good as asked"), "{table}");

        let mut late = report("Late");
        late["delay_seconds"] = json!(5);
        let late = file(local, &late.to_string());
        let (code, lines, errors) =
            submit(local, &["--wait", "--timeout", "1", "--json", &late]).await;
        assert_eq!(code, 3, "{errors}");
        let told = "  ✗  Waiting for them: 0 succeeded, 0 did not, 1 had no end in time";
        assert!(errors.contains(told), "{errors}");
        assert_eq!(documents(&lines).len(), 1, "{lines}");
    });
}

#[test]
fn the_same_key_is_the_same_job_alone_or_by_line() {
    end_to_end(async |local| {
        let ids = async |arguments: &[&str]| -> Vec<Value> {
            let (code, lines, errors) = submit(local, arguments).await;
            assert_eq!(code, 0, "{errors}");
            documents(&lines).iter().map(|told| told["id"].clone()).collect()
        };
        let key = new_id();
        let one = file(local, &report("Once").to_string());
        let first = ids(&["--json", "--key", &key, &one]).await;
        assert_eq!(ids(&["--json", "--key", &key, &one]).await, first);
        assert_ne!(ids(&["--json", &one]).await, first);

        let many = file(local, &format!("{}\n{}\n", report("A"), report("B")));
        let both = ids(&["--json", "--key", &key, &many]).await;
        assert_eq!(ids(&["--json", "--key", &key, &many]).await, both);
        assert!(both[0] != both[1] && !both.contains(&first[0]), "{both:?} {first:?}");

        let other = file(local, &report("Other").to_string());
        let (code, table, _) = submit(local, &["--key", &key, &other]).await;
        assert_eq!(code, 1);
        assert!(table.contains("Idempotency-Key names another job"), "{table}");
    });
}

#[test]
fn an_input_that_is_no_job_is_said_to_be_so_before_anybody_is_asked() {
    run(async {
        let scratch = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = scratch.path().join(new_id());
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let check = async |arguments: &[&str], code: i32, words: &str| {
            let arguments: Vec<_> =
                std::iter::once("submit").chain(arguments.iter().copied()).collect();
            let (ended, errors) = refusal(bare(&arguments)).await;
            assert_eq!(ended, code, "{errors}");
            assert!(errors.contains(words), "{errors}");
        };
        check(&["/no/such/file"], 1, "error: could not read /no/such/file: No such file").await;
        check(&["/"], 1, "error: could not read the input: Is a directory").await;
        check(&["-"], 1, "error: - has no job").await;
        check(&[&file(" \n")], 1, " has no job").await;
        let broken = file("{\n  \"kind\": \"report\"\n  \"payload\": {}\n}\n");
        let at = "error: the input is no JSON: expected `,` or `}` at line 3, column 3";
        check(&[&broken], 1, at).await;
        let whole = file("{}");
        check(&["--delay", "901", &whole], 2, "901 is not in 0..=900").await;
        check(&["--key", "\u{e9}", &whole], 2, "printable ASCII").await;
        check(&["--timeout", "1", &whole], 2, "--wait").await;
    });
}

#[test]
fn who_has_no_token_is_told_to_give_one() {
    end_to_end(async |local| {
        let (stack, token) = crate::callers::stack_and_token(local).await;
        let one = file(local, &report("With a token").to_string());
        let (code, errors) = refusal(ops(local, stack, &["submit", &one])).await;
        assert_eq!(code, 1);
        let words = "error: the API takes tokens, and has got none that it accepts (401): \
                     give a valid one with --token, or in RELEVO_TOKEN\n";
        assert!(errors.ends_with(words), "{errors}");
        let mut command = ops(local, stack, &["submit", "--wait", "--json", &one]);
        command.env("RELEVO_TOKEN", token);
        let lines = documents(&stdout(command).await);
        assert_eq!(lines[1]["state"], "succeeded", "{lines:?}");
    });
}
