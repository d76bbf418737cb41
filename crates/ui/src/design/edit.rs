//! Edits of the graph, as edits of the text.

use std::path::Path;
use std::sync::Arc;

use ensemble_ide::analysis::EditorView;
use ensemble_ide::analysis::findings::{EditedFileKind, FolderChecks};
use ensemble_ide::analysis::name_occurrences::{self, NamedItemKind, RenameTarget};
use ensemble_ide::analysis::related_files::{
    is_script_named_elsewhere, list_ensembles_passing_input, read_test_files_beside,
};
use ensemble_ide::analysis::rename::{self, RenameEdits, RenameSurroundings};
use ensemble_language::design::{self, DesignCommand, FormKey, list_form_keys};
use ensemble_language::diagnostic::{Diagnostic, FindingSeverity};
use ensemble_language::loader::codes::NO_EFFECT_CODES;
use ensemble_language::loader::{load_ensemble, node_to_json, parse_yaml_partially};
use ensemble_language::source::{SourceText, Span};
use ensemble_language::vocabulary::{FileSection, TYPE_CHOOSING_KEYS};
use ensemble_language::yaml::edit::apply_edits;
use ensemble_project::project::{Project, read_source};
use serde_json::{Value, json};

use super::file::{resolve_file_and_text, sha256_hex_digest};
use super::utf16_lines::Utf16LineIndex;
use crate::app::UiServerState;
use crate::reply::ApiFailure;

/// Converts the agents of a text to JSON, with their dependencies and positions.
pub(super) fn agents_to_json(source: &SourceText, units: &Utf16LineIndex<'_>) -> Value {
    let sketched = design::parse_unchecked_agents(source).into_iter().map(|agent| {
        let dependencies = agent.dependencies.iter().map(|one| {
            json!({
                "to": one.to,
                "condition": one.condition,
                "feedback": one.feedback,
                "on": one.on,
                "requires_all": one.requires_all,
                "wait_for": one.wait_for,
                "max_executions": one.max_executions,
                "at": units.range_json(one.span),
            })
        });
        json!({
            "name": agent.name,
            "kind": agent.kind,
            "at": units.range_json(agent.span),
            "type": agent.kind.and_then(agent_kind_for_key),
            "dependencies": dependencies.collect::<Vec<_>>(),
            "values": agent.values,
        })
    });
    sketched.collect()
}

/// Plans an edit of the text `{file, text, edit}`. Returns `{title, edits, scripts, warning}` without changing a file.
///
/// `scripts` are changes of scripts and test files after a rename.
pub(super) fn plan_edit(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let (path, text) = resolve_file_and_text(app, given)?;
    let edit_request = &given["edit"];
    if edit_request["do"] == "rename" {
        return plan_rename(app, &path, &text, edit_request);
    }
    let command: DesignCommand = serde_json::from_value(with_parsed_yaml_value(edit_request)?)
        .map_err(|error| ApiFailure::bad_request(format!("`edit` is not a valid edit: {error}")))?;
    let source = SourceText::new(path.display().to_string(), text.clone());
    let fix = design::fix_for_command(&source, &command).map_err(|error| ApiFailure::bad_request(error.to_string()))?;
    check_edit_effect(app, &path, &text, &command, &apply_edits(&text, &fix.edits))?;
    let units = Utf16LineIndex::new(&text);
    let edits = fix
        .edits
        .iter()
        .map(|edit| edit_to_json(&units, edit.span, &edit.replacement));
    Ok(json!({"title": fix.title, "edits": edits.collect::<Vec<_>>(), "scripts": [], "warning": null}))
}

/// Returns the keys of agents, files and dependencies for the forms of the designer, and the keys that decide the kind of an agent.
pub(super) fn form_keys_json() -> Value {
    let keys = |section| list_form_keys(section).iter().map(FormKey::to_json).collect::<Vec<_>>();
    json!({
        "agent": keys(FileSection::Agent),
        "file": keys(FileSection::Ensemble),
        "dependency": keys(FileSection::Dependency),
        "choosers": TYPE_CHOOSING_KEYS.map(|(key, _)| key),
    })
}

/// Returns the kind of agents with this key.
fn agent_kind_for_key(key: &str) -> Option<&'static str> {
    let mut choosers = TYPE_CHOOSING_KEYS.into_iter();
    choosers
        .find(|(chooser, _)| *chooser == key)
        .map(|(_, kind)| kind.word())
}

/// Returns the edit with its `value`. Parses a text under `yaml` as YAML.
fn with_parsed_yaml_value(edit: &Value) -> Result<Value, ApiFailure> {
    let mut edit = edit.clone();
    let Some(yaml) = edit.as_object_mut().and_then(|entries| entries.remove("yaml")) else {
        return Ok(edit);
    };
    let source = SourceText::new("", yaml.as_str().unwrap_or_default());
    let document = parse_yaml_partially(&source).map_err(|findings| {
        let first = findings.first();
        let message = first.map_or_else(String::new, |finding| {
            let line = source.line_column(finding.span.start).line;
            format!(": line {line}: {}", finding.message)
        });
        ApiFailure::bad_request(format!("the value is not YAML{message}"))
    })?;
    edit["value"] = node_to_json(document.root()).ok_or_else(|| ApiFailure::bad_request("the value is not JSON"))?;
    Ok(edit)
}

