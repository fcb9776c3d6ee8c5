//! Logs and metrics tell what became of jobs, and nothing else.

use serde_json::json;
use shared::emf::{Published, published};

use crate::events::{BODY, Event, sample};
use crate::fakes::{Fixture, WriteFault};
use crate::logs;

/// What was published since [`logs::capture`], but for the cold start.
fn jobs() -> Published {
    let mut published = published(&logs::text(), "Relevo").unwrap();
    published.remove("ColdStarts Function=producer");
    published
}

fn count(name: &str, count: f64) -> (String, Vec<f64>) {
    (name.to_owned(), vec![count])
}

#[tokio::test]
async fn each_job_is_counted_once() {
    let fixture = Fixture::new();
    for (event, expected) in [
        (Event::post(BODY), "JobsAccepted"),
        (Event::post(BODY).key("k"), "JobsAccepted"),
        (Event::post(BODY).key("k"), "DuplicatesAtTheDoor"),
        (Event::post("{}"), "JobsRejected"),
        (Event::post("").key("two, keys"), "JobsRejected"),
        (Event::request("POST", "/jobs/batch"), "JobsRejected"),
    ] {
        logs::capture();
        fixture.send(&event).await;
        assert_eq!(jobs(), [count(expected, 1.0)].into(), "{event:?}");
    }
    for event in [Event::request("GET", "/health"), Event::request("PUT", "/jobs")] {
        logs::capture();
        fixture.send(&event).await;
        assert_eq!(jobs(), Published::new(), "{event:?}");
    }
}

#[tokio::test]
async fn the_first_invocation_is_the_cold_start_whatever_it_is() {
    logs::capture();
    let fixture = Fixture::new();
    fixture.try_send(&Event::of(json!({"Records": []}))).await.unwrap_err();
    let published = published(&logs::text(), "Relevo").unwrap();
    assert_eq!(published, [count("ColdStarts Function=producer", 1.0)].into());
}

#[tokio::test]
async fn a_batch_is_one_line_that_names_every_job() {
    logs::capture();
    let fixture = Fixture::new();
    let keyed = json!({"kind": "report", "idempotency_key": "k",
                       "payload": {"title": "t", "rows": [{"group": "a", "amount": "1"}]}});
    let mut unnamed = keyed.clone();
    unnamed.as_object_mut().unwrap().remove("idempotency_key");
    let jobs_in = json!([keyed, keyed, unnamed, {"kind": "report", "payload": {}}]);
    let body = json!({ "jobs": jobs_in }).to_string();
    let answer = fixture.send(&Event::post(&body).at("POST", "/jobs/batch")).await;
    assert_eq!(answer.statuses(), [202, 202, 202, 422]);
    let expected =
        [count("JobsAccepted", 2.0), count("DuplicatesAtTheDoor", 1.0), count("JobsRejected", 1.0)];
    assert_eq!(jobs(), expected.into());

    let events = logs::events("batch answered");
    assert_eq!(events.len(), 1, "{}", logs::text());
    let event = &events[0];
    assert_eq!((&event["accepted"], &event["duplicates"]), (&json!(2), &json!(1)));
    for job in answer.body["jobs"].as_array().unwrap().iter().take(3) {
        let id = job["job"]["id"].as_str().unwrap();
        assert!(event["job.ids"].as_str().unwrap().contains(id), "{event}");
    }
}

#[tokio::test]
async fn an_outage_rejects_every_job_of_a_batch_and_is_told_once() {
    logs::capture();
    let fixture = Fixture::new();
    fixture.producer.queue.replies.lock().unwrap().extend([Err(()), Err(()), Err(())]);
    let job = json!({"kind": "report",
                     "payload": {"title": "t", "rows": [{"group": "a", "amount": "1"}]}});
    let body = json!({ "jobs": [job, job, job] }).to_string();
    let answer = fixture.send(&Event::post(&body).at("POST", "/jobs/batch")).await;
    assert_eq!(answer.status, 503);
    assert_eq!(jobs(), [count("JobsRejected", 3.0)].into());
    let failed = logs::events("messages were not sent by this call");
    assert_eq!(failed.len(), 1, "{}", logs::text());
    assert!(failed[0]["cause"].as_str().unwrap().contains("request id"), "{}", failed[0]);
}

#[tokio::test]
async fn an_accepted_job_is_found_by_its_id_and_its_trace() {
    logs::capture();
    let fixture = Fixture::new();
    let answer = fixture.send(&sample!("http-report-with-key")).await;
    fixture.send(&sample!("http-report-with-key")).await;
    let events = logs::events("job accepted");
    assert_eq!(events.len(), 2);
    for event in &events {
        assert_eq!(event["job.id"], answer.id());
        assert_eq!(event["job.kind"], "report");
        assert_eq!(event["trace.id"], "1-65537c80-0a1b2c3d4e5f60718293a4b5");
    }
    assert_eq!((events[0].get("duplicate"), &events[1]["duplicate"]), (None, &json!(true)));
}

#[tokio::test]
async fn no_payload_and_no_header_reaches_the_log_whatever_happens() {
    logs::capture();
    let fixture = Fixture::new();
    let marker = "marker-that-nobody-may-see";
    let sound = BODY.replace(r#""t""#, &format!("{marker:?}"));
    let bodies = [
        sound.clone(),
        marker.to_owned(),
        format!("{marker:?}"),
        format!(r#"{{"kind":{marker:?},"payload":{{}}}}"#),
        format!(r#"{{"kind":"report","payload":{{{marker:?}:1}}}}"#),
        format!(r#"{{"kind":"report","payload":{{"title":["{marker}"]}}}}"#),
        format!(
            r#"{{"kind":"report","group":"{marker}","payload":{{"title":"{marker}","rows":[{{"group":"{marker}","amount":"{marker}"}}]}}}}"#
        ),
    ];
    for body in &bodies {
        for path in ["/jobs", "/jobs/batch"] {
            let body =
                if path == "/jobs" { body.clone() } else { format!(r#"{{"jobs":[{body}]}}"#) };
            let event = Event::post(&body)
                .at("POST", path)
                .with("/headers/authorization", json!(marker))
                .with("/headers/x-secret", json!(marker));
            fixture.send(&event).await;
            fixture.send(&event.key(marker)).await;
        }
    }
    fixture.producer.table.put_faults.lock().unwrap().push_back(WriteFault::Fails);
    *fixture.producer.queue.failures.lock().unwrap() = 1;
    fixture.send(&Event::post(&sound)).await;
    fixture.send(&Event::request("GET", &format!("/jobs/{marker}"))).await;
    fixture.send(&Event::request("POST", &format!("/{marker}"))).await;
    assert!(logs::text().lines().count() > 10);
    assert!(!logs::text().contains(marker), "{}", logs::text());
}
