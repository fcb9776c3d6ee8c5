//! One handler per kind of job.

#[cfg(feature = "probe")]
pub mod probe;
mod report;
mod webhook;
mod welcome_email;

use serde::Serialize;
use shared::config::Environment;
use shared::{Clock, Job};

use crate::handler::{JobContext, JobError};

/// What the handlers are configured with. Each kind reads its own part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    webhook: webhook::Settings,
    welcome_email: welcome_email::Settings,
}

impl Settings {
    /// Reads the settings of all kinds; `None` after every problem was noted.
    pub fn read<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Self> {
        let webhook = webhook::Settings::read(env);
        let welcome_email = welcome_email::Settings::read(env);
        Some(Self { webhook: webhook?, welcome_email: welcome_email? })
    }
}

/// The handlers, with the clients that they share: one of each per process.
#[derive(Debug)]
pub struct Handlers {
    webhooks: webhook::Deliverer,
    welcome_emails: welcome_email::Mailer,
}

impl Handlers {
    /// Makes the handlers. Nothing is connected yet.
    #[must_use]
    pub fn new(settings: Settings, clock: Clock) -> Self {
        Self {
            webhooks: webhook::Deliverer::new(settings.webhook, clock.clone()),
            welcome_emails: welcome_email::Mailer::new(settings.welcome_email, clock),
        }
    }

    /// Runs the handler of `job`; its result as JSON text, if it has such a form.
    ///
    /// # Errors
    ///
    /// What the handler said, see [`crate::handler`].
    pub async fn run(&self, job: &Job, context: &JobContext) -> Result<Option<String>, JobError> {
        let result = match job {
            #[cfg(feature = "probe")]
            Job::Probe(probe) => to_json(&probe::run(probe, context).await?),
            Job::Report(report) => to_json(&report::run(report, context).await?),
            Job::Webhook(webhook) => to_json(&self.webhooks.deliver(webhook, context).await?),
            Job::WelcomeEmail(email) => to_json(&self.welcome_emails.send(email, context).await?),
        };
        #[cfg(feature = "probe")]
        probe::after(job);
        Ok(result)
    }
}

/// The work is done, so a result that cannot be written is no failure.
fn to_json(result: &impl Serialize) -> Option<String> {
    serde_json::to_string(result)
        .inspect_err(|error| tracing::error!(%error, "the result is no JSON, and is not kept"))
        .ok()
}
