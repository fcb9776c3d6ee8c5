//! Batches, through the whole consumer.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the modules are the tests', and not used whole")]

#[path = "../../../consumer/tests/it/fuzzed.rs"]
mod fuzzed;
#[path = "../support/logs.rs"]
mod logs;
#[path = "../../../consumer/tests/it/rig.rs"]
mod rig;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::sqs_event(data));
