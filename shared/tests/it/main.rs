//! Tests of `shared` against real parts.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on must fail"
)]

mod differential;
mod fuzzed;
mod grouped;
mod job_table;
mod metrics;
mod operator;
