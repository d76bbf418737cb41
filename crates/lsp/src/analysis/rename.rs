//! Renaming an agent everywhere.
//!
//! **Invariant:** after a rename the checks of the text find what they found before; otherwise it is refused.

use std::path::{Path, PathBuf};

use ensemble_language::cases::is_test_file;
use ensemble_language::check;
use ensemble_language::diagnostic::Code;
use ensemble_language::ensemble::{AgentKind, ToolKind};
use ensemble_language::loader::load;
use ensemble_language::source::{Source, Span};
use ensemble_language::template;

use super::names::{self, Form, Occurrence};
use super::{View, scripts, tree};

/// New text in place of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The bytes.
    pub span: Span,
    /// The new text.
    pub text: String,
}

/// What a rename changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renamed {
    /// The edits of the text.
    pub edits: Vec<Edit>,
    /// The edits of scripts and test files: each with its name as the project sees it, its text and its edits.
    pub others: Vec<(PathBuf, String, Vec<Edit>)>,
    /// The scripts that name the agent perhaps, and are not changed.
    pub uncertain: Vec<PathBuf>,
    /// Whether the agent's output is stored in the context under its name.
    pub is_stored: bool,
}

/// The agent whose name is at the offset, with the bytes of the name.
pub fn prepare(view: &View<'_>, offset: usize) -> Option<Occurrence> {
    names::at(view, offset)
}

/// The edits that give another name to the agent at the offset. `is_shared` tells whether other ensembles use a script too;
/// `tests` are the test files of the ensemble, with their texts.
///
/// # Errors
/// There is no agent, or the name cannot be given; the message says why.
pub fn rename(
    view: &View<'_>,
    offset: usize,
    new: &str,
    is_shared: &dyn Fn(&Path) -> bool,
    tests: Vec<(PathBuf, String)>,
) -> Result<Renamed, String> {
    let Some(agent) = names::at(view, offset).map(|found| found.agent) else {
        return Err("there is no name of an agent here".to_owned());
    };
    if !is_name(new) {
        return Err(format!(
            "`{new}` cannot be the name of an agent: use letters, digits, `_`, `.` and `-`, and begin with a letter or digit"
        ));
    }
    if new == agent {
        return Ok(Renamed::default());
    }
    if view.agent_names().iter().any(|known| known == new) {
        return Err(format!("there is an agent `{new}` already"));
    }
    let occurrences = names::occurrences(view).into_iter().filter(|one| one.agent == agent);
    let edits: Vec<Edit> = occurrences.map(|one| edit(view.text, &one, new)).collect();
    keeps_its_meaning(view.text, &edits, new)?;
    let mut renamed = Renamed {
        edits,
        ..Renamed::default()
    };
    in_scripts(view, &agent, new, is_shared, &mut renamed);
    for (path, text) in tests {
        let edits = in_test(&text, &agent, new, renamed.is_stored);
        if !edits.is_empty() {
            renamed.others.push((path, text, edits));
        }
    }
    Ok(renamed)
}

/// The edits of a test file of the ensemble.
fn in_test(text: &str, agent: &str, new: &str, is_stored: bool) -> Vec<Edit> {
    let occurrences = names::in_test(text, agent, is_stored);
    occurrences.iter().map(|one| edit(text, one, new)).collect()
}

/// The text of a script or a test file in which the agent has another name; as it is, if it does not name the agent.
///
/// # Errors
/// The name cannot be given, or it is not certain what the script names.
pub fn in_other(path: &Path, text: &str, agent: &str, new: &str, is_stored: bool) -> Result<String, String> {
    if !is_name(new) {
        return Err(format!("`{new}` cannot be the name of an agent"));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if is_test_file(name) {
        return Ok(applied(text, &in_test(text, agent, new, is_stored)));
    }
    let occurrences = scripts::occurrences(text, agent, is_stored);
    let occurrences =
        occurrences.ok_or("the script has variables of its own with the names of those that hold agents")?;
    let edits: Vec<Edit> = occurrences.iter().map(|one| edit(text, one, new)).collect();
    Ok(applied(text, &edits))
}

/// Whether the text can be the name of an agent.
fn is_name(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || "_.-".contains(c))
}

