//! Tests of the consumer as Lambda sees it: an event goes in, an answer comes
//! out, and table and queues are looked at.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on must fail"
)]

mod batches;
mod claims;
mod dead_letters;
mod emails;
mod fuzzed;
mod groups;
mod logs;
mod mail_server;
mod observing;
mod outcomes;
mod process;
mod retries;
mod rig;
mod samples;
mod sdk;
mod secure_emails;
mod settlements;
mod time;
mod webhooks;
