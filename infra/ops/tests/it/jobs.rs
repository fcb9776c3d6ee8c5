//! From a request to what becomes of its job.

use std::time::SystemTime;

use ops::stack::Entry;
use serde_json::{Value, json};

use crate::support::{PATIENCE, end_to_end, ended, new_id, probe, report};

#[test]
fn a_report_goes_from_the_request_to_its_stored_result() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let answer = stack.api.post_job(report("Sales").to_string(), None).await.unwrap();
        assert_eq!(answer.status, 202, "{}", answer.body);
        let id = answer.id().unwrap();
        assert_eq!(answer.text("/kind"), "report");
        assert!(answer.text("/links/self").ends_with(&format!("/jobs/{id}")), "{}", answer.body);

        let job = ended(stack, id).await;
        assert_eq!(job["state"], "succeeded", "{job}");
        assert_eq!(job["attempt"], 1);
        let figures = |group: &Value| {
            ["sum", "min", "max", "mean", "median"].map(|figure| group[figure].clone())
        };
        let groups = job["result"]["groups"].as_array().unwrap();
        let names: Vec<_> = groups.iter().map(|group| &group["group"]).collect();
        assert_eq!(names, ["north", "south"]);
        assert_eq!(figures(&groups[0]), ["19.75", "7.25", "12.50", "9.875", "9.875"]);
        assert_eq!(figures(&groups[1]), ["0.30", "0.10", "0.20", "0.15", "0.15"]);
        assert_eq!(job["result"]["total"]["count"], 4);

        let entry = stack.entry(id).await.unwrap().unwrap();
        assert_eq!(text(&entry, "state"), "succeeded");
        let days = (number(&entry, "expires_at") - now_seconds()) / 86_400;
        assert!((29..=30).contains(&days), "the entry expires in {days} days");
    });
}

#[test]
fn an_invalid_row_is_refused_with_a_pointer_to_it() {
    end_to_end(async |local| {
        let mut request = report("Wrong");
        request["payload"]["rows"][1]["amount"] = json!("0.1.0");
        request["payload"]["rows"][3]["extra"] = json!(true);
        let answer = local.stack.api.post_job(request.to_string(), None).await.unwrap();
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (422, "application/problem+json")
        );
        let errors = answer.body["errors"].as_array().unwrap();
        let pointers: Vec<_> = errors.iter().map(|error| &error["pointer"]).collect();
        assert_eq!(pointers, ["/payload/rows/1/amount", "/payload/rows/3/extra"]);
    });
}

#[test]
fn what_is_no_json_is_malformed() {
    end_to_end(async |local| {
        for body in ["{\"kind\":", "report", "[]", "\u{1}"] {
            let answer = local.stack.api.post_job(body, None).await.unwrap();
            assert_eq!(answer.status, 400, "{body}: {}", answer.body);
            assert_eq!(answer.content_type, "application/problem+json", "{body}");
        }
    });
}

#[test]
fn a_kind_that_nobody_runs_is_refused() {
    end_to_end(async |local| {
        let request = include_str!("../../../../events/requests/unknown-kind.json");
        let answer = local.stack.api.post_job(request, None).await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert_eq!(answer.text("/errors/0/pointer"), "/kind");
    });
}

#[test]
fn a_job_that_nobody_sent_and_a_path_that_is_none_are_not_found() {
    end_to_end(async |local| {
        for path in [format!("/jobs/{}", new_id()), "/jobs/nonsense".to_owned(), "/job".to_owned()]
        {
            let answer = local.stack.api.get(&path).await.unwrap();
            assert_eq!(answer.status, 404, "{path}: {}", answer.body);
            assert_eq!(answer.content_type, "application/problem+json", "{path}");
        }
        assert_eq!(local.stack.api.get("/health").await.unwrap().status, 200);
    });
}

#[test]
fn a_job_that_can_never_succeed_fails_and_lies_in_the_dead_letter_queue_unchanged() {
    end_to_end(async |local| {
        let stack = &local.stack;
        let id = new_id();
        let body = ops::messages::message(&id, &probe(&["fail_permanently"]).to_string());
        let body = body.unwrap();
        ops::messages::send_all(stack, std::slice::from_ref(&body)).await.unwrap();
        let letter = stack.wait_for_dead_letter(&body, PATIENCE).await.unwrap();
        let attribute = |name: &str| {
            letter.message_attributes().unwrap()[name].string_value().unwrap().to_owned()
        };
        assert_eq!(attribute("reason"), "permanent");
        assert_eq!(attribute("job_id"), id);
        let job = ended(stack, &id).await;
        assert_eq!((&job["state"], &job["reason"]), (&json!("failed"), &json!("permanent")));
    });
}

fn text<'a>(entry: &'a Entry, name: &str) -> &'a str {
    entry[name].as_s().unwrap()
}

fn number(entry: &Entry, name: &str) -> i64 {
    entry[name].as_n().unwrap().parse().unwrap()
}

fn now_seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}
