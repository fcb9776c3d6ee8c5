//! `webhook`: delivers an HTTP request to somebody else's system.
//!
//! The receiver sees Standard Webhooks: the job's id as `webhook-id`, the same
//! for every attempt, and signatures where its host has secrets here. What it
//! answers decides what becomes of the job (`answer`); where a request may go is
//! checked on the address that is connected to (`client`).

mod answer;
mod client;
mod secrets;
mod trace;

use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use http::HeaderMap;
use reqwest::{Client, Request};
use shared::config::Environment;
use shared::jobs::Webhook;
use shared::jobs::webhook::hosts::name;
use shared::jobs::webhook::{Destinations, Forbidden};
use shared::telemetry::causes;
use shared::{Clock, Timestamp};

use self::answer::Delivery;
use self::secrets::Secrets;
use crate::handler::{JobContext, JobError};

/// Where webhooks may go, and with which signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    destinations: Destinations,
    /// `WEBHOOK_SECRETS`
    secrets: Secrets,
}

impl Settings {
    pub(super) fn read<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Self> {
        let destinations = Destinations::read(env);
        let secrets = env.secret("WEBHOOK_SECRETS").map(Option::unwrap_or_default);
        Some(Self { destinations: destinations?, secrets: secrets? })
    }
}

/// Delivers webhooks through one pool of connections.
#[derive(Debug)]
pub(super) struct Deliverer {
    settings: Settings,
    clock: Clock,
    /// Made by the first webhook: loading the system's certificates is what its
    /// making consists of, and other kinds' cold starts should not pay for it.
    client: OnceLock<Client>,
}

/// What is left of the time when an answer is no longer read: an accepted
/// webhook must not be stopped, and delivered again, for its slow answer.
const READING_ENDS: Duration = Duration::from_millis(500);

/// Why a webhook was not accepted.
#[derive(Debug, thiserror::Error)]
enum Undelivered {
    #[error("the URL {0}")]
    Forbidden(Forbidden),
    #[error("the request broke off: {0}")]
    BrokeOff(String),
}

impl Deliverer {
    pub(super) fn new(settings: Settings, clock: Clock) -> Self {
        Self { settings, clock, client: OnceLock::new() }
    }

    pub(super) async fn deliver(
        &self,
        webhook: &Webhook,
        context: &JobContext,
    ) -> Result<Delivery, JobError> {
        // It may have been accepted when other destinations were allowed. The
        // addresses behind a name are looked at when it is connected to.
        self.settings.destinations.check(&webhook.url).map_err(forbidden)?;
        let request = self.request(webhook, context)?;
        let answer = self.client()?.execute(request).await.map_err(broke_off)?;
        answer::read(answer, self.clock.now()).await
    }

    fn request(&self, webhook: &Webhook, context: &JobContext) -> Result<Request, JobError> {
        let mut request = Request::new(webhook.method.clone(), webhook.url.clone());
        *request.timeout_mut() =
            Some(webhook.timeout.min(context.time_left().saturating_sub(READING_ENDS)));
        *request.headers_mut() = webhook.headers.clone();
        let headers = request.headers_mut();
        self.sign(webhook, context, headers, self.clock.now())?;
        *request.body_mut() = webhook.body.clone().map(Into::into);
        Ok(request)
    }

    /// Adds what tells the receiver which job this is, and from whom.
    fn sign(
        &self,
        webhook: &Webhook,
        context: &JobContext,
        headers: &mut HeaderMap,
        now: Timestamp,
    ) -> Result<(), JobError> {
        let id = context.job_id.to_string();
        headers.insert("x-job-attempt", context.attempt.into());
        headers.insert("webhook-timestamp", now.as_seconds().into());
        if let Some(host) = webhook.url.host() {
            let body = webhook.body.as_deref().unwrap_or_default();
            let signatures = self.settings.secrets.sign(&name(&host), &id, now, body)?;
            if let Some(signatures) = signatures {
                headers.insert("webhook-signature", signatures.parse()?);
            }
        }
        let trace = context.trace_header.as_deref();
        if let Some(traceparent) = trace.and_then(|trace| trace::traceparent(trace, context.job_id))
        {
            headers.insert("traceparent", traceparent.parse()?);
        }
        let id: http::HeaderValue = id.parse()?;
        headers.insert("webhook-id", id.clone());
        headers.insert("idempotency-key", id);
        Ok(())
    }

    fn client(&self) -> Result<&Client, JobError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = client::build(self.settings.destinations.clone());
        let client = client.map_err(JobError::retryable)?;
        Ok(self.client.get_or_init(|| client))
    }
}

fn forbidden(why: Forbidden) -> JobError {
    JobError::permanent(Undelivered::Forbidden(why))
}

/// No answer: refused here, or lost on the way. The receiver may have seen the
/// request, and knows the next one by its id.
fn broke_off(error: reqwest::Error) -> JobError {
    // The URL may hold a token of the receiver's.
    let error = error.without_url();
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(why) = error.downcast_ref() {
            return forbidden(*why);
        }
        cause = error.source();
    }
    JobError::retryable(Undelivered::BrokeOff(causes(&error)))
}
