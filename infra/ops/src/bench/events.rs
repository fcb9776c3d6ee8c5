//! Events as AWS sends them, made of one request and the repository's samples.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::workspace::Workspace;

/// Which of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Producer,
    Consumer,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
        }
    }
}

/// What events are made of.
#[derive(Debug)]
pub(super) struct Events {
    request: String,
    http: Map<String, Value>,
    record: Map<String, Value>,
}

/// A batch, as far as its records count.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch {
    records: Vec<Map<String, Value>>,
}

/// A request, as far as a message holds it.
#[derive(Deserialize)]
struct Asked {
    kind: String,
    payload: Box<RawValue>,
}

impl Events {
    pub(super) fn read(workspace: &Workspace, request: &Path) -> Result<Self> {
        const NO_EVENT: &str = "a sample in events/ is no event";
        let text = |path: &Path| {
            let path = workspace.path(path);
            std::fs::read_to_string(&path)
                .with_context(|| format!("could not read {}", path.display()))
        };
        let sample = |name: &str| text(&Path::new("events").join(name));
        let batch: Batch = serde_json::from_str(&sample("sqs-report.json")?).context(NO_EVENT)?;
        Ok(Self {
            request: text(request)?,
            http: serde_json::from_str(&sample("http-report.json")?).context(NO_EVENT)?,
            record: batch.records.into_iter().next().context(NO_EVENT)?,
        })
    }

    /// The next event, with `records` new jobs.
    pub(super) fn next(&self, role: Role, records: u32) -> Result<String> {
        match role {
            Role::Producer => {
                let mut event = self.http.clone();
                event.insert("body".to_owned(), json!(self.request));
                Ok(Value::Object(event).to_string())
            }
            Role::Consumer => {
                let records: Result<Vec<_>> = (0..records).map(|_| self.record()).collect();
                Ok(json!({ "Records": records? }).to_string())
            }
        }
    }

    fn record(&self) -> Result<Map<String, Value>> {
        let Asked { kind, payload } =
            serde_json::from_str(&self.request).context("the request has no kind and payload")?;
        let id = Uuid::new_v4();
        let mut record = self.record.clone();
        record.insert("messageId".to_owned(), json!(id));
        // The payload's own text, which is what the producer sends on.
        let kind = json!(kind);
        let body = format!(r#"{{"v":1,"id":"{id}","kind":{kind},"payload":{payload}}}"#);
        record.insert("body".to_owned(), json!(body));
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_another_job_like_the_request() {
        let request = Path::new("events/requests/webhook.json");
        let events = Events::read(&Workspace::here(), request).unwrap();
        let event: Value = serde_json::from_str(&events.next(Role::Consumer, 2).unwrap()).unwrap();
        let bodies = [0, 1].map(|place| {
            let body = event["Records"][place]["body"].as_str().unwrap();
            serde_json::from_str::<Value>(body).unwrap()
        });
        assert_eq!(bodies[0]["kind"], "webhook");
        assert_eq!(bodies[0]["payload"], bodies[1]["payload"]);
        assert_ne!(bodies[0]["id"], bodies[1]["id"]);
        let event: Value = serde_json::from_str(&events.next(Role::Producer, 1).unwrap()).unwrap();
        assert_eq!(
            event["body"],
            std::fs::read_to_string(Workspace::here().path(request)).unwrap()
        );
    }
}
