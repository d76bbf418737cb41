//! What conditions and templates read at a place: the path before it, and what is known of its value.

use ensemble_language::condition::{HISTORY_FIELDS, ValueType};
use ensemble_language::source::{Route, RouteStep};

use super::document_tree::{self, CodeLanguage};
use super::lexer::{self, CodeWord, CodeWordKind};
use super::{EditorView, vocabulary_words};

/// Returns the words of a text in this language.
pub(super) fn lex_code(text: &str, code: CodeLanguage) -> Vec<CodeWord<'_>> {
    match code {
        CodeLanguage::Condition => lexer::lex_condition_words(text),
        CodeLanguage::Template => lexer::lex_template_words(text),
    }
}

/// Returns the path that ends before the word with index `end`, such as `outputs`, `writer`, `text`. `*` is an item or the result of a call.
pub(super) fn path_before_word(words: &[CodeWord<'_>], end: usize) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = end;
    while let Some(last) = at.checked_sub(1).and_then(|at| words.get(at)) {
        let mut is_call = false;
        match (last.kind, last.text) {
            (CodeWordKind::Name, name) => {
                path.push(name.to_owned());
                at -= 1;
            }
            (CodeWordKind::Text, key) => {
                // A string is a key only in brackets.
                if at >= 2 && matches!(words[at - 2].text, "[" | "?[") {
                    path.push(key.to_owned());
                    at -= 2;
                    continue;
                }
                break;
            }
            (CodeWordKind::Symbol, "]" | ")") => {
                let Some(open) = find_opening_bracket(words, at - 1) else {
                    break;
                };
                is_call = last.text == ")";
                let literal = match words.get(open + 1..at - 1) {
                    Some([key]) if key.kind == CodeWordKind::Text && !is_call => Some(key.text),
                    _ => None,
                };
                path.push(literal.unwrap_or("*").to_owned());
                at = open;
            }
            _ => break,
        }
        // The name of a function belongs to its call.
        if is_call {
            let is_named = at
                .checked_sub(1)
                .is_some_and(|before| words[before].kind == CodeWordKind::Name);
            at -= usize::from(is_named);
        }
        let follows = at.checked_sub(1).map(|before| words[before]);
        match follows {
            Some(dot) if dot.kind == CodeWordKind::Symbol && matches!(dot.text, "." | "?.") => at -= 1,
            // What stands before a bracket or a call belongs to it.
            Some(_) if matches!(last.text, "]") => {}
            _ => break,
        }
    }
    path.reverse();
    path
}

/// Returns the index of the bracket that the bracket at `close` closes.
fn find_opening_bracket(words: &[CodeWord<'_>], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..=close).rev() {
        match (words[at].kind, words[at].text) {
            (CodeWordKind::Symbol, "]" | ")") => depth += 1,
            (CodeWordKind::Symbol, "[" | "?[" | "(") => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// A name that can follow a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberCandidate {
    pub(super) name: String,
    pub(super) detail: String,
    pub(super) is_agent: bool,
}

/// A condition or a template at a route of an ensemble.
pub(super) struct CodeAtRoute<'r> {
    pub(super) view: &'r EditorView<'r>,
    pub(super) route: &'r Route,
    pub(super) code: CodeLanguage,
}

impl CodeAtRoute<'_> {
    /// Returns the names that can follow the path and a dot.
    pub(super) fn list_member_candidates(&self, path: &[&str]) -> Vec<MemberCandidate> {
        match (path, self.code) {
            (["outputs" | "executions" | "agent_execution_count"], CodeLanguage::Condition) => {
                agent_member_candidates(self.view.agent_names())
            }
            (["dependencies"], CodeLanguage::Template) => agent_member_candidates(self.list_agent_dependencies()),
            (["inputs"], _) => members_with_detail(self.view.list_keys_under("inputs"), "an input"),
            (["context"], _) => {
                let mut members = agent_member_candidates(self.view.agent_names());
                for agent in self.view.agent_names() {
                    members.extend(field_member_candidates(&self.view.agent_output_type(&agent)));
                }
                members.extend(members_with_detail(self.view.list_keys_under("inputs"), "an input"));
                let mut seen_names = Vec::new();
                members.retain(|one| {
                    !seen_names.contains(&one.name) && {
                        seen_names.push(one.name.clone());
                        true
                    }
                });
                members
            }
            (["history", "*"], _) => members_with_detail(
                HISTORY_FIELDS.iter().map(|name| (*name).to_owned()),
                "a field of an execution",
            ),
            (["request"], CodeLanguage::Template) => members_with_detail(
                vocabulary_words::REQUEST_KEYS.map(str::to_owned),
                "a field of the request",
            ),
            _ => self
                .type_at_path(path)
                .map(|known| field_member_candidates(&known))
                .unwrap_or_default(),
        }
    }

    /// Returns the type of the value at the path, as far as the type is known.
    pub(super) fn type_at_path(&self, path: &[&str]) -> Option<ValueType> {
        let (agent, rest) = match (path, self.code) {
            (["outputs", agent, rest @ ..], CodeLanguage::Condition)
            | (["dependencies", agent, rest @ ..], CodeLanguage::Template) => ((*agent).to_owned(), rest),
            (["output", rest @ ..], CodeLanguage::Condition) => (self.condition_agent_name()?, rest),
            (["context", agent, rest @ ..], _) => ((*agent).to_owned(), rest),
            ([agent, rest @ ..], CodeLanguage::Template) => ((*agent).to_owned(), rest),
            _ => return None,
        };
        self.view.find_known_agent(&agent)?;
        let value_type = rest
            .iter()
            .fold(self.view.agent_output_type(&agent), |known, key| known.key_type(key));
        (!value_type.is_any()).then_some(value_type)
    }

    /// Returns the agents on which the agent at the route depends.
    pub(super) fn list_agent_dependencies(&self) -> Vec<String> {
        self.view
            .agent_dependency_names(document_tree::containing_agent_index(self.route))
    }

    /// Returns the agent of the dependency to which the condition at the route belongs.
    fn condition_agent_name(&self) -> Option<String> {
        let (last, dependency) = self.route.0.split_last()?;
        let is_condition = matches!(last, RouteStep::Key(key) if &**key == "condition");
        let document = self.view.document.as_ref().filter(|_| is_condition)?;
        let node = document.find_node(&Route(dependency.to_vec()))?;
        Some(node.get("agent_name")?.string_text()?.to_string())
    }
}

/// Converts names of agents to candidates.
fn agent_member_candidates(names: Vec<String>) -> Vec<MemberCandidate> {
    let agent = |name| MemberCandidate {
        name,
        detail: "an agent".to_owned(),
        is_agent: true,
    };
    names.into_iter().map(agent).collect()
}

/// Converts names to candidates with the same detail.
fn members_with_detail(names: impl IntoIterator<Item = String>, detail: &str) -> Vec<MemberCandidate> {
    let new_candidate = |name| MemberCandidate {
        name,
        detail: detail.to_owned(),
        is_agent: false,
    };
    names.into_iter().map(new_candidate).collect()
}

/// Returns the known keys of the type as candidates.
fn field_member_candidates(known: &ValueType) -> Vec<MemberCandidate> {
    let fields = known.map_fields().into_iter().flat_map(|fields| &fields.known_keys);
    let member = |(name, (value, _)): (&String, &(ValueType, bool))| MemberCandidate {
        name: name.clone(),
        detail: value.to_string(),
        is_agent: false,
    };
    fields.map(member).collect()
}
