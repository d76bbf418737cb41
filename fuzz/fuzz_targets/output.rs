//! What a script wrote: read as an output.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use ensemble_core::runner::AttemptLedger;
use ensemble_process::output::output_from_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let ledger = AttemptLedger::default();
    let first = output_from_bytes(bytes, &ledger);
    let second = output_from_bytes(bytes, &ledger);
    match (first, second) {
        (Ok(first), Ok(second)) => {
            assert_eq!(first, second);
            let text = serde_json::to_string(&first).expect("JSON");
            let again =
                output_from_bytes(text.as_bytes(), &AttemptLedger::default()).expect("an output is an output again");
            assert_eq!(serde_json::to_string(&again).expect("JSON"), text);
        }
        (Err(first), Err(second)) => {
            assert_eq!(first, second);
            assert!(!first.error.is_empty());
        }
        different => panic!("{different:?}"),
    }
});
