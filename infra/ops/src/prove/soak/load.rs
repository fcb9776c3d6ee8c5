//! Asks for the jobs, as clients do: again where there was no answer.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::wanted::Wanted;
use crate::api::{Answer, Api};

/// Clients that ask at the same time.
const CLIENTS: usize = 6;

/// A client's attempts for one job, and the time between them.
const ATTEMPTS: usize = 60;
const PAUSE: Duration = Duration::from_millis(300);

/// A job that was asked for, and what was answered.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) wanted: Wanted,
    /// The ids that 202 was given to.
    pub(super) ids: BTreeSet<String>,
    /// When it was cancelled, if that was answered: RFC 3339.
    pub(super) cancelled_at: Option<String>,
    /// Everything that was answered.
    pub(super) answers: Vec<String>,
}

/// Asks for all jobs until each of them was accepted.
pub(super) async fn ask_for_all(
    api: &Api,
    groups: Vec<Vec<Wanted>>,
    accepted: &AtomicUsize,
) -> Result<Vec<Asked>> {
    let all = Mutex::new(Vec::new());
    stream::iter(groups.into_iter().map(anyhow::Ok))
        .try_for_each_concurrent(CLIENTS, async |group| {
            let asked = ask_for(api, group).await?;
            accepted.fetch_add(asked.len(), Ordering::Relaxed);
            all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(asked);
            Ok(())
        })
        .await?;
    Ok(all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

async fn ask_for(api: &Api, group: Vec<Wanted>) -> Result<Vec<Asked>> {
    let together = group.len() > 1;
    let mut asked: Vec<_> = group.into_iter().map(Asked::new).collect();
    if together {
        ask_together(api, &mut asked).await?;
    }
    let asked = stream::iter(asked).map(|job| finish(api, job)).buffered(2);
    asked.try_collect().await
}

/// One call for all. What it does not accept is asked for alone.
async fn ask_together(api: &Api, asked: &mut [Asked]) -> Result<()> {
    let jobs: Vec<_> = asked.iter().map(|job| job.wanted.in_a_batch()).collect();
    let Ok(answer) = api.post_batch(json!({ "jobs": jobs }).to_string()).await else {
        return Ok(());
    };
    let answers = answer.body.get("jobs").and_then(Value::as_array);
    for (job, answer) in asked.iter_mut().zip(answers.into_iter().flatten()) {
        job.answers.push(format!("POST /jobs/batch: {answer}"));
        let id = answer.pointer("/job/id").and_then(Value::as_str);
        match (answer.get("status").and_then(Value::as_u64), id) {
            (Some(202), Some(id)) => drop(job.ids.insert(id.to_owned())),
            (Some(500..), _) => {}
            _ => bail!("a job of a batch was refused: {answer}"),
        }
    }
    Ok(())
}

/// Asks for a job that was not accepted yet, or once more; then cancels it.
async fn finish(api: &Api, mut job: Asked) -> Result<Asked> {
    if job.ids.is_empty() {
        ask_alone(api, &mut job).await?;
    }
    if job.wanted.twice {
        ask_alone(api, &mut job).await?;
    }
    if job.wanted.cancel {
        let id = job.ids.first().context("accepted without an id")?.clone();
        let answer = api.cancel(&id).await;
        job.answers.push(format!("DELETE /jobs/{id}: {}", told(&answer)));
        job.cancelled_at = answer
            .ok()
            .filter(|answer| answer.status == 200)
            .map(|answer| answer.text("/updated_at").to_owned());
    }
    Ok(job)
}

async fn ask_alone(api: &Api, job: &mut Asked) -> Result<()> {
    let (request, key) = (job.wanted.request.to_string(), job.wanted.key.clone());
    for _ in 0..ATTEMPTS {
        let answer = api.post_job(request.as_str(), key.as_deref()).await;
        job.answers.push(format!("POST /jobs: {}", told(&answer)));
        match answer {
            Ok(answer) if answer.status == 202 => {
                job.ids.insert(answer.id()?.to_owned());
                return Ok(());
            }
            Ok(answer) if (400..500).contains(&answer.status) && answer.status != 429 => {
                bail!("a job was refused: {} {}", answer.status, answer.body)
            }
            Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    bail!("a job was not accepted in {ATTEMPTS} attempts: {}", job.answers.join("; "))
}

fn told(answer: &Result<Answer>) -> String {
    match answer {
        Ok(answer) => format!("{} {}", answer.status, answer.body),
        Err(error) => format!("no answer: {error:#}"),
    }
}

impl Asked {
    const fn new(wanted: Wanted) -> Self {
        Self { wanted, ids: BTreeSet::new(), cancelled_at: None, answers: Vec::new() }
    }
}

impl Wanted {
    fn in_a_batch(&self) -> Value {
        let mut job = self.request.clone();
        if let (Some(key), Some(fields)) = (&self.key, job.as_object_mut()) {
            fields.insert("idempotency_key".to_owned(), json!(key));
        }
        job
    }
}
