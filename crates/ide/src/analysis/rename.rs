//! Renaming an agent, a tool or an input everywhere.
//!
//! **Invariant:** after a rename the checks of the text find what they found before; otherwise it is refused.

use std::path::{Path, PathBuf};

use ensemble_language::cases::is_test_file;
use ensemble_language::check;
use ensemble_language::diagnostic::FindingCode;
use ensemble_language::ensemble::{Agent, AgentKind, SimulatedReplySource, ToolKind};
use ensemble_language::loader::load_ensemble;
use ensemble_language::names::{is_ascii_identifier, is_name, is_script_member_name, is_tool_name};
use ensemble_language::source::{SourceText, Span};
use ensemble_language::template;
use ensemble_language::yaml::edit::{SpellingContext, TextEdit, apply_edits, spell_string};

use super::name_occurrences::{self, NameForm, NameOccurrence, NamedItemKind, RenameTarget};
use super::{EditorView, document_tree, script_occurrences};

/// The edits of a rename in the text and in other files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenameEdits {
    /// The edits of the text.
    pub edits: Vec<TextEdit>,
    /// The edits of scripts and test files: each with its name as the project sees it, its text and its edits.
    pub other_files: Vec<(PathBuf, String, Vec<TextEdit>)>,
    /// What has the new name; `None`: nothing, because it has it already.
    pub subject: Option<NamedItemKind>,
    /// The scripts and ensembles that perhaps name the subject, and are not changed.
    pub unchanged_files: Vec<PathBuf>,
    /// Whether the context has the output of the agent, or the value of the input, under its name.
    pub is_stored: bool,
}

impl RenameEdits {
    /// Returns the warning about files that a rename did not change, if there are any.
    pub fn unchanged_files_warning(&self) -> Option<String> {
        let files: Vec<String> = self
            .unchanged_files
            .iter()
            .map(|path| format!("`{}`", path.display()))
            .collect();
        let reason = match self.subject? {
            NamedItemKind::Tool => "which might name the tool: search for the old name",
            NamedItemKind::Agent => {
                "which might name the agent: the script is used by other agents or ensembles, is open in the editor, or \
                 redefines variables that contain agents"
            }
            NamedItemKind::Input => {
                "which might name the input: the file is another ensemble, a script that another ensemble or a tool uses, \
                 is open in the editor, or redefines variables that contain inputs"
            }
        };
        (!files.is_empty()).then(|| format!("rename did not change {}, {reason}", files.join(", ")))
    }
}

/// The files around an ensemble that a rename reads.
pub struct RenameSurroundings<'f> {
    /// Whether other ensembles use a script too.
    pub is_shared: &'f dyn Fn(&Path) -> bool,
    /// The test files of the ensemble with their texts.
    pub tests: Vec<(PathBuf, String)>,
    /// The other ensembles that pass an input with this name to the ensemble.
    pub find_callers: &'f dyn Fn(&str) -> Vec<PathBuf>,
}

impl RenameSurroundings<'_> {
    /// No other files.
    pub const EMPTY: Self = Self {
        is_shared: &|_| false,
        tests: Vec::new(),
        find_callers: &|_| Vec::new(),
    };
}

/// Returns the name at the offset. The tool of a server cannot be renamed, because the server defines its name.
pub fn find_renameable_name(view: &EditorView<'_>, offset: usize) -> Option<NameOccurrence> {
    name_occurrences::find_occurrence_at(view, offset).filter(|one| is_inside_name(one, offset))
}

/// Returns whether the offset is in the name itself, without the tool of a server.
fn is_inside_name(one: &NameOccurrence, offset: usize) -> bool {
    one.span.start <= offset && offset <= one.span.end
}

/// Returns the edits that rename the agent, the tool or the input at the offset.
///
/// # Errors
/// The offset is at no such name, or the new name cannot be used; the message contains the reason.
pub fn rename_symbol(
    view: &EditorView<'_>,
    offset: usize,
    new: &str,
    around: RenameSurroundings<'_>,
) -> Result<RenameEdits, String> {
    let Some(occurrence) = name_occurrences::find_occurrence_at(view, offset) else {
        return Err("no name of an agent, a tool or an input is at this position".to_owned());
    };
    if !is_inside_name(&occurrence, offset) {
        return Err(format!(
            "the server defines this name; only the name before the dot, `{}`, can be changed",
            occurrence.name
        ));
    }
    if new == occurrence.name {
        return Ok(RenameEdits::default());
    }
    check_new_name(view, occurrence.subject, new)?;
    let all = name_occurrences::list_name_occurrences(view).into_iter();
    let edits: Vec<TextEdit> = all
        .filter(|one| one.has_same_subject(&occurrence))
        .map(|one| edit_occurrence(view.text, &one, new))
        .collect();
    check_findings_unchanged(view.text, &edits, occurrence.subject, new)?;
    let target = RenameTarget {
        subject: occurrence.subject,
        name: &occurrence.name,
        is_stored: is_in_context(view, &occurrence),
    };
    if target.is_stored {
        check_new_context_key(view, new)?;
    }
    let mut renamed = RenameEdits {
        edits,
        subject: Some(occurrence.subject),
        is_stored: target.is_stored,
        ..RenameEdits::default()
    };
    match occurrence.subject {
        NamedItemKind::Tool => renamed.unchanged_files = list_scripts_naming_tool(view, &occurrence.name),
        NamedItemKind::Agent => rename_in_scripts(view, &target, new, around.is_shared, &mut renamed),
        NamedItemKind::Input => {
            rename_in_scripts(view, &target, new, around.is_shared, &mut renamed);
            renamed.unchanged_files.extend((around.find_callers)(&occurrence.name));
        }
    }
    for (path, text) in around.tests {
        let edits = rename_in_test_file(&text, &target, new);
        if !edits.is_empty() {
            renamed.other_files.push((path, text, edits));
        }
    }
    Ok(renamed)
}

