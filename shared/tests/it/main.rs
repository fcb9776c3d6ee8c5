//! Tests of `shared` against real parts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod differential;
mod fuzzed;
mod job_table;
