//! Calls to the API that are made again where that may help.
//!
//! All of them may be repeated: to ask changes nothing, to cancel twice is to
//! cancel once, and each job that is sent here has a key.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use uuid::Uuid;

use crate::api::{Answer, Api};

/// How long to wait before the second, third, … attempt, at most.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// The longest that the API may make us wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Statuses that may be others soon: too many requests, and what functions and
/// gateways say when something behind them does not answer.
const PASSING: [u16; 5] = [429, 500, 502, 503, 504];

/// A client with patience.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    api: Api,
}

impl Calls {
    pub(super) const fn new(api: Api) -> Self {
        Self { api }
    }

    /// `POST /jobs/batch`, of jobs that all have keys.
    ///
    /// # Errors
    ///
    /// There was no answer, so nobody knows what became of the jobs. An answer
    /// that refuses is an answer.
    pub(super) async fn batch(&self, body: &str) -> Result<Answer> {
        self.call(async || self.api.post_batch(body).await).await
    }

    /// `GET /jobs/{id}`.
    ///
    /// # Errors
    ///
    /// There was no answer, or we are nobody who gets one.
    pub(super) async fn job(&self, id: Uuid) -> Result<Answer> {
        admitted(self.call(async || self.api.job(&id.to_string()).await).await?)
    }

    /// `DELETE /jobs/{id}`.
    ///
    /// # Errors
    ///
    /// There was no answer, or we are nobody who gets one.
    pub(super) async fn cancel(&self, id: Uuid) -> Result<Answer> {
        admitted(self.call(async || self.api.cancel(&id.to_string()).await).await?)
    }

    async fn call(&self, request: impl AsyncFn() -> Result<Answer>) -> Result<Answer> {
        let mut pauses = pauses();
        loop {
            let answer = request().await;
            let asked_to_wait = match &answer {
                Ok(answer) if PASSING.contains(&answer.status) => answer.retry_after,
                Ok(_) => return answer,
                Err(_) => None,
            };
            let Some(pause) = pauses.next() else {
                return answer.with_context(|| {
                    format!("{} cannot be reached: is the stack still there?", self.api.base())
                });
            };
            wait(pause, asked_to_wait).await;
        }
    }
}

/// Pauses between attempts, which are over at some time.
pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    // Not the same for all who met the same trouble at the same time.
    PAUSES.into_iter().map(|most| most.mul_f64(0.5 + 0.5 * fastrand::f64()))
}

/// Waits for a pause, or longer where the API asks for it.
pub(super) async fn wait(pause: Duration, asked_for: Option<Duration>) {
    let asked_for = asked_for.unwrap_or_default().min(LONGEST_PAUSE);
    tokio::time::sleep(pause.max(asked_for)).await;
}

/// The answer, unless it says that we may not ask.
///
/// # Errors
///
/// It does; the error says how to mend that.
pub(super) fn admitted(answer: Answer) -> Result<Answer> {
    let is_ours = answer.content_type == "application/problem+json";
    match answer.status {
        401 => bail!(
            "the API takes tokens, and has got none that it accepts (401): \
             give a valid one with --token, or in RELEVO_TOKEN"
        ),
        403 if !is_ours => bail!(
            "the API does not let this caller in (403): use credentials that may invoke it \
             (--profile, or `aws sso login`), or a token (--token) if it takes tokens"
        ),
        403 if answer.text("/type").ends_with(":caller-unknown") => {
            bail!("the API does not know who is calling (403): {}", answer.text("/detail"))
        }
        _ => Ok(answer),
    }
}
