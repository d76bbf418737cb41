//! Where Rhai scripts name agents, inputs and tools.

use super::lexer::{self, CodeWord, CodeWordKind};
use super::name_occurrences::{NameForm, NameOccurrence, NamedItemKind, RenameTarget};

/// Returns the variables of a script whose keys are names of agents or of inputs.
fn name_map_variables(target: &RenameTarget<'_>) -> Vec<&'static str> {
    let own = match target.subject {
        NamedItemKind::Agent => "dependencies",
        NamedItemKind::Input => "inputs",
        NamedItemKind::Tool => return Vec::new(),
    };
    let context = target.is_stored.then_some("context");
    [own].into_iter().chain(context).collect()
}

/// Returns the names of an agent or an input in a script. Returns `None` if the script defines variables that hide those with the names.
pub(super) fn list_agent_names_in_script(text: &str, target: &RenameTarget<'_>) -> Option<Vec<NameOccurrence>> {
    let words = lexer::lex_rhai_words(text);
    let variables = name_map_variables(target);
    if defines_any_name(&words, &variables) {
        return None;
    }
    let reads = lexer::list_variable_reads(&words).into_iter();
    let variable_reads = reads.filter(|read| variables.contains(&read.base.text));
    let keys = variable_reads
        .filter_map(|read| read.key)
        .filter(|key| key.word.text == target.name);
    Some(
        keys.map(|key| NameOccurrence {
            subject: target.subject,
            name: target.name.to_owned(),
            span: key.word.span,
            whole_span: key.word.span,
            form: key
                .dot
                .map_or(NameForm::Text, |dot| NameForm::Member { dot, quote: '"' }),
            is_definition: false,
        })
        .collect(),
    )
}

/// Returns whether a script that simulates a model contains the name of a tool, as `tool` or `server__tool`.
pub(super) fn script_names_tool(text: &str, tool: &str) -> bool {
    let is_named = |word: &CodeWord<'_>| {
        let suffix = word.text.strip_prefix(tool);
        word.kind == CodeWordKind::Text && suffix.is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
    };
    lexer::lex_rhai_words(text).iter().any(is_named)
}

/// Returns whether the script defines a variable or parameter with one of these names.
fn defines_any_name(words: &[CodeWord<'_>], names: &[&str]) -> bool {
    let is_name = |word: &CodeWord<'_>| word.kind == CodeWordKind::Name && names.contains(&word.text);
    let mut parameters = false;
    for (at, word) in words.iter().enumerate() {
        match (word.kind, word.text) {
            (CodeWordKind::Name, "fn") => parameters = true,
            (CodeWordKind::Symbol, "{") => parameters = false,
            // The parameters of a closure may have any name.
            (CodeWordKind::Symbol, "|") if words.get(at + 1).is_some_and(is_name) => return true,
            (CodeWordKind::Name, "let" | "const" | "for") if words.get(at + 1).is_some_and(is_name) => return true,
            _ if parameters && is_name(word) => return true,
            _ if is_name(word) && words.get(at + 1).is_some_and(|next| next.text == "=") => return true,
            _ => {}
        }
    }
    false
}
