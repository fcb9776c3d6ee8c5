//! `cargo ops logs`, of jobs in the emulator.

use ops::connection::Connection;
use ops::logs::Logs;
use ops::stack::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::command_line::{ops, refusal, stdout};
use crate::support::{PATIENCE, accepted, end_to_end, ended, report, run};

/// What both functions said of a job, once the consumer is done with it.
async fn logged(local: &ops::local::Local, id: &str, more: &[&str]) -> String {
    let arguments = [&["logs", "--job", id][..], more].concat();
    eventually(PATIENCE, "it is logged", async || {
        let said = stdout(ops(local, &local.stack, &arguments)).await;
        Ok(said.contains("record settled").then_some(said))
    })
    .await
    .unwrap()
}

#[test]
fn a_job_is_followed_from_the_door_to_its_end() {
    end_to_end(async |local| {
        let id = accepted(&local.stack, &report("Followed"), None).await;
        ended(&local.stack, &id).await;
        let said = logged(local, &id, &["--json"]).await;
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let messages: Vec<_> = lines
            .inspect(|line| assert_eq!(line["job.id"], *id, "{line}"))
            .map(|line| line["message"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(messages, ["job accepted", "job started", "record settled"]);
        let said = logged(local, &id, &[]).await;
        let lines: Vec<_> = said.lines().collect();
        let [accepted, started, settled, now] = lines[..] else { panic!("{said}") };
        for (line, expected) in [
            (accepted, " producer INFO  job accepted "),
            (started, " consumer INFO  job started "),
            (settled, " consumer INFO  record settled "),
        ] {
            // After the time of day.
            assert!(line["00:00:00.000".len()..].starts_with(expected), "{line}");
        }
        assert_eq!(now, "now      entry    state=succeeded attempt=1");
    });
}

#[test]
fn a_job_of_a_batch_is_found_at_the_door_as_well() {
    end_to_end(async |local| {
        let body = json!({ "jobs": [report("One"), report("Other")] });
        let answer = local.stack.api.post_batch(body.to_string()).await.unwrap();
        let id = answer.text("/jobs/1/job/id").to_owned();
        ended(&local.stack, &id).await;
        let said = logged(local, &id, &[]).await;
        assert!(said.contains("batch answered"), "{said}");
        assert!(said.trim_end().ends_with("state=succeeded attempt=1"), "{said}");
    });
}

#[test]
fn what_is_no_job_id_or_no_time_is_refused() {
    end_to_end(async |local| {
        for wrong in [["--job", "week-48"], ["--since", "yesterday"]] {
            let arguments = [&["logs"][..], &wrong].concat();
            let (code, said) = refusal(ops(local, &local.stack, &arguments)).await;
            assert_eq!(code, 2, "{said}");
            assert!(said.starts_with("error: invalid value"), "{said}");
        }
    });
}

/// The emulator gives everything in one page; AWS also gives pages without lines.
#[test]
fn logs_are_read_to_the_last_page() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let line = |id: &str| json!({ "logStreamName": "s", "eventId": id, "timestamp": 1, "message": id });
        let pages = [
            (None, json!({ "events": [line("a")], "nextToken": "one" })),
            (Some("one"), json!({ "events": [], "nextToken": "two" })),
            (Some("two"), json!({ "events": [line("b")] })),
        ];
        let serving = tokio::spawn(async move {
            for (token, page) in pages {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    connection.read_buf(&mut request).await.unwrap();
                }
                let request = String::from_utf8(request).unwrap();
                let body = request.split("\r\n\r\n").nth(1).unwrap();
                let question: Value = serde_json::from_str(body).unwrap();
                assert_eq!(question["nextToken"].as_str(), token);
                assert_eq!(question["filterPattern"], "\"word\"");
                let page = page.to_string();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
                    page.len()
                );
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let logs = Logs::new(Connection::emulator(&endpoint));
        let lines = logs.search("a-function", 0, Some("word")).await.unwrap();
        let messages: Vec<_> = lines.iter().map(|line| line.message.as_str()).collect();
        assert_eq!(messages, ["a", "b"]);
        serving.await.unwrap();
    });
}
