//! `cargo ops down`, where something else is up in its place.

use std::fs;
use std::process::Command;
use std::time::Duration;

use ops::down;
use ops::ending::Ending;
use ops::progress::Progress;
use ops::running::Running;
use ops::stack::eventually;
use ops::workspace::Workspace;
use serde_json::json;

use crate::support::run;

#[test]
fn down_ends_what_is_up_and_waits_until_it_is_gone() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path());
        // Nothing is up, and that is fine.
        let ending = down::run(&workspace, Progress::Lines).await.unwrap();
        assert_eq!(ending, Ending::Done);

        // It holds the lock that the running command would hold.
        fs::create_dir_all(workspace.scratch()).unwrap();
        let file = workspace.scratch().join("up.json");
        let mut up = Command::new("flock")
            .args(["--no-fork".as_ref(), file.as_os_str()])
            .args(["sleep", "60"])
            .spawn()
            .unwrap();
        let outputs = json!({
            "api_id": "", "api_url": "", "queue_url": "", "dead_letter_queue_url": "",
            "table_name": "", "alarm_topic": "", "producer": "", "consumer": "",
        });
        let told = json!({
            "process": up.id(), "endpoint": "http://127.0.0.1:1", "api": "", "stack": "relevo",
            "outputs": outputs,
        });
        eventually(Duration::from_secs(20), "it is up", async || {
            fs::write(&file, told.to_string()).unwrap();
            Ok(Running::find(&workspace).unwrap())
        })
        .await
        .unwrap();
        down::run(&workspace, Progress::Lines).await.unwrap();
        assert!(Running::find(&workspace).unwrap().is_none());
        assert!(!up.wait().unwrap().success());
    });
}
