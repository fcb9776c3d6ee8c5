//! The sample events of the repository do what their names say.

use serde_json::Value;
use shared::State;

use crate::rig::Rig;

fn sample(name: &str) -> String {
    let path = format!("{}/../events/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn job_ids(event: &str) -> Vec<shared::JobId> {
    let event: Value = serde_json::from_str(event).unwrap();
    let records = event["Records"].as_array().unwrap();
    records
        .iter()
        .filter_map(|record| serde_json::from_str::<Value>(record["body"].as_str()?).ok())
        .map(|body| body["id"].as_str().unwrap().parse().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn one_record_is_one_report() {
    let (rig, event) = (Rig::new(), sample("sqs-report.json"));
    assert_eq!(rig.answer(&event).await.unwrap(), r#"{"batchItemFailures":[]}"#);
    let entry = rig.table.entries.entry(job_ids(&event)[0]).unwrap();
    assert_eq!(entry.state, State::Succeeded);
    assert!(entry.result.unwrap().contains(r#""group":"north","count":2,"sum":"20.00""#));
}

#[tokio::test(start_paused = true)]
async fn the_poison_record_of_a_batch_is_a_dead_letter() {
    let (rig, event) = (Rig::new(), sample("sqs-batch-with-poison.json"));
    assert_eq!(rig.answer(&event).await.unwrap(), r#"{"batchItemFailures":[]}"#);
    assert_eq!(job_ids(&event).len(), 2);
    for id in job_ids(&event) {
        assert_eq!(rig.table.entries.entry(id).unwrap().state, State::Succeeded);
    }
    assert_eq!(rig.letters().len(), 1);
}

/// Without a mail server, and with a partner that does not exist.
#[tokio::test]
async fn the_kinds_that_reach_out_are_understood() {
    for (name, state) in
        [("sqs-webhook.json", State::Queued), ("sqs-welcome-email.json", State::Failed)]
    {
        let (rig, event) = (Rig::new(), sample(name));
        rig.answer(&event).await.unwrap();
        let entry = rig.table.entries.entry(job_ids(&event)[0]).unwrap();
        assert_eq!(entry.state, state, "{name}: {:?}", entry.error);
    }
}
