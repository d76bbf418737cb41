//! A text in an editor: edits at any positions, and every answer at any place.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use ensemble_ide::analysis::findings::EditedFileKind;
use ensemble_ide::analysis::{EditorView, completions, hover, name_occurrences, rename, symbols};
use ensemble_language::check::{CheckContext, OutputKeys};
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, Ensemble, ModelProfile};
use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use ensemble_language::yaml::edit::apply_edits;
use ensemble_lsp::text::{ColumnEncoding, EditorText};
use libfuzzer_sys::fuzz_target;
use lsp_types::{Position, Range, TextDocumentContentChangeEvent};

struct NearbyFiles;

impl CheckContext for NearbyFiles {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        None
    }
    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<OutputKeys> {
        Some(BTreeSet::from(["score".to_owned()]))
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

// The text, then edits: after the byte 1, four digits for the range and the new text.
fuzz_target!(|input: &str| {
    let mut parts = input.split('\u{1}');
    let first = parts.next().unwrap_or_default();
    for encoding in [ColumnEncoding::Utf16, ColumnEncoding::Utf8] {
        let mut text = EditorText::new(first, encoding);
        for edit in input.split('\u{1}').skip(1) {
            let digits: Vec<u32> = edit.chars().take(4).map(|c| c.to_digit(36).unwrap_or(99)).collect();
            let [start_line, start, end_line, end] = digits[..] else {
                continue;
            };
            let range = Range::new(Position::new(start_line, start), Position::new(end_line, end));
            let span = text.span_for_range(range);
            let new: String = edit.chars().skip(4).collect();
            let expected = format!("{}{new}{}", &text.content()[..span.start], &text.content()[span.end..]);
            text = text.with_change(&TextDocumentContentChangeEvent {
                range: Some(range),
                range_length: None,
                text: new,
            });
            assert_eq!(&**text.content(), expected, "an edit is what it replaces");
            let opened = EditorText::new(expected, encoding);
            for offset in (0..=opened.content().len()).step_by(7) {
                assert_eq!(text.position_at(offset), opened.position_at(offset));
            }
        }
        ask(text.content(), EditedFileKind::Ensemble);
        ask(text.content(), EditedFileKind::Tests);
    }
});

fn ask(text: &str, kind: EditedFileKind) {
    let good = load_ensemble(&SourceText::new("fuzz.yaml", text))
        .ensemble
        .map(Arc::new);
    let view = EditorView::parse(text, &NearbyFiles, good, kind);
    symbols::list_agent_symbols(&view);
    // Every place of a small text, some of a large one.
    for offset in (0..=text.len()).step_by(1 + text.len() / 100) {
        let offset = text.floor_char_boundary(offset);
        hover::find_hover_text(&view, offset);
        name_occurrences::find_occurrence_at(&view, offset);
        for found in completions::list_completions(&view, offset) {
            assert!(text.get(found.span.start..found.span.end).is_some());
        }
        if let Ok(renamed) = rename::rename_symbol(&view, offset, "zz-9", rename::RenameSurroundings::EMPTY) {
            apply_edits(text, &renamed.edits);
        }
    }
}
