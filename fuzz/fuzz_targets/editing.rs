//! A text in an editor: edits at any positions, and every answer at any place.
#![no_main]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ensemble_language::check::{CheckContext, OutputKeys};
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, Ensemble, Profile};
use ensemble_language::loader::load;
use ensemble_language::source::Source;
use ensemble_ide::analysis::findings::Kind;
use ensemble_ide::analysis::{View, complete, hover, names, rename, symbols};
use ensemble_lsp::text::{Encoding, Text};
use libfuzzer_sys::fuzz_target;
use lsp_types::{Position, Range, TextDocumentContentChangeEvent};

struct Beside;

impl CheckContext for Beside {
    fn configured(&self) -> Option<&[(Arc<str>, Profile)]> {
        None
    }
    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<OutputKeys> {
        Some(BTreeSet::from(["score".to_owned()]))
    }
    fn files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

// The text, then edits: after the byte 1, four digits for the range and the new text.
fuzz_target!(|input: &str| {
    let mut parts = input.split('\u{1}');
    let first = parts.next().unwrap_or_default();
    for encoding in [Encoding::Utf16, Encoding::Utf8] {
        let mut text = Text::new(first, encoding);
        for edit in input.split('\u{1}').skip(1) {
            let digits: Vec<u32> = edit.chars().take(4).map(|c| c.to_digit(36).unwrap_or(99)).collect();
            let [start_line, start, end_line, end] = digits[..] else { continue };
            let range = Range::new(Position::new(start_line, start), Position::new(end_line, end));
            let span = text.span(range);
            let new: String = edit.chars().skip(4).collect();
            let expected = format!("{}{new}{}", &text.text()[..span.start], &text.text()[span.end..]);
            text = text.changed(&TextDocumentContentChangeEvent {
                range: Some(range),
                range_length: None,
                text: new,
            });
            assert_eq!(&**text.text(), expected, "an edit is what it replaces");
            let opened = Text::new(expected, encoding);
            for offset in (0..=opened.text().len()).step_by(7) {
                assert_eq!(text.position(offset), opened.position(offset));
            }
        }
        ask(text.text(), Kind::Ensemble);
        ask(text.text(), Kind::Tests);
    }
});

fn ask(text: &str, kind: Kind) {
    let good = load(&Source::new("fuzz.yaml", text)).ensemble.map(Arc::new);
    let view = View::of(text, &Beside, good, kind);
    symbols::symbols(&view);
    // Every place of a small text, some of a large one.
    for offset in (0..=text.len()).step_by(1 + text.len() / 100) {
        let offset = text.floor_char_boundary(offset);
        hover::hover(&view, offset);
        names::at(&view, offset);
        for found in complete::complete(&view, offset) {
            assert!(text.get(found.span.start..found.span.end).is_some());
        }
        if let Ok(renamed) = rename::rename(&view, offset, "zz-9", &|_: &Path| false) {
            rename::applied(text, &renamed.edits);
        }
    }
}
