//! A journal: read as it is, then with its checksums mended, so that what stands behind them is reached too.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use ensemble_core::conversation::ConversationState;
use ensemble_core::records::append_record_line;
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;
use ensemble_runs::store::files::read_journal_lines;
use libfuzzer_sys::fuzz_target;

static PLAN: LazyLock<Arc<Plan>> = LazyLock::new(|| {
    let text = "name: small
agents:
  - {name: writer, script: a.rhai, dependencies: [{agent_name: reviewer, feedback: true}], conversation: {max_turns: 9}}
  - {name: reviewer, script: a.rhai, dependencies: [{agent_name: writer, condition: \"turn_count < 5\"}], conversation: {max_turns: 9}}
";
    let ensemble = load_ensemble(&SourceText::new("small.yaml", text))
        .ensemble
        .expect("a sound ensemble");
    Arc::new(Plan::build(Arc::new(ensemble)).expect("a plan"))
});

fuzz_target!(|bytes: &[u8]| {
    examine(bytes);
    examine(&mended(bytes));
});

fn examine(bytes: &[u8]) {
    let Ok(journal) = read_journal_lines(bytes, Path::new("fuzz.jsonl")) else {
        return;
    };
    assert!(journal.end.position <= bytes.len() as u64);
    let mut state = ConversationState::new(PLAN.clone());
    let mut again = Vec::new();
    for record in &journal.records {
        // An event that is illegal in the state has not happened.
        let _refused = state.apply_record(record);
        append_record_line(record, &mut again);
    }
    let reread = read_journal_lines(&again[..], Path::new("again.jsonl")).expect("what was written can be read");
    assert_eq!(reread.records.len(), journal.records.len());
    state.list_executions().for_each(drop);
}

/// Every line with the checksum that it ought to have.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut mended = Vec::with_capacity(bytes.len() + 64);
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let end = line
            .windows(6)
            .rposition(|part| part == b",\"crc\"")
            .unwrap_or(line.len());
        let body = &line[..end];
        mended.extend_from_slice(body);
        let crc = crc32fast::hash(body);
        mended.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    }
    mended
}
