//! One payload type per kind of job.
//!
//! A new kind is a payload type here, its line in `job.rs`, and its handler
//! in `consumer/src/jobs/`.

#[cfg(feature = "probe")]
mod probe;
mod report;
mod webhook;
mod welcome_email;

#[cfg(feature = "probe")]
pub use probe::{Probe, Step};
pub use report::{Report, Row};
pub use webhook::Webhook;
pub use welcome_email::{Language, WelcomeEmail};
