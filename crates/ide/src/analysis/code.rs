//! What conditions and templates read at a place: the path before it, and what is known of its value.

use ensemble_language::condition::{HISTORY_FIELDS, Type};
use ensemble_language::source::{Route, Step};

use super::lexis::{self, Kind, Word};
use super::tree::{self, Code};
use super::{View, words};

/// The words of a text in this language.
pub(super) fn words(text: &str, code: Code) -> Vec<Word<'_>> {
    match code {
        Code::Condition => lexis::of_condition(text),
        Code::Template => lexis::of_template(text),
    }
}

/// The path that ends before word `end`: `outputs.writer.text` as three names; `*` stands for an item or the result of a
/// call.
pub(super) fn path(words: &[Word<'_>], end: usize) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = end;
    while let Some(last) = at.checked_sub(1).and_then(|at| words.get(at)) {
        let mut is_call = false;
        match (last.kind, last.text) {
            (Kind::Name, name) => {
                path.push(name.to_owned());
                at -= 1;
            }
            (Kind::Text, key) => {
                // A string is a key only in brackets.
                if at >= 2 && matches!(words[at - 2].text, "[" | "?[") {
                    path.push(key.to_owned());
                    at -= 2;
                    continue;
                }
                break;
            }
            (Kind::Symbol, "]" | ")") => {
                let Some(open) = opening(words, at - 1) else { break };
                is_call = last.text == ")";
                let literal = match words.get(open + 1..at - 1) {
                    Some([key]) if key.kind == Kind::Text && !is_call => Some(key.text),
                    _ => None,
                };
                path.push(literal.unwrap_or("*").to_owned());
                at = open;
            }
            _ => break,
        }
        // The name of a function belongs to its call.
        if is_call {
            let is_named = at.checked_sub(1).is_some_and(|before| words[before].kind == Kind::Name);
            at -= usize::from(is_named);
        }
        let follows = at.checked_sub(1).map(|before| words[before]);
        match follows {
            Some(dot) if dot.kind == Kind::Symbol && matches!(dot.text, "." | "?.") => at -= 1,
            // What stands before a bracket or a call belongs to it.
            Some(_) if matches!(last.text, "]") => {}
            _ => break,
        }
    }
    path.reverse();
    path
}

/// The bracket that the bracket at `close` closes.
fn opening(words: &[Word<'_>], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..=close).rev() {
        match (words[at].kind, words[at].text) {
            (Kind::Symbol, "]" | ")") => depth += 1,
            (Kind::Symbol, "[" | "?[" | "(") => {
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

/// A name that can follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) detail: String,
    pub(super) is_agent: bool,
}

/// A condition or template in its ensemble.
pub(super) struct Reading<'r> {
    pub(super) view: &'r View<'r>,
    pub(super) route: &'r Route,
    pub(super) code: Code,
}

impl Reading<'_> {
    /// The names that can follow a path and a dot.
    pub(super) fn members(&self, path: &[&str]) -> Vec<Member> {
        match (path, self.code) {
            (["outputs" | "executions" | "agent_execution_count"], Code::Condition) => agents(self.view.agent_names()),
            (["dependencies"], Code::Template) => agents(self.dependencies()),
            (["inputs"], _) => plain(self.view.keys_under("inputs"), "an input"),
            (["context"], _) => {
                let mut found = agents(self.view.agent_names());
                for agent in self.view.agent_names() {
                    found.extend(fields(&self.view.output_of(&agent)));
                }
                found.extend(plain(self.view.keys_under("inputs"), "an input"));
                let mut seen = Vec::new();
                found.retain(|one| {
                    !seen.contains(&one.name) && {
                        seen.push(one.name.clone());
                        true
                    }
                });
                found
            }
            (["history", "*"], _) => plain(HISTORY_FIELDS.iter().map(|name| (*name).to_owned()), "of an execution"),
            (["request"], Code::Template) => plain(words::OF_REQUEST.map(str::to_owned), "of the request"),
            _ => self.type_of(path).map(|known| fields(&known)).unwrap_or_default(),
        }
    }

    /// Returns the type of the value at a path, as far as it is known.
    pub(super) fn type_of(&self, path: &[&str]) -> Option<Type> {
        let (agent, rest) = match (path, self.code) {
            (["outputs", agent, rest @ ..], Code::Condition) | (["dependencies", agent, rest @ ..], Code::Template) => {
                ((*agent).to_owned(), rest)
            }
            (["output", rest @ ..], Code::Condition) => (self.depended_on()?, rest),
            (["context", agent, rest @ ..], _) => ((*agent).to_owned(), rest),
            ([agent, rest @ ..], Code::Template) => ((*agent).to_owned(), rest),
            _ => return None,
        };
        self.view.agent(&agent)?;
        let known = rest
            .iter()
            .fold(self.view.output_of(&agent), |known, key| known.key(key));
        (!known.is_any()).then_some(known)
    }

    /// The agents on which the agent of the place depends.
    pub(super) fn dependencies(&self) -> Vec<String> {
        self.view.dependencies(tree::agent_of(self.route))
    }

    /// The agent of the dependency to which the condition belongs.
    fn depended_on(&self) -> Option<String> {
        let (last, dependency) = self.route.0.split_last()?;
        let is_condition = matches!(last, Step::Key(key) if &**key == "condition");
        let document = self.view.document.as_ref().filter(|_| is_condition)?;
        let node = document.get(&Route(dependency.to_vec()))?;
        Some(node.get("agent_name")?.text()?.to_string())
    }
}

fn agents(names: Vec<String>) -> Vec<Member> {
    let agent = |name| Member {
        name,
        detail: "an agent".to_owned(),
        is_agent: true,
    };
    names.into_iter().map(agent).collect()
}

fn plain(names: impl IntoIterator<Item = String>, detail: &str) -> Vec<Member> {
    let one = |name| Member {
        name,
        detail: detail.to_owned(),
        is_agent: false,
    };
    names.into_iter().map(one).collect()
}

fn fields(known: &Type) -> Vec<Member> {
    let fields = known.fields().into_iter().flat_map(|fields| &fields.known);
    let member = |(name, (value, _)): (&String, &(Type, bool))| Member {
        name: name.clone(),
        detail: value.to_string(),
        is_agent: false,
    };
    fields.map(member).collect()
}
