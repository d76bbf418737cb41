//! Places at which inputs are named, and those that only look like it.

use std::path::PathBuf;
use std::sync::Arc;

use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use ensemble_language::yaml::edit::apply_edits;

use super::Nothing;
use crate::analysis::findings::EditedFileKind;
use crate::analysis::rename::{RenameEdits, RenameSurroundings, rename_symbol};
use crate::analysis::{EditorView, hover};

/// Renames the input `topic` to `new`, and returns the edits with the text after them.
fn rename_topic(text: &str, new: &str, around: RenameSurroundings<'_>) -> Result<(RenameEdits, String), String> {
    let good = load_ensemble(&SourceText::new("", text)).ensemble.map(Arc::new);
    let view = EditorView::parse(text, &Nothing, good, EditedFileKind::Ensemble);
    let offset = text.find("topic: {").expect("the input");
    let renamed = rename_symbol(&view, offset, new, around)?;
    let after = apply_edits(text, &renamed.edits);
    Ok((renamed, after))
}

const TEXT: &str = "\
name: x
inputs: {topic: {type: string, description: What it is about.}, tone: {type: string, default: calm}}
tools: {t: {mcp: {url: 'https://x'}}}
agents:
  - {name: a, tool: t.x, arguments: {about: '{{ inputs.topic }}', of: [{k: '{{ inputs[\"topic\"] }}'}]}}
  - name: b
    input: 'Is {{ inputs.topic }} topic {{ context.topic }}?'
    dependencies: [{agent_name: a, condition: \"inputs.topic == 'topic' and 'topic' in inputs\"}]
  - {name: c, ensemble: inner, inputs: {topic: '{{ inputs.topic }}'}, depends_on: [a]}
  - {name: d, script: d.sh, args: ['{{ inputs.topic }}'], for_each: {in: '[inputs.topic]'}}
result: {topic: inputs.topic}
success: inputs.topic != ''
";

#[test]
fn an_input_is_renamed_in_all_conditions_and_templates_and_nowhere_else() {
    let (renamed, after) = rename_topic(TEXT, "subject", RenameSurroundings::EMPTY).expect("it can be renamed");
    let expected = TEXT
        .replace("{topic: {type", "{subject: {type")
        .replace("inputs.topic", "inputs.subject")
        .replace("inputs[\"topic\"]", "inputs[\"subject\"]")
        .replace("context.topic", "context.subject")
        .replace("'topic' in", "'subject' in");
    assert_eq!(after, expected);
    assert_eq!(renamed.unchanged_files_warning(), None);
}

#[test]
fn a_key_of_the_context_that_an_agent_stores_is_no_input() {
    let text = TEXT.replace("name: d, ", "name: d, conversation: {state_key: topic}, ");
    let (renamed, after) = rename_topic(&text, "subject", RenameSurroundings::EMPTY).expect("it can be renamed");
    assert!(after.contains("{{ context.topic }}"), "{after}");
    assert!(!renamed.is_stored);
}

#[test]
fn a_name_that_is_used_or_invalid_is_refused_and_callers_are_named() {
    for (new, part) in [
        ("tone", "an input `tone` already exists"),
        ("2nd", "use letters, digits and `_`"),
        ("a-b", "use letters, digits and `_`"),
    ] {
        let refused = rename_topic(TEXT, new, RenameSurroundings::EMPTY).expect_err(new);
        assert!(refused.contains(part), "{refused}");
    }
    let around = RenameSurroundings {
        find_callers: &|input| vec![PathBuf::from(format!("{input}.yaml"))],
        ..RenameSurroundings::EMPTY
    };
    let (renamed, _) = rename_topic(TEXT, "subject", around).expect("it can be renamed");
    let warning = renamed.unchanged_files_warning().expect("a warning");
    assert!(
        warning.starts_with("rename did not change `topic.yaml`, which might name the input"),
        "{warning}"
    );
}

#[test]
fn an_input_is_described_where_it_is_used() {
    let good = load_ensemble(&SourceText::new("", TEXT)).ensemble.map(Arc::new);
    let view = EditorView::parse(TEXT, &Nothing, good, EditedFileKind::Ensemble);
    let offset = TEXT.find("inputs.topic").expect("a use") + 8;
    let hover = hover::find_hover_text(&view, offset).expect("a description");
    assert_eq!(hover.text, "**`topic`**: an input, string\n\nWhat it is about.");
}
