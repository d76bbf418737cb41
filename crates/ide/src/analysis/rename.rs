//! Renaming an agent or a tool everywhere.
//!
//! **Invariant:** after a rename the checks of the text find what they found before; otherwise it is refused.

use std::path::{Path, PathBuf};

use ensemble_language::cases::is_test_file;
use ensemble_language::check;
use ensemble_language::diagnostic::Code;
use ensemble_language::ensemble::{AgentKind, Simulated, ToolKind};
use ensemble_language::loader::load;
use ensemble_language::names::{is_name, is_plain_word, is_tool_name};
use ensemble_language::source::{Source, Span};
use ensemble_language::template;
use ensemble_language::yaml::edit::{Edit, Style, apply_edits, spell_text};

use super::names::{self, Form, Named, Occurrence, Target};
use super::{View, scripts};

/// The edits of a rename.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renamed {
    /// The edits of the text.
    pub edits: Vec<Edit>,
    /// The edits of scripts and test files: each with its name as the project sees it, its text and its edits.
    pub others: Vec<(PathBuf, String, Vec<Edit>)>,
    /// What has the new name; `None`: nothing, because it has it already.
    pub what: Option<Named>,
    /// The scripts that perhaps name the agent or the tool, and are not changed.
    pub uncertain: Vec<PathBuf>,
    /// Whether the agent's output is stored in the context under its name.
    pub is_stored: bool,
}

/// The name at the offset; not that of a server's tool, which the server gives.
pub fn prepare(view: &View<'_>, offset: usize) -> Option<Occurrence> {
    names::at(view, offset).filter(|one| is_on_name(one, offset))
}

fn is_on_name(one: &Occurrence, offset: usize) -> bool {
    one.span.start <= offset && offset <= one.span.end
}

/// The edits that give another name to the agent or the tool at the offset. `is_shared` tells whether other ensembles use a
/// script too; `tests` are the test files of the ensemble, with their texts.
///
/// # Errors
/// There is no agent and no tool, or the name cannot be given; the message says why.
pub fn rename(
    view: &View<'_>,
    offset: usize,
    new: &str,
    is_shared: &dyn Fn(&Path) -> bool,
    tests: Vec<(PathBuf, String)>,
) -> Result<Renamed, String> {
    let Some(found) = names::at(view, offset) else {
        return Err("there is no name of an agent or a tool here".to_owned());
    };
    if !is_on_name(&found, offset) {
        return Err(format!(
            "this is the name that the server gives to its tool; only its own name here, `{}`, can be another",
            found.name
        ));
    }
    if new == found.name {
        return Ok(Renamed::default());
    }
    can_be_named(view, found.what, new)?;
    let all = names::occurrences(view).into_iter();
    let edits: Vec<Edit> = all
        .filter(|one| one.names_the_same(&found))
        .map(|one| edit(view.text, &one, new))
        .collect();
    keeps_its_meaning(view.text, &edits, found.what, new)?;
    let mut renamed = Renamed {
        edits,
        what: Some(found.what),
        ..Renamed::default()
    };
    match found.what {
        Named::Agent => in_scripts(view, &found.name, new, is_shared, &mut renamed),
        Named::Tool => renamed.uncertain = scripts_of_models(view, &found.name),
    }
    let target = Target {
        what: found.what,
        name: &found.name,
        is_stored: renamed.is_stored,
    };
    for (path, text) in tests {
        let edits = in_test(&text, &target, new);
        if !edits.is_empty() {
            renamed.others.push((path, text, edits));
        }
    }
    Ok(renamed)
}

