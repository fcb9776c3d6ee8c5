//! One payload type per kind of job.
//!
//! A new kind is a payload type here, its line in `job.rs`, and its handler
//! in `consumer/src/jobs/`.

#[cfg(feature = "probe")]
mod probe;
mod report;
pub mod webhook;
mod welcome_email;

#[cfg(feature = "probe")]
pub use probe::{Probe, Step};
pub use report::{Report, Row};
pub use webhook::Webhook;
pub use welcome_email::{Language, WelcomeEmail};

use crate::config::Environment;

/// What a deployment's configuration allows payloads to ask for. Where nothing
/// is configured, that is the least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    webhook: webhook::Destinations,
}

impl Rules {
    /// Reads the rules of all kinds; `None` after every problem was noted.
    pub fn read<L: Fn(&str) -> Option<String>>(env: &mut Environment<L>) -> Option<Self> {
        Some(Self { webhook: webhook::Destinations::read(env)? })
    }
}
