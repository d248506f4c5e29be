//! Runs libFuzzer on the target of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::changes(data));
