//! What Relevo's producer and consumer agree on.
//!
//! # The way of a job
//!
//! ```text
//! request -> Job -> Message -> queue -> record -> Message -> Job -> handler -> outcome
//! ```
//!
//! A [`Job`] is parsed and validated once on each side, by the same code. It
//! travels as a [`message`], and its [`JobEntry`] in a [`JobTable`] is what
//! keeps it from running twice.
//!
//! # The promises
//!
//! 1. A job that got 202 reaches `succeeded`, `failed` (and then lies in the
//!    dead-letter queue, body unchanged) or `cancelled`; never nothing.
//! 2. A job's handler never runs twice at the same time.
//! 3. A job that is `succeeded` is never run again while its entry lives.
//! 4. A repeat of the effect is possible only after an attempt that did not
//!    store its completion; handlers get the job id to close even that.
//! 5. One bad record costs its neighbours nothing.
//! 6. A store, queue or network that fails makes work late, not lost.
//!
//! # The states of a job entry
//!
//! ```text
//!                    release (retryable failure)
//!                 +------------------------------+
//!                 v                              |
//!  accept --> queued ------- claim ---------> running --- complete --> succeeded
//!                 |                              |
//!                 | cancel                       +------- fail ------> failed --+
//!                 v                              |                              |
//!             cancelled                          +------- hold ------> held     |
//!                                                ^                              |
//!                                                +------ claim (redrive) -------+
//! ```
//!
//! A claim also takes a `running` entry whose lease is over, since its owner
//! was killed, unless the kind is held when it is interrupted. Such an entry
//! can be cancelled too, unless its attempt was the last: then the job has
//! failed.
//!
//! A `failed` entry is claimed again by any copy of its message, or, for kinds
//! that are held, only by one that was sent well after it failed: by a person.

pub mod aws;
pub mod config;
#[cfg(feature = "emf")]
pub mod emf;
pub mod entry;
mod exit;
#[cfg(feature = "test-support")]
pub mod fake_aws;
#[cfg(feature = "test-support")]
pub mod fake_sqs;
pub mod fingerprint;
pub mod job;
pub mod job_id;
pub mod jobs;
pub mod message;
pub mod metrics;
pub mod principal;
pub mod raw;
pub mod reason;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod sources;
pub mod table;
pub mod telemetry;
pub mod validation;
mod warm_up;

pub use entry::{JobEntry, State};
pub use exit::{connection_lost, exit_code};
pub use fingerprint::Fingerprint;
pub use job::Job;
pub use job_id::JobId;
pub use principal::Principal;
pub use sources::{Clock, Ids, Random, Timestamp};
pub use table::JobTable;
pub use warm_up::{NOBODYS_JOB, warm_up};
