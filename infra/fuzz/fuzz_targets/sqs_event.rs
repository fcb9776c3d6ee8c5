//! Batches, through the whole consumer.
#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, and are not used whole")]

#[path = "../../../consumer/tests/it/fuzzed.rs"]
mod fuzzed;
#[path = "../../../consumer/tests/it/rig.rs"]
mod rig;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::sqs_event(data));
