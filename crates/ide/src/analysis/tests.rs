//! No text and no position makes an answer fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensemble_language::check::{CheckContext, OutputKeys};
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, Ensemble, ModelProfile};
use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use ensemble_language::yaml::edit::apply_edits;
use proptest::prelude::*;

mod names_of_agents;
mod names_of_inputs;

use super::findings::EditedFileKind;
use super::{EditorView, completions, hover, name_occurrences, rename, symbols};

struct Nothing;

impl CheckContext for Nothing {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        None
    }
    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<OutputKeys> {
        Some(BTreeSet::from(["text".to_owned()]))
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

const TEXT: &str = "name: x # é\nagents:\n  - name: a\n    model: ollama/x\n    prompt: '{{ b.text | upper }} 𝄞'\n    dependencies: \
                    [{agent_name: b, feedback: true, condition: \"len(output.text) > 1 and outputs['b'] != None\"}]\n  - name: b\n    \
                    script: b.rhai # ensemble: allow(W030) x\n    depends_on: [a]\n  - {name: c, tool: t.x}\ntools:\n  t: {mcp: {url: 'https://x'}}\nresult: {it: outputs.a.text}\n";

fn ask_everything(text: &str, good: Option<Arc<Ensemble>>) {
    let offsets = (0..=text.len() + 1).step_by(2);
    let view = EditorView::parse(text, &Nothing, good, EditedFileKind::Ensemble);
    symbols::list_agent_symbols(&view);
    for offset in offsets {
        hover::find_hover_text(&view, offset);
        name_occurrences::find_occurrence_at(&view, offset);
        for found in completions::list_completions(&view, offset) {
            assert!(text.get(found.span.start..found.span.end).is_some());
        }
        if let Ok(renamed) = rename::rename_symbol(&view, offset, "z-1", rename::RenameSurroundings::EMPTY) {
            apply_edits(text, &renamed.edits);
        }
    }
}

#[test]
fn every_place_of_a_text_has_answers() {
    let good = load_ensemble(&SourceText::new("", TEXT)).ensemble.map(Arc::new);
    assert!(good.is_some());
    ask_everything(TEXT, good);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn every_place_of_a_broken_text_has_answers(
        cut in 0usize..400,
        length in 0usize..40,
        new in "[a-z\u{e9}\u{1d11e}{}\\[\\]'\":#|&*<\n\r\t -]{0,8}",
    ) {
        let good = load_ensemble(&SourceText::new("", TEXT)).ensemble.map(Arc::new);
        let start = TEXT.floor_char_boundary(cut.min(TEXT.len()));
        let end = TEXT.floor_char_boundary((start + length).min(TEXT.len())).max(start);
        ask_everything(&format!("{}{new}{}", &TEXT[..start], &TEXT[end..]), good);
    }
}
