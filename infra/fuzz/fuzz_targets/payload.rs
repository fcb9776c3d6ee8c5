//! Payloads of all kinds, and their fingerprints.
#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, and are not used whole")]

#[path = "../../../shared/tests/it/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::payload(data));
