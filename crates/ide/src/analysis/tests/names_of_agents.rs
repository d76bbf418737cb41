//! Places at which agents are named, and those that only look like it.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_language::check::{CheckContext, OutputKeys, ScriptText};
use ensemble_language::condition::{MapFields, ValueType};
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, Ensemble, ModelProfile};
use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use ensemble_language::yaml::edit::apply_edits;

use crate::analysis::findings::EditedFileKind;
use crate::analysis::{EditorView, completions, hover, name_occurrences, rename};

/// Scripts by name, and a type of outputs.
#[derive(Default)]
struct Beside {
    scripts: HashMap<&'static str, &'static str>,
    output: Option<ValueType>,
}

impl CheckContext for Beside {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        None
    }
    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<OutputKeys> {
        None
    }
    fn output_type(&self, _: &Ensemble, _: &Agent) -> Option<ValueType> {
        self.output.clone()
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
    fn find_script(&self, script: &str) -> Option<Arc<ScriptText>> {
        Some(Arc::new(ScriptText {
            name: script.to_owned(),
            text: (*self.scripts.get(script)?).to_owned(),
            ..ScriptText::default()
        }))
    }
}

fn with<T>(text: &str, around: &Beside, ask: impl FnOnce(&EditorView<'_>) -> T) -> T {
    let good = load_ensemble(&SourceText::new("", text)).ensemble.map(Arc::new);
    ask(&EditorView::parse(text, around, good, EditedFileKind::Ensemble))
}

/// Returns an ensemble with agents `a` and `b`, and `b` with these lines.
fn ensemble(more: &str) -> String {
    format!("name: x\nagents:\n  - name: a\n    script: a.rhai\n  - name: b\n    depends_on: [a]\n{more}")
}

/// Returns the text after `a` became `new`, with the scripts that were changed, and the names of those that were not.
fn renamed(text: &str, scripts: &[(&'static str, &'static str)], new: &str) -> (String, Vec<String>, Vec<String>) {
    let around = Beside {
        scripts: scripts.iter().copied().collect(),
        output: None,
    };
    with(text, &around, |view| {
        let offset = text.find("name: a").expect("the agent") + 6;
        let renamed =
            rename::rename_symbol(view, offset, new, rename::RenameSurroundings::EMPTY).expect("it can be renamed");
        let of_scripts = renamed.other_files.iter();
        let changed = of_scripts.map(|(_, text, edits)| apply_edits(text, edits)).collect();
        let left = renamed
            .unchanged_files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        (apply_edits(text, &renamed.edits), changed, left)
    })
}

#[test]
fn a_name_that_a_template_assigns_is_left_alone() {
    let text = ensemble("    model: ollama/x\n    prompt: '{% for a in [1] %}{{ a }}{% endfor %}'\n");
    let (changed, ..) = renamed(&text, &[], "new");
    assert!(changed.contains("{% for a in [1] %}{{ a }}"), "{changed}");
    assert!(changed.contains("depends_on: [new]"), "{changed}");
}

#[test]
fn an_agent_that_stores_its_output_under_another_key_is_not_in_the_context_under_its_name() {
    let text = "name: x\nagents:\n  - name: a\n    script: a.rhai\n    conversation: {state_key: kept}\n  - name: b\n    script: b.rhai\n    \
                dependencies:\n      - {agent_name: a, condition: context.a == None or outputs.a.ok}\n";
    let (changed, ..) = renamed(text, &[], "new");
    assert!(changed.contains("context.a == None or outputs.new.ok"), "{changed}");
}

#[test]
fn names_in_the_history_are_found_whichever_way_they_are_compared() {
    let text = ensemble("    script: b.rhai\n    dependencies:\n      - agent_name: a\n        condition: \"history[-1].agent_name != 'a'\"\n")
        .replace("    depends_on: [a]\n", "");
    let (changed, ..) = renamed(&text, &[], "new");
    assert!(changed.contains("agent_name != 'new'"), "{changed}");
}

#[test]
fn the_definition_is_that_of_the_agent() {
    let text = ensemble("    script: b.rhai\n  - {name: c, script: c.rhai, depends_on: [b]}\n");
    with(&text, &Beside::default(), |view| {
        let at = name_occurrences::find_definition_span(view, name_occurrences::NamedItemKind::Agent, "b")
            .expect("it is defined");
        assert_eq!(at.start, text.find("name: b").expect("the agent") + 6);
    });
}

#[test]
fn an_optional_member_stays_optional() {
    let text = ensemble(
        "    script: b.rhai\n    dependencies:\n      - agent_name: a\n        condition: \"outputs?.a?.ok\"\n",
    )
    .replace("    depends_on: [a]\n", "");
    let (changed, ..) = renamed(&text, &[], "new-1");
    assert!(changed.contains("outputs?['new-1']?.ok"), "{changed}");
}

#[test]
fn a_script_is_changed_only_if_it_is_certain_what_it_names() {
    let reads = "let x = dependencies.a;";
    let text = ensemble("    script: b.rhai\n");
    let (_, changed, left) = renamed(&text, &[("b.rhai", reads)], "new");
    assert_eq!(
        (changed, left),
        (vec!["let x = dependencies.new;".to_owned()], Vec::new())
    );
    for own in [
        "let dependencies = dependencies; dependencies.a",
        "let f = |dependencies| dependencies.a; f.call(1)",
        "fn f(dependencies) { dependencies.a }",
        "for dependencies in [1] { dependencies.a }",
        "dependencies = 1; dependencies.a",
    ] {
        let (_, changed, left) = renamed(&text, &[("b.rhai", own)], "new");
        assert_eq!((changed.len(), left.len()), (0, 1), "{own}");
    }
    // An agent that does not depend on it, and a tool, run the same script.
    let shared = [
        ensemble("    script: b.rhai\n  - {name: c, script: b.rhai}\n"),
        ensemble("    script: b.rhai\ntools:\n  t: {script: b.rhai, description: it, parameters: {type: object}}\n"),
    ];
    for text in shared {
        let (_, changed, left) = renamed(&text, &[("b.rhai", reads)], "new");
        assert_eq!((changed.len(), left), (0, vec!["b.rhai".to_owned()]), "{text}");
    }
}

#[test]
fn hovers_tell_which_keys_are_always_there_and_codes_only_in_comments() {
    let mut fields = MapFields::with_exact_keys([("sure".to_owned(), ValueType::any_value())]);
    fields
        .known_keys
        .insert("perhaps".to_owned(), (ValueType::any_value(), false));
    let around = Beside {
        output: Some(ValueType::map_with_fields(fields)),
        ..Beside::default()
    };
    let text = ensemble("    script: b.rhai # W013\n    description: about W013\n");
    with(&text, &around, |view| {
        let told = |mark: &str| {
            hover::find_hover_text(view, text.find(mark).expect("the mark") + mark.len()).map(|hover| hover.text)
        };
        let agent = told("depends_on: [a").expect("an agent");
        let line = |key: &str| {
            agent
                .lines()
                .find(|line| line.contains(key))
                .expect("the key")
                .to_owned()
        };
        assert!(line("perhaps").ends_with("not always present"), "{agent}");
        assert!(!line("sure").ends_with("not always present"), "{agent}");
        assert!(told("# W01").expect("a code").starts_with("**W013**"));
        assert_eq!(told("about W01"), None);
    });
}

#[test]
fn completions_are_offered_in_lists_and_maps_that_are_begun() {
    for (lines, label) in [
        (
            "    dependencies:\n      - {agent_name: a, cond‸\n    script: b.rhai\n",
            "condition",
        ),
        ("    input: {prompt: x, ‸\n  - name: c\n", "choices"),
        // Brackets that an earlier line has opened.
        ("    script: b.rhai\n  - name: c\n    depends_on: [\n      ‸", "a"),
        (
            "    script: b.rhai\n  - name: c\n    depends_on: [b,\n      ‸\n  - name: d\n",
            "a",
        ),
        ("    input: {prompt: x,\n      ‸\n  - name: c\n", "choices"),
        ("    script: b.rhai\n  ‸", "name"),
        (
            "    script: b.rhai\n    dependencies:\n      - agent_name: a\n      ‸",
            "agent_name",
        ),
    ] {
        let marked = ensemble(lines);
        let offset = marked.find('‸').expect("a mark");
        let text = marked.replace('‸', "");
        let found = with(&text, &Beside::default(), |view| {
            completions::list_completions(view, offset)
        });
        let labels: Vec<&str> = found.iter().map(|one| one.label.as_str()).collect();
        assert!(labels.contains(&label), "{lines}: {labels:?}");
    }
}