/// Returns whether the context has the output of the agent, or the value of the input, under its name.
fn is_in_context(view: &EditorView<'_>, occurrence: &NameOccurrence) -> bool {
    match occurrence.subject {
        NamedItemKind::Agent => view
            .find_known_agent(&occurrence.name)
            .is_some_and(|agent| *agent.state_key() == agent.name),
        NamedItemKind::Input => {
            let agents = view.ensemble.iter().flat_map(|ensemble| &ensemble.agents);
            !agents.into_iter().any(|agent| **agent.state_key() == *occurrence.name)
        }
        NamedItemKind::Tool => false,
    }
}

/// Checks that no agent and no input stores a value under the new key of the context.
fn check_new_context_key(view: &EditorView<'_>, new: &str) -> Result<(), String> {
    let is_used = |document| {
        let keys = document_tree::list_state_keys(document).into_iter();
        let mut inputs = document_tree::list_keys_of_root_map(document, "inputs").into_iter();
        keys.chain(&mut inputs).any(|key| key == new)
    };
    match view.document.as_ref().is_some_and(is_used) {
        true => Err(format!("the context already has the key `{new}`; choose another name")),
        false => Ok(()),
    }
}

/// Checks that the name is valid and that no other agent, tool or input has it.
fn check_new_name(view: &EditorView<'_>, what: NamedItemKind, new: &str) -> Result<(), String> {
    let (is_valid, rule, others) = match what {
        NamedItemKind::Agent => (
            is_name(new),
            "use letters, digits, `_`, `.` and `-`, and begin with a letter or digit",
            view.agent_names(),
        ),
        NamedItemKind::Tool => (
            is_tool_name(new),
            "use at most 64 letters, digits, `_` and `-`",
            view.list_keys_under("tools"),
        ),
        NamedItemKind::Input => (
            is_ascii_identifier(new),
            "use letters, digits and `_`, and do not start with a digit",
            view.list_keys_under("inputs"),
        ),
    };
    let of = what.with_article();
    if !is_valid {
        return Err(format!("`{new}` cannot be the name of {of}: {rule}"));
    }
    match others.iter().any(|known| known == new) {
        true => Err(format!("{of} `{new}` already exists; choose another name")),
        false => Ok(()),
    }
}

/// Returns the edits of a test file of the ensemble.
fn rename_in_test_file(text: &str, target: &RenameTarget<'_>, new: &str) -> Vec<TextEdit> {
    let occurrences = name_occurrences::list_test_occurrences(text, target);
    occurrences.iter().map(|one| edit_occurrence(text, one, new)).collect()
}