/// Refuses a name that is not valid, or that another agent or tool has.
fn can_be_named(view: &View<'_>, what: Named, new: &str) -> Result<(), String> {
    let (is_valid, rule, others) = match what {
        Named::Agent => (
            is_name(new),
            "use letters, digits, `_`, `.` and `-`, and begin with a letter or digit",
            view.agent_names(),
        ),
        Named::Tool => (
            is_tool_name(new),
            "use letters, digits, `_` and `-`, at most 64",
            view.keys_under("tools"),
        ),
    };
    let of = what.word();
    if !is_valid {
        return Err(format!("`{new}` cannot be the name of {of}: {rule}"));
    }
    match others.iter().any(|known| known == new) {
        true => Err(format!("there is {of} `{new}` already")),
        false => Ok(()),
    }
}

/// The edits of a test file of the ensemble.
fn in_test(text: &str, target: &Target<'_>, new: &str) -> Vec<Edit> {
    let occurrences = names::in_test(text, target);
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
        let target = Target {
            what: Named::Agent,
            name: agent,
            is_stored,
        };
        return Ok(apply_edits(text, &in_test(text, &target, new)));
    }
    let occurrences = scripts::occurrences(text, agent, is_stored);
    let occurrences =
        occurrences.ok_or("the script has variables of its own with the names of those that hold agents")?;
    let edits: Vec<Edit> = occurrences.iter().map(|one| edit(text, one, new)).collect();
    Ok(apply_edits(text, &edits))
}

/// The edit of one place.
fn edit(text: &str, at: &Occurrence, new: &str) -> Edit {
    let bracketed = |quote: char| format!("[{quote}{new}{quote}]");
    let (span, text) = match at.form {
        Form::Text => (at.span, new.to_owned()),
        Form::Yaml => in_yaml(text, at, new),
        Form::Member { .. } if is_plain_word(new) => (at.span, new.to_owned()),
        Form::Member { dot, quote } => {
            let question = if text[dot..].starts_with('?') { "?" } else { "" };
            (Span::new(dot, at.span.end), format!("{question}{}", bracketed(quote)))
        }
        Form::Variable { .. } if is_plain_word(new) && !template::VARIABLES.contains(&new) => (at.span, new.to_owned()),
        Form::Variable { quote } => (at.span, format!("dependencies{}", bracketed(quote))),
    };
    Edit::new(span, text)
}

/// The name as a value or key or at the beginning of one, with quotes if it would not be a string without them.
fn in_yaml(text: &str, at: &Occurrence, new: &str) -> (Span, String) {
    // The rest of the value, behind the name: `.TOOL`.
    let end = at.whole.end.max(at.span.end);
    let value = format!("{new}{}", &text[at.span.end..end]);
    let spelt = spell_text(&value, Style::Flow);
    let is_quoted = text[..at.span.start].ends_with(['"', '\'']);
    match is_quoted || spelt == value {
        true => (at.span, new.to_owned()),
        false => (Span::new(at.span.start, end), spelt),
    }
}

/// Refuses edits after which the checks find something else.
fn keeps_its_meaning(text: &str, edits: &[Edit], what: Named, new: &str) -> Result<(), String> {
    let changed = apply_edits(text, edits);
    if found(text) == found(&changed) {
        return Ok(());
    }
    Err(match what {
        Named::Agent => {
            format!(
                "the agent cannot be called `{new}` without changing the meaning of a condition or a template by hand"
            )
        }
        Named::Tool => format!("the tool cannot be called `{new}`: the checks of the file would find something else"),
    })
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

/// The Rhai scripts that give replies in the place of models, and call the tool.
fn scripts_of_models(view: &View<'_>, tool: &str) -> Vec<PathBuf> {
    let profiles = view.ensemble.iter().flat_map(|ensemble| &ensemble.model_profiles);
    let scripts = profiles.filter_map(|(_, profile)| match &profile.simulated {
        Some(Simulated::Script(script)) => view.around.script(script),
        _ => None,
    });
    let mut naming: Vec<PathBuf> = scripts
        .filter(|known| scripts::names_tool(&known.text, tool))
        .map(|known| PathBuf::from(&known.name))
        .collect();
    naming.dedup();
    naming
}