/// Fails if a set value would have no effect, or its key has an error after the edit. The failure suggests an alternative.
fn check_edit_effect(
    app: &UiServerState,
    path: &Path,
    before: &Arc<str>,
    command: &DesignCommand,
    after: &str,
) -> Result<(), ApiFailure> {
    let project = app.runs.runs().project();
    let absolute = project.folder.join(path);
    let place = FolderChecks::for_file(&absolute, project, &*app.checks);
    let check = |text: &Arc<str>| {
        place
            .check_text_if_wanted(&absolute, text, &|| true)
            .unwrap_or_default()
    };
    let known = check(before);
    let sets_key = matches!(command, DesignCommand::SetValue { .. } | DesignCommand::SetKey { .. });
    let is_new = |finding: &&Diagnostic| {
        let is_same = |one: &Diagnostic| one.code == finding.code && one.message == finding.message;
        !known.iter().any(is_same)
    };
    let is_reason = |finding: &&Diagnostic| {
        NO_EFFECT_CODES.contains(&finding.code) || sets_key && finding.severity == FindingSeverity::Error
    };
    let found = check(&after.into());
    let Some(reason) = found.iter().filter(is_new).find(is_reason) else {
        return Ok(());
    };
    let help = reason
        .help
        .as_ref()
        .map_or_else(String::new, |help| format!("; {help}"));
    Err(ApiFailure::bad_request(format!("{}{help}", reason.message)))
}

/// Converts a text edit to JSON.
fn edit_to_json(units: &Utf16LineIndex<'_>, span: Span, text: &str) -> Value {
    let mut json = units.range_json(span);
    json["text"] = text.into();
    json
}

/// Plans the rename of an agent or an input: `{do: rename, agent, name}` or `{do: rename, input, name}`.
fn plan_rename(app: &UiServerState, path: &Path, text: &Arc<str>, wanted: &Value) -> Result<Value, ApiFailure> {
    let subject = match wanted["input"].is_null() {
        true => NamedItemKind::Agent,
        false => NamedItemKind::Input,
    };
    let old = super::required_text(wanted, name_of_renamed_subject(subject))?;
    let name = super::required_text(wanted, "name")?;
    let project = app.runs.runs().project();
    let absolute = project.folder.join(path);
    let place = FolderChecks::for_file(&absolute, project, &*app.checks);
    let loaded = load_ensemble(&SourceText::new("", text.clone()));
    // While the text has errors, that of the file tells which scripts there are.
    let of_file = || load_ensemble(&project.read_file(path).ok()?).ensemble;
    let ensemble = loaded.ensemble.or_else(of_file).map(Arc::new);
    let view = EditorView::parse(text, place.ensemble_folder(), ensemble, EditedFileKind::Ensemble);
    let definition = name_occurrences::find_definition_span(&view, subject, old);
    let at = definition.ok_or_else(|| {
        let kind = name_of_renamed_subject(subject);
        ApiFailure::bad_request(format!("there is no {kind} `{old}`"))
    })?;
    let tests = read_test_files_beside(&absolute).into_iter();
    let tests = tests.filter_map(|(path, text)| Some((path.strip_prefix(&project.folder).ok()?.to_owned(), text)));
    let around = RenameSurroundings {
        is_shared: &|script| is_script_named_elsewhere(script, &absolute) || !project.contains_file(script),
        tests: tests.collect(),
        find_callers: &|input| list_ensembles_passing_input(&absolute, &project.folder, input),
    };
    let renamed = rename::rename_symbol(&view, at.start, name, around).map_err(ApiFailure::bad_request)?;
    let units = Utf16LineIndex::new(text);
    let edits = renamed
        .edits
        .iter()
        .map(|edit| edit_to_json(&units, edit.span, &edit.replacement));
    let is_stored = renamed.is_stored;
    let target = RenameTarget {
        subject,
        name: old,
        is_stored,
    };
    Ok(json!({
        "title": format!("call `{old}` `{name}`"),
        "edits": edits.collect::<Vec<_>>(),
        "scripts": rename_changes_json(project, &renamed, &target, name)?,
        "warning": renamed.unchanged_files_warning(),
    }))
}

/// Returns the key with which the page names the renamed agent or input.
fn name_of_renamed_subject(subject: NamedItemKind) -> &'static str {
    match subject {
        NamedItemKind::Input => "input",
        NamedItemKind::Agent | NamedItemKind::Tool => "agent",
    }
}

/// Lists the scripts and test files that name the agent or input, in the form for saving.
fn rename_changes_json(
    project: &Project,
    renamed: &RenameEdits,
    target: &RenameTarget<'_>,
    name: &str,
) -> Result<Vec<Value>, ApiFailure> {
    let subject = name_of_renamed_subject(target.subject);
    let entries = renamed.other_files.iter().map(|(path, ..)| {
        let text = read_source(&project.folder.join(path))?;
        let names = json!([{"subject": subject, "old": target.name, "new": name, "is_stored": target.is_stored}]);
        Ok(json!({"file": path, "digest": sha256_hex_digest(text.text()), "names": names}))
    });
    entries.collect()
}
