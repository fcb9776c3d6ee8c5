//! End to end: the real template with the real functions, in the emulator, with
//! IAM enforced.
//!
//! The set-up is that of `cargo ops up`. All tests share one emulator, which is
//! started by the first and ends with this process; those that disturb others
//! deploy a stack of their own into it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on must fail"
)]

mod actions;
mod bad_input;
mod batches;
mod callers;
mod code_update;
mod command_line;
mod completions;
mod contract;
mod crashes;
mod cutting;
mod dead_letters;
mod diagnosis;
mod dlq_crash;
mod dlq_edit;
mod dlq_files;
mod dlq_list;
mod dlq_reconcile;
mod dlq_redrive;
mod down;
mod emails;
mod expansion;
mod following;
mod idempotency;
mod infrastructure;
mod issuer;
mod jobs;
mod journal;
mod kept;
mod parameters;
mod policies;
mod polling;
mod queue;
mod queue_counts;
mod readme;
mod retries;
mod routes;
mod shift;
mod soak;
mod submitting;
mod support;
mod template;
mod watching;
mod webhooks;
