//! The header `Idempotency-Key`, through the whole producer.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the modules are the tests', and not used whole")]

#[path = "../../../producer/tests/it/events.rs"]
mod events;
#[path = "../../../producer/tests/it/fakes.rs"]
mod fakes;
#[path = "../../../producer/tests/it/fuzzed.rs"]
mod fuzzed;
#[path = "../support/logs.rs"]
mod logs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::idempotency_key(data));
