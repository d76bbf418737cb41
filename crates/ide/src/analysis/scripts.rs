//! Where Rhai scripts name agents and tools.

use super::lexis::{self, Kind, Word};
use super::names::{Form, Named, Occurrence};

/// The variables of a script whose keys are names of agents, if `is_stored`, also the context.
fn variables(is_stored: bool) -> &'static [&'static str] {
    if is_stored {
        &["dependencies", "context"]
    } else {
        &["dependencies"]
    }
}

/// The places at which a script names an agent; `None` if that is not certain, because it has variables of its own with the
/// names of those that hold agents.
pub(super) fn occurrences(text: &str, agent: &str, is_stored: bool) -> Option<Vec<Occurrence>> {
    let words = lexis::of_rhai(text);
    let variables = variables(is_stored);
    if defines(&words, variables) {
        return None;
    }
    let reads = lexis::reads(&words).into_iter();
    let named = reads.filter(|read| variables.contains(&read.base.text));
    let named = named.filter_map(|read| read.key).filter(|key| key.word.text == agent);
    Some(
        named
            .map(|key| Occurrence {
                what: Named::Agent,
                name: agent.to_owned(),
                span: key.word.span,
                whole: key.word.span,
                form: key.dot.map_or(Form::Text, |dot| Form::Member { dot, quote: '"' }),
                is_definition: false,
            })
            .collect(),
    )
}

/// Returns whether a script that gives the replies of a model names a tool, as the model sees it: `tool`, or
/// `server__tool`.
pub(super) fn names_tool(text: &str, tool: &str) -> bool {
    let is_named = |word: &Word<'_>| {
        let rest = word.text.strip_prefix(tool);
        word.kind == Kind::Text && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
    };
    lexis::of_rhai(text).iter().any(is_named)
}

/// Returns whether the script defines one of these names itself.
fn defines(words: &[Word<'_>], names: &[&str]) -> bool {
    let is_name = |word: &Word<'_>| word.kind == Kind::Name && names.contains(&word.text);
    let mut parameters = false;
    for (at, word) in words.iter().enumerate() {
        match (word.kind, word.text) {
            (Kind::Name, "fn") => parameters = true,
            (Kind::Symbol, "{") => parameters = false,
            // The parameters of a closure may have any name.
            (Kind::Symbol, "|") if words.get(at + 1).is_some_and(is_name) => return true,
            (Kind::Name, "let" | "const" | "for") if words.get(at + 1).is_some_and(is_name) => return true,
            _ if parameters && is_name(word) => return true,
            _ if is_name(word) && words.get(at + 1).is_some_and(|next| next.text == "=") => return true,
            _ => {}
        }
    }
    false
}
