//! Clients of the HTTP API, which ask, ask again, and cancel.

use std::sync::Arc;

use producer::{CALL_LIMITS, DEAD_LETTER_RESERVE, Producer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shared::JobId;
use shared::config::EntryTtl;
use shared::jobs::Rules;
use shared::metrics::Metrics;
use shared::table::GroupedJobTable;
use tokio::time::sleep;

use super::fate::drive;
use super::faults::{Fault, Weather};
use super::jobs::Spec;
use super::queue::SimulatedQueue;
use super::table::SimulatedTable;
use super::world::{Busy, World};

/// When the last client asks, in milliseconds.
pub(crate) const LATEST_START: u64 = 120_000;

/// How often a client asks for a job that has a name until it gives up.
const MOST_REQUESTS: u32 = 50;

/// An HTTP answer.
struct Answer {
    status: u64,
    body: Value,
}

/// A client that wants some jobs, and may change its mind.
pub(crate) struct Client {
    world: Arc<World>,
    producer: Producer<GroupedJobTable<SimulatedTable>, SimulatedQueue>,
    who: Arc<str>,
    /// The world goes on until it has what it wants.
    _busy: Busy,
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, number: usize) -> Self {
        let who: Arc<str> = format!("client {number}").into();
        let (world, patience) = (Arc::clone(world), CALL_LIMITS.operation);
        let table = SimulatedTable { world: Arc::clone(&world), patience, who: Arc::clone(&who) };
        // Also side by side: as when a deployment switches groups on or off.
        let is_grouping = world.random().bool();
        let producer = Producer {
            table: GroupedJobTable::new(Arc::new(table), is_grouping),
            queue: SimulatedQueue { world: Arc::clone(&world), patience, who: Arc::clone(&who) },
            clock: world.clock(),
            ids: world.ids(),
            message_limit: 1024 * 1024 - DEAD_LETTER_RESERVE,
            rules: Rules::default(),
            entry_ttl: EntryTtl::DEFAULT.as_duration(),
            metrics: Metrics::none(),
        };
        let busy = world.client();
        Self { world, producer, who, _busy: busy }
    }

    /// Asks for jobs, together where there are several.
    pub(crate) async fn ask(self, specs: Vec<Spec>) {
        let world = Arc::clone(&self.world);
        sleep(world.millis(0..LATEST_START)).await;
        let ids = match specs.as_slice() {
            [spec] => self.ask_for(spec).await.into_iter().collect(),
            specs => self.ask_for_all(specs).await,
        };
        for id in ids {
            if world.strikes(Fault::Cancelled, world.climate.cancel) {
                sleep(world.millis(0..60_000)).await;
                self.cancel(id).await;
            }
        }
    }

    /// Asks until the job is accepted. Without a name, to ask again would be
    /// to ask for another job.
    pub(crate) async fn ask_for(&self, spec: &Spec) -> Option<JobId> {
        let headers = match &spec.key {
            Some(key) => json!({"content-type": "application/json", "idempotency-key": key}),
            None => json!({"content-type": "application/json"}),
        };
        let body = json!({"kind": "probe", "payload": spec.payload()});
        let mut accepted = None;
        for _ in 0..MOST_REQUESTS {
            let answer = self.request("POST", "/jobs", &headers, Some(&body)).await;
            if let Some(Answer { status: 202, body }) = answer {
                let id = self.accepted(&body, spec);
                accepted = accepted.or(id);
                // Some ask once more, as after an answer that got lost.
                if self.world.climate.weather != Weather::Storm || self.world.random().bool() {
                    break;
                }
            } else if !spec.is_named() {
                break;
            }
            if !spec.is_named() {
                break;
            }
            sleep(self.world.millis(1_000..180_000)).await;
        }
        accepted
    }

    async fn ask_for_all(&self, specs: &[Spec]) -> Vec<JobId> {
        let headers = json!({"content-type": "application/json"});
        let (mut wanted, mut accepted) = (specs.to_vec(), Vec::new());
        for _ in 0..MOST_REQUESTS {
            let jobs: Vec<_> = wanted
                .iter()
                .map(|spec| {
                    let payload = spec.payload();
                    match &spec.key {
                        Some(key) => {
                            json!({"kind": "probe", "payload": payload, "idempotency_key": key})
                        }
                        None => json!({"kind": "probe", "payload": payload}),
                    }
                })
                .collect();
            let body = json!({"jobs": jobs});
            let answer = self.request("POST", "/jobs/batch", &headers, Some(&body)).await;
            let body = answer.map_or(Value::Null, |answer| answer.body);
            let mut jobs = body.pointer("/jobs").and_then(Value::as_array).into_iter().flatten();
            wanted.retain(|spec| {
                let job = jobs.next().and_then(|job| job.get("job"));
                accepted.extend(job.and_then(|job| self.accepted(job, spec)));
                job.is_none() && spec.is_named()
            });
            if wanted.is_empty() {
                break;
            }
            sleep(self.world.millis(1_000..180_000)).await;
        }
        accepted
    }

    fn accepted(&self, job: &Value, spec: &Spec) -> Option<JobId> {
        let id: JobId = job.get("id")?.as_str()?.parse().ok()?;
        self.world.ledger().accepted(id, spec);
        self.world.log(|| format!("{}: {id} was accepted", self.who));
        Some(id)
    }

    async fn cancel(&self, id: JobId) {
        let path = format!("/jobs/{id}");
        let answer = self.request("DELETE", &path, &json!({}), None).await;
        if answer.is_some_and(|answer| answer.status == 200) {
            self.world.log(|| format!("{}: {id} is cancelled", self.who));
            self.world.ledger().cancelled(id);
        }
    }

    /// `None`: the function was killed before it answered.
    async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &Value,
        body: Option<&Value>,
    ) -> Option<Answer> {
        let event = json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": "",
            "headers": headers,
            "requestContext": {
                "http": {"method": method, "path": path},
                "stage": "$default",
            },
            "body": body.map(Value::to_string),
            "isBase64Encoded": false,
        });
        let event = RawValue::from_string(event.to_string()).ok()?;
        let answer = drive(&self.world, &self.who, self.producer.handle(&event, None)).await?;
        let answer = serde_json::to_value(answer.ok()?).ok()?;
        let status = answer.get("statusCode")?.as_u64()?;
        let body = answer.get("body").and_then(Value::as_str);
        let body = body.and_then(|body| serde_json::from_str(body).ok());
        self.world.log(|| format!("{}: {method} {path} was answered {status}", self.who));
        let body = body.unwrap_or_default();
        self.world.ledger().check(status < 400 || matches!(status, 404 | 409 | 503), || {
            format!("{method} {path} was answered {status}: {body}")
        });
        Some(Answer { status, body })
    }
}