/// Returns the text of a script or a test file with the new name of the agent or input. Text without the name is unchanged.
///
/// # Errors
/// The name cannot be given, or it is not certain what the script names.
pub fn rename_in_other_file(path: &Path, text: &str, target: &RenameTarget<'_>, new: &str) -> Result<String, String> {
    let is_valid = match target.subject {
        NamedItemKind::Input => is_ascii_identifier(new),
        NamedItemKind::Agent | NamedItemKind::Tool => is_name(new),
    };
    if !is_valid {
        return Err(format!(
            "`{new}` cannot be the name of {}",
            target.subject.with_article()
        ));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if is_test_file(name) {
        return Ok(apply_edits(text, &rename_in_test_file(text, target, new)));
    }
    let occurrences = script_occurrences::list_agent_names_in_script(text, target);
    let occurrences = occurrences.ok_or("the script redefines the variables that contain the name")?;
    let edits: Vec<TextEdit> = occurrences.iter().map(|one| edit_occurrence(text, one, new)).collect();
    Ok(apply_edits(text, &edits))
}

/// Returns the edit that replaces one name, in the syntax of that name.
fn edit_occurrence(text: &str, at: &NameOccurrence, new: &str) -> TextEdit {
    let bracketed = |quote: char| format!("[{quote}{new}{quote}]");
    let (span, text) = match at.form {
        NameForm::Text => (at.span, new.to_owned()),
        NameForm::Yaml => edit_yaml_name(text, at, new),
        NameForm::Member { .. } if is_script_member_name(new) => (at.span, new.to_owned()),
        NameForm::Member { dot, quote } => {
            let question = if text[dot..].starts_with('?') { "?" } else { "" };
            (Span::new(dot, at.span.end), format!("{question}{}", bracketed(quote)))
        }
        NameForm::Variable { .. } if is_script_member_name(new) && !template::VARIABLES.contains(&new) => {
            (at.span, new.to_owned())
        }
        NameForm::Variable { quote } => (at.span, format!("dependencies{}", bracketed(quote))),
    };
    TextEdit::new(span, text)
}

/// Returns the replacement of a name in YAML, with quotes if the new name needs them.
fn edit_yaml_name(text: &str, at: &NameOccurrence, new: &str) -> (Span, String) {
    // The rest of the value, behind the name: `.TOOL`.
    let end = at.whole_span.end.max(at.span.end);
    let value = format!("{new}{}", &text[at.span.end..end]);
    let spelt = spell_string(&value, SpellingContext::Flow);
    let is_quoted = text[..at.span.start].ends_with(['"', '\'']);
    match is_quoted || spelt == value {
        true => (at.span, new.to_owned()),
        false => (Span::new(at.span.start, end), spelt),
    }
}

/// Checks that the edits do not change the findings of the text.
fn check_findings_unchanged(text: &str, edits: &[TextEdit], what: NamedItemKind, new: &str) -> Result<(), String> {
    let changed = apply_edits(text, edits);
    if collect_finding_codes(text) == collect_finding_codes(&changed) {
        return Ok(());
    }
    Err(match what {
        NamedItemKind::Agent | NamedItemKind::Input => {
            format!("the name `{new}` would change the meaning of a condition or a template; edit it by hand")
        }
        NamedItemKind::Tool => {
            format!("the name `{new}` would change the findings of the file; choose another name")
        }
    })
}

/// Returns the codes of the findings about the text alone, sorted.
fn collect_finding_codes(text: &str) -> Vec<FindingCode> {
    let loaded = load_ensemble(&SourceText::new("", text));
    let loader_codes = loaded.findings.iter().map(|finding| finding.code);
    let checked = loaded.ensemble.as_ref().map(check::check_ensemble).unwrap_or_default();
    let mut codes: Vec<FindingCode> = loader_codes.chain(checked.iter().map(|finding| finding.code)).collect();
    codes.sort_unstable();
    codes
}

/// Adds the edits of the scripts that name the renamed agent or input, and lists the scripts that are left unchanged.
fn rename_in_scripts(
    view: &EditorView<'_>,
    target: &RenameTarget<'_>,
    new: &str,
    is_shared: &dyn Fn(&Path) -> bool,
    renamed: &mut RenameEdits,
) {
    let Some(ensemble) = &view.ensemble else { return };
    let mut seen_scripts: Vec<&str> = Vec::new();
    for user in &ensemble.agents {
        let AgentKind::Script { script, .. } = &user.kind else {
            continue;
        };
        if seen_scripts.contains(&script.as_str()) {
            continue;
        }
        seen_scripts.push(script);
        let Some(script_text) = view.context.find_script(script) else {
            continue;
        };
        let path = PathBuf::from(&script_text.name);
        // The variables of a script have the agents on which its own agent depends, and all inputs.
        let reads_target = |name: &str| {
            let is_dependency = |it: &Agent| it.dependencies.iter().any(|on| *on.agent_name == *target.name);
            target.subject == NamedItemKind::Input || view.find_known_agent(name).is_some_and(is_dependency)
        };
        let mut users = ensemble
            .agents
            .iter()
            .filter(|other| matches!(&other.kind, AgentKind::Script { script: one, .. } if one == script));
        let is_tool = ensemble
            .tools
            .iter()
            .any(|(_, tool)| matches!(&tool.kind, ToolKind::Script { script: one, .. } if one == script));
        let occurrences = script_occurrences::list_agent_names_in_script(&script_text.text, target);
        let names_it = occurrences.as_ref().is_none_or(|all| !all.is_empty());
        if !names_it {
            continue;
        }
        let is_certain = users.all(|user| reads_target(&user.name)) && !is_tool && !is_shared(&path);
        match occurrences.filter(|_| is_certain) {
            Some(all) => {
                let edits = all
                    .iter()
                    .map(|one| edit_occurrence(&script_text.text, one, new))
                    .collect();
                renamed.other_files.push((path, script_text.text.clone(), edits));
            }
            None => renamed.unchanged_files.push(path),
        }
    }
}

/// Returns the Rhai scripts that simulate models and contain the name of the tool.
fn list_scripts_naming_tool(view: &EditorView<'_>, tool: &str) -> Vec<PathBuf> {
    let profiles = view.ensemble.iter().flat_map(|ensemble| &ensemble.model_profiles);
    let scripts = profiles.filter_map(|(_, profile)| match &profile.simulated {
        Some(SimulatedReplySource::Script(script)) => view.context.find_script(script),
        _ => None,
    });
    let mut naming: Vec<PathBuf> = scripts
        .filter(|known| script_occurrences::script_names_tool(&known.text, tool))
        .map(|known| PathBuf::from(&known.name))
        .collect();
    naming.dedup();
    naming
}
