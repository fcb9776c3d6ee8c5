//! Lines of an export of dead letters, as `cargo ops dlq import` reads them.
#![no_main]
#![allow(dead_code, unreachable_pub, reason = "the module is that of `ops`, and not used whole")]

// Not by depending on `ops`, which is ten times as much to build.
#[path = "../../ops/src/dlq/line.rs"]
mod line;

// What can be read is written and read again as the same.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(content) = line::parse(text) else { return };
    let again = line::write(&content, "m", String::new()).unwrap();
    assert_eq!(line::parse(&again).unwrap(), content);
});
