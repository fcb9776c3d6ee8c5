//! `cargo ops status`, `watch` and `cancel`.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{JobEntry, State};

use crate::command_line::{bare, ops, refusal};
use crate::dead_letters::{entry, now, put_entry};
use crate::submitting::{documents, ended_as, normalised};
use crate::support::{accepted, end_to_end, ended, new_id, probe, report, run};

const NOT_FOUND: &str = "There is no job of yours with this id.";

#[test]
fn status_shows_each_job_and_names_what_is_none() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let done = accepted(stack, &report("Done"), None).await;
        let failed = accepted(stack, &probe(&["fail_permanently"]), None).await;
        let mut waiting = report("Later");
        waiting["delay_seconds"] = json!(60);
        let waiting = accepted(stack, &waiting, Some(&new_id())).await;
        for id in [&done, &failed] {
            ended(stack, id).await;
        }
        let unknown = new_id();
        let ids = [&done, &unknown, &failed, &waiting, &done].map(String::as_str);
        let arguments = [&["status"][..], &ids].concat();
        let (code, table, errors) = ended_as(ops(local, stack, &arguments).output().await.unwrap());
        assert_eq!(code, 1);
        normalised(|| insta::assert_snapshot!("status", table));
        assert!(
            errors.ends_with(&format!("error: {unknown}: 404 Job not found: {NOT_FOUND}\n")),
            "{errors}"
        );
        let arguments = [&["status", "--json"][..], &ids].concat();
        let (code, lines, _) = ended_as(ops(local, stack, &arguments).output().await.unwrap());
        assert_eq!(code, 1);
        normalised(|| insta::assert_snapshot!("status_json", lines));
    });
}

#[test]
fn watch_shows_each_change_until_all_have_ended() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let watch = async |arguments: &[&str]| {
            let arguments = [&["watch"], arguments].concat();
            ended_as(ops(local, stack, &arguments).output().await.unwrap())
        };
        let mut slow = probe(&["fail", "succeed"]);
        slow["delay_seconds"] = json!(30);
        let slow = accepted(stack, &slow, Some(&new_id())).await;
        let (code, lines, errors) = watch(&["--json", &slow]).await;
        assert_eq!(code, 0, "{errors}");
        let changes = documents(&lines);
        let (first, last) = (&changes[0], changes.last().unwrap());
        assert_eq!((&first["state"], &first["attempt"]), (&json!("queued"), &json!(0)));
        assert_eq!((&last["state"], &last["attempt"]), (&json!("succeeded"), &json!(2)));
        let what = |change: &Value| (change["state"].clone(), change["attempt"].clone());
        assert!(changes.windows(2).all(|two| what(&two[0]) != what(&two[1])), "{lines}");

        let failed = accepted(stack, &probe(&["fail_permanently"]), None).await;
        ended(stack, &failed).await;
        let (code, lines, errors) = watch(&[&failed]).await;
        assert_eq!(code, 3, "{errors}");
        normalised(
            || insta::assert_snapshot!(lines.trim_end(), @"2026-11-30T00:00:00.000Z 00000000-0000-0000-0000-000000000000 probe failed, attempt 1: permanent: failed for good as asked"),
        );

        let unknown = new_id();
        let (code, lines, errors) = watch(&[&slow, &unknown]).await;
        assert_eq!(code, 1, "{errors}");
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(errors.contains(&format!("error: {unknown}: 404 Job not found")), "{errors}");
    });
}

#[test]
fn a_job_that_waits_for_another_attempt_says_until_when_and_why() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = new_id();
        let waiting = JobEntry {
            attempt: 1,
            not_before: Some(now() + Duration::from_mins(5)),
            error: Some("the receiver answered 503".to_owned()),
            ..entry(&id, "report", State::Queued)
        };
        put_entry(stack, &waiting).await;
        for arguments in [&["status", &*id][..], &["watch", "--timeout", "2", &id]] {
            let (_, shown, errors) = ended_as(ops(local, stack, arguments).output().await.unwrap());
            // A table breaks it.
            assert!(shown.contains("next try at "), "{arguments:?}: {shown} {errors}");
        }
        let json = ["status", "--json", &*id];
        let (_, shown, _) = ended_as(ops(local, stack, &json).output().await.unwrap());
        assert!(!shown.contains("next try"), "{shown}");
    });
}

#[test]
fn watch_gives_up_when_the_time_is_over() {
    end_to_end(async |local| {
        let mut late = report("Late");
        late["delay_seconds"] = json!(60);
        let id = accepted(&local.stack, &late, Some(&new_id())).await;
        let arguments = ["watch", "--timeout", "5", &id];
        let (code, lines, _) =
            ended_as(ops(local, &local.stack, &arguments).output().await.unwrap());
        assert_eq!(code, 3);
        assert!(lines.ends_with(&format!("{id} report queued\n")), "{lines}");
    });
}

#[test]
fn cancel_says_of_each_job_what_came_of_it() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let done = accepted(stack, &report("Done"), None).await;
        ended(stack, &done).await;
        let mut waiting = report("Never");
        waiting["delay_seconds"] = json!(60);
        let waiting = accepted(stack, &waiting, Some(&new_id())).await;
        let unknown = new_id();
        let ids = [&waiting, &done, &unknown].map(String::as_str);
        let cancel = async |arguments: &[&str]| {
            let arguments = [&["cancel"], arguments].concat();
            ended_as(ops(local, stack, &arguments).output().await.unwrap())
        };
        let (code, table, errors) = cancel(&ids).await;
        assert_eq!(code, 1);
        assert!(errors.ends_with("error: 2 of 3 jobs could not be cancelled\n"), "{errors}");
        normalised(|| insta::assert_snapshot!("cancel", table));
        // The first is cancelled already, which is no error.
        let (code, lines, _) = cancel(&[&["--json"], &ids[..]].concat()).await;
        assert_eq!(code, 1);
        normalised(|| insta::assert_snapshot!("cancel_json", lines));
        assert_eq!(cancel(&[&waiting]).await.0, 0);
        assert_eq!(stack.api.job(&waiting).await.unwrap().text("/state"), "cancelled");
    });
}

#[test]
fn what_is_no_id_is_called_wrongly() {
    run(async {
        for command in ["status", "watch", "cancel"] {
            let (code, errors) = refusal(bare(&[command, "42"])).await;
            assert_eq!(code, 2);
            let words = "invalid value '42' for '<ID>...': ids of jobs are UUIDs, such as ";
            assert!(errors.contains(words), "{errors}");
            assert_eq!(refusal(bare(&[command])).await.0, 2);
        }
    });
}

#[test]
fn a_stack_that_cannot_be_asked_is_said_to_be_so_with_what_to_do() {
    end_to_end(async |local| {
        let id = new_id();
        let status = ["status", &*id];
        let (code, errors) = refusal(bare(&status)).await;
        assert_eq!(code, 1);
        assert!(errors.contains("start one with `cargo ops up`, or name one on AWS"), "{errors}");

        let mut stack = local.stack.clone();
        stack.name = "no-such-stack".to_owned();
        let (code, errors) = refusal(ops(local, &stack, &status)).await;
        assert_eq!(code, 1);
        assert!(
            errors.contains("error: there is no stack no-such-stack in us-east-1 in this account"),
            "{errors}"
        );

        let mut command = ops(local, &local.stack, &status);
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        let (code, errors) = refusal(command).await;
        assert_eq!(code, 1);
        assert!(errors.contains("error: there are no usable AWS credentials: log in"), "{errors}");
    });
}
