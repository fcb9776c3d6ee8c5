//! Tests of the producer from event to answer.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on must fail")]
#![expect(clippy::panic, reason = "a test that cannot go on must fail")]

mod accepting;
mod aws;
mod batch_calls;
mod batch_faults;
mod batches;
mod bodies;
mod cancelling;
mod events;
mod fakes;
mod fuzzed;
mod gateways;
mod intents;
mod kinds;
mod logs;
mod observing;
mod openapi;
mod process;
mod promise;
mod reading;
mod sizes;
mod template;
