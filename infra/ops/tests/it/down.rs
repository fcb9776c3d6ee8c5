//! `cargo ops down` and `up --detach`, where something else is up in their place.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

use ops::detach::until_ready;
use ops::down;
use ops::ending::Ending;
use ops::progress::Progress;
use ops::running::{Announcement, Running};
use ops::stack::eventually;
use ops::workspace::Workspace;
use serde_json::json;

use crate::support::run;

/// A workspace in which nothing is up.
fn workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::at(folder.path());
    fs::create_dir_all(workspace.scratch()).unwrap();
    (folder, workspace)
}

/// Holds the lock that `cargo ops up` would hold, and does what `script` says; it
/// finds what it has to tell in `$1`, and where in `$2`.
fn up(workspace: &Workspace, script: &str) -> Command {
    let outputs = json!({
        "api_id": "", "api_url": "", "queue_url": "", "dead_letter_queue_url": "",
        "table_name": "", "alarm_topic": "", "producer": "", "consumer": "",
    });
    let ready = json!({
        "endpoint": "http://127.0.0.1:1", "api": "", "receiver": "", "stack": "relevo",
        "outputs": outputs,
    });
    let file = workspace.scratch().join("up.json");
    let mut up = Command::new("flock");
    up.args(["--no-fork".as_ref(), file.as_os_str()])
        .args(["sh", "-c", script, "up"])
        .arg(ready.to_string())
        .arg(file);
    up
}

const BEGINS: &str = r#"echo "{\"process\":$$}" >"$2"; "#;

const IS_READY: &str = r#"echo "{\"process\":$$,\"ready\":$1}" >"$2"; "#;

const GOES_ON: &str = "exec sleep 60";

/// As what it announced is taken back shortly before it is gone.
const TAKES_IT_BACK: &str = r#"trap ': >"$2"; sleep 0.5; exit 1' TERM; "#;

#[test]
fn down_ends_what_is_up_and_waits_until_it_is_gone() {
    run(async {
        let (_folder, workspace) = workspace();
        // Nothing is up, and that is fine.
        let ending = down::run(&workspace, Progress::Lines).await.unwrap();
        assert_eq!(ending, Ending::Done);

        // Also what is not ready yet, and what was stopped by Ctrl-Z.
        for script in [
            format!("{BEGINS} {GOES_ON}"),
            format!("{IS_READY} {GOES_ON}"),
            format!("{IS_READY} kill -STOP $$; {GOES_ON}"),
            format!("{TAKES_IT_BACK} {IS_READY} while sleep 0.1; do :; done"),
        ] {
            let mut up = up(&workspace, &script).spawn().unwrap();
            let process: i32 = up.id().try_into().unwrap();
            eventually(Duration::from_secs(20), "it is up", async || {
                // What the one before has left tells of another process.
                let there = Running::find(&workspace).ok().flatten();
                Ok(there.filter(|there| there.process == process))
            })
            .await
            .unwrap();
            down::run(&workspace, Progress::Lines).await.unwrap();
            assert!(Running::find(&workspace).unwrap().is_none());
            assert!(!up.wait().unwrap().success());
        }
    });
}

#[test]
fn what_is_detached_goes_on_when_it_is_ready() {
    run(async {
        let (_folder, workspace) = workspace();
        let script = format!("{BEGINS} sleep 0.5; {IS_READY} {GOES_ON}");
        let ready = until_ready(&workspace, up(&workspace, &script), Progress::Lines).await;
        assert_eq!(ready.unwrap().stack, "relevo");
        let again = until_ready(&workspace, up(&workspace, &script), Progress::Lines).await;
        let said = again.unwrap_err().to_string();
        assert_eq!(said, "a stack is up already on this machine: `cargo ops down` ends it");
        down::run(&workspace, Progress::Lines).await.unwrap();
        assert!(Running::find(&workspace).unwrap().is_none());
    });
}

#[test]
fn what_is_detached_and_fails_says_why() {
    run(async {
        let (_folder, workspace) = workspace();
        let script = format!("{BEGINS} echo building; echo error: no space left >&2; exit 1");
        let ready = until_ready(&workspace, up(&workspace, &script), Progress::Lines).await;
        let log = workspace.scratch().join("up.log");
        let words = format!("no space left; all that it said is in {}", log.display());
        assert_eq!(ready.unwrap_err().to_string(), words);
        assert_eq!(fs::read_to_string(log).unwrap(), "building\nerror: no space left\n");
    });
}

#[test]
fn whoever_only_looks_is_not_taken_for_another_stack() {
    run(async {
        let (_folder, workspace) = workspace();
        let look = File::create(workspace.scratch().join("up.json")).unwrap();
        look.lock_shared().unwrap();
        let (up, ()) = tokio::join!(Announcement::reserve(&workspace), async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(look);
        });
        let _up = up.unwrap();
        let again = Announcement::reserve(&workspace).await.unwrap_err().to_string();
        assert!(again.starts_with("a stack is up already"), "{again}");
    });
}

#[test]
fn whoever_stops_waiting_for_what_is_detached_ends_it() {
    run(async {
        let (_folder, workspace) = workspace();
        let script = format!("{BEGINS} {GOES_ON}");
        let waiting = until_ready(&workspace, up(&workspace, &script), Progress::Lines);
        assert!(tokio::time::timeout(Duration::from_secs(1), waiting).await.is_err());
        assert!(Running::find(&workspace).unwrap().is_none());
    });
}
