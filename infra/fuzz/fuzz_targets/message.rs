//! Bodies of messages.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the modules are the tests', and not used whole")]

#[path = "../../../shared/tests/it/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::message(data));