/// Whether the name can be written after a dot, and as a variable.
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The edit of one place.
fn edit(text: &str, at: &Occurrence, new: &str) -> Edit {
    let bracketed = |quote: char| format!("[{quote}{new}{quote}]");
    let (span, text) = match at.form {
        Form::Text => (at.span, new.to_owned()),
        Form::Yaml => (at.span, in_yaml(text, at.span, new)),
        Form::Member { .. } if is_identifier(new) => (at.span, new.to_owned()),
        Form::Member { dot, quote } => {
            let question = if text[dot..].starts_with('?') { "?" } else { "" };
            (Span::new(dot, at.span.end), format!("{question}{}", bracketed(quote)))
        }
        Form::Variable { .. } if is_identifier(new) && !template::VARIABLES.contains(&new) => (at.span, new.to_owned()),
        Form::Variable { quote } => (at.span, format!("dependencies{}", bracketed(quote))),
    };
    Edit { span, text }
}

/// The name as a value or key, with quotes if it would not be a string without them.
fn in_yaml(text: &str, span: Span, new: &str) -> String {
    let is_quoted = text[..span.start].ends_with(['"', '\'']);
    let document = tree::outline(new, None);
    let is_string = document.is_some_and(|document| document.root().text().is_some_and(|read| **read == *new));
    match is_quoted || is_string {
        true => new.to_owned(),
        false => format!("\"{new}\""),
    }
}

/// The text after the edits, which do not overlap and are in order.
pub fn applied(text: &str, edits: &[Edit]) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        changed.push_str(text.get(at..edit.span.start).unwrap_or_default());
        changed.push_str(&edit.text);
        at = edit.span.end;
    }
    changed.push_str(text.get(at..).unwrap_or_default());
    changed
}

/// Refuses edits after which the checks find something else.
fn keeps_its_meaning(text: &str, edits: &[Edit], new: &str) -> Result<(), String> {
    let changed = applied(text, edits);
    match found(text) == found(&changed) {
        true => Ok(()),
        false => Err(format!(
            "the agent cannot be called `{new}` without changing the meaning of a condition or a template by hand"
        )),
    }
}

/// The codes that are found in the text alone.
fn found(text: &str) -> Vec<Code> {
    let loaded = load(&Source::new("", text));
    let own = loaded.findings.iter().map(|finding| finding.code);
    let checked = loaded.ensemble.as_ref().map(check::check).unwrap_or_default();
    let mut codes: Vec<Code> = own.chain(checked.iter().map(|finding| finding.code)).collect();
    codes.sort_unstable();
    codes
}

/// The edits of the scripts of agents that depend on the agent.
fn in_scripts(view: &View<'_>, agent: &str, new: &str, is_shared: &dyn Fn(&Path) -> bool, renamed: &mut Renamed) {
    let Some(ensemble) = &view.ensemble else { return };
    let is_stored = view.agent(agent).is_some_and(|agent| *agent.state_key() == agent.name);
    renamed.is_stored = is_stored;
    let mut seen: Vec<&str> = Vec::new();
    for user in &ensemble.agents {
        let AgentKind::Script { script, .. } = &user.kind else {
            continue;
        };
        if seen.contains(&script.as_str()) {
            continue;
        }
        seen.push(script);
        let Some(known) = view.around.script(script) else {
            continue;
        };
        let path = PathBuf::from(&known.name);
        let listens = |name: &str| {
            view.agent(name)
                .is_some_and(|it| it.dependencies.iter().any(|on| *on.agent_name == *agent))
        };
        let mut users = ensemble
            .agents
            .iter()
            .filter(|other| matches!(&other.kind, AgentKind::Script { script: one, .. } if one == script));
        let is_tool = ensemble
            .tools
            .iter()
            .any(|(_, tool)| matches!(&tool.kind, ToolKind::Script { script: one, .. } if one == script));
        let occurrences = scripts::occurrences(&known.text, agent, is_stored);
        let names_it = occurrences.as_ref().is_none_or(|all| !all.is_empty());
        if !names_it {
            continue;
        }
        let is_certain = users.all(|user| listens(&user.name)) && !is_tool && !is_shared(&path);
        match occurrences.filter(|_| is_certain) {
            Some(all) => {
                let edits = all.iter().map(|one| edit(&known.text, one, new)).collect();
                renamed.others.push((path, known.text.clone(), edits));
            }
            None => renamed.uncertain.push(path),
        }
    }
}
