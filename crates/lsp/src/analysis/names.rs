//! Where the agents of an ensemble are named.

use ensemble_language::loader::Document;
use ensemble_language::loader::document::{Content, Node};
use ensemble_language::source::{Route, Span};
use ensemble_language::template;

use super::lexis::{self, Kind, Read, Word};
use super::tree::{self, Code};
use super::{View, tested};

/// A place at which an agent is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The agent.
    pub agent: String,
    /// The bytes of its name.
    pub span: Span,
    /// How it is written.
    pub form: Form,
    /// Whether the agent is defined here.
    pub is_definition: bool,
}

/// How a name is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As a value or a key of YAML.
    Yaml,
    /// As a string of a condition, a template or a script.
    Text,
    /// As a member, such as `outputs.writer`; the dot begins there.
    Member {
        /// The byte at which the dot begins.
        dot: usize,
        /// The quotes that can be written there.
        quote: char,
    },
    /// As a variable of a template.
    Variable {
        /// The quotes that can be written there.
        quote: char,
    },
}

/// All places in the text, in its order.
pub fn occurrences(view: &View<'_>) -> Vec<Occurrence> {
    let Some(document) = &view.document else {
        return Vec::new();
    };
    let finder = Finder {
        document,
        agents: tree::agents(document).iter().map(|agent| agent.name).collect(),
        stored: tree::agents(document)
            .iter()
            .filter(|agent| {
                agent
                    .node
                    .get("conversation")
                    .and_then(|it| it.get("state_key"))
                    .is_none()
            })
            .map(|agent| agent.name)
            .collect(),
        found: Vec::new(),
    };
    finder.all()
}

/// All places in a test file at which this agent of the tested ensemble is named. `is_stored`: the agent's output is in the
/// context under its name.
pub fn in_test(text: &str, agent: &str, is_stored: bool) -> Vec<Occurrence> {
    let Some(document) = tree::outline(text, None) else {
        return Vec::new();
    };
    let finder = Finder {
        document: &document,
        agents: vec![agent],
        stored: if is_stored { vec![agent] } else { Vec::new() },
        found: Vec::new(),
    };
    finder.all()
}

/// The place at an offset.
pub fn at(view: &View<'_>, offset: usize) -> Option<Occurrence> {
    let mut all = occurrences(view).into_iter();
    all.find(|one| one.span.start <= offset && offset <= one.span.end)
}

/// The place at which an agent is defined.
pub fn definition(view: &View<'_>, agent: &str) -> Option<Span> {
    let mut all = occurrences(view).into_iter();
    all.find(|one| one.is_definition && one.agent == agent)
        .map(|one| one.span)
}

struct Finder<'d> {
    document: &'d Document,
    agents: Vec<&'d str>,
    /// The agents whose outputs are stored in the context under their names.
    stored: Vec<&'d str>,
    found: Vec<Occurrence>,
}

impl<'d> Finder<'d> {
    fn all(mut self) -> Vec<Occurrence> {
        self.walk(self.document.root(), &Route::root(), &[]);
        let mut found = self.found;
        found.sort_by_key(|one| (one.span.start, one.span.end));
        // A value with an alias stands at one place.
        found.dedup();
        found
    }

    fn walk(&mut self, node: &'d Node, route: &Route, dependencies: &[&'d str]) {
        match &node.content {
            Content::Sequence(items) => {
                for (at, item) in items.iter().enumerate() {
                    let own = (*route == Route::root().key("agents")).then(|| tree::dependencies(item));
                    self.walk(item, &route.index(at), own.as_deref().unwrap_or(dependencies));
                }
            }
            Content::Mapping(entries) => {
                let everyone = self.agents.clone();
                let are_agents = tree::keys_name_agents(route);
                for entry in entries {
                    let route = route.key(entry.key.clone());
                    if are_agents {
                        self.note(&entry.key, entry.key_span, Form::Yaml, false);
                    }
                    let is_default = *route.to_string() == *"defaults";
                    let known = if is_default { &everyone } else { dependencies };
                    self.walk(&entry.value, &route, known);
                }
            }
            Content::Scalar(scalar) => self.scalar(&scalar.text, node, route, dependencies),
        }
    }

    fn scalar(&mut self, text: &str, node: &Node, route: &Route, dependencies: &[&str]) {
        let words = match tree::code_at(route) {
            Some(Code::Condition) => lexis::of_condition(text),
            Some(Code::Template) => lexis::of_template(text),
            None => {
                let pattern = tree::pattern(route);
                let is_tool = pattern.starts_with("tools.") && pattern.ends_with(".agent") && route.0.len() == 3;
                let names = [
                    "agents.*.name",
                    "agents.*.depends_on.*",
                    "agents.*.dependencies.*",
                    "agents.*.dependencies.*.agent_name",
                    "result",
                ];
                if is_tool || names.contains(&pattern.as_str()) || tested::is_agent(&pattern) {
                    let span = self.document.resolve(&route.clone().text(Span::new(0, text.len())));
                    self.note(text, span, Form::Yaml, pattern == "agents.*.name");
                }
                return;
            }
        };
        let is_template = tree::code_at(route) == Some(Code::Template);
        let raw = &self.document.source().text()[node.span.start..node.span.end];
        let quote = if raw.starts_with('"') { '\'' } else { '"' };
        let assigned = if is_template { assigned(&words) } else { Vec::new() };
        for read in lexis::reads(&words) {
            self.read(&read, route, is_template, quote, dependencies, &assigned);
        }
        for word in compared_names(&words) {
            let span = self.place(route, word.span);
            self.note(word.text, span, Form::Text, false);
        }
    }

    fn read(
        &mut self,
        read: &Read<'_>,
        route: &Route,
        is_template: bool,
        quote: char,
        near: &[&str],
        assigned: &[&str],
    ) {
        let base = read.base.text;
        if is_template && near.contains(&base) && !template::VARIABLES.contains(&base) && !assigned.contains(&base) {
            let span = self.place(route, read.base.span);
            self.note(base, span, Form::Variable { quote }, false);
        }
        let Some(key) = read.key else { return };
        let is_of_agents = match (base, is_template) {
            ("outputs" | "executions" | "agent_execution_count", false) | ("dependencies", true) => true,
            ("context", _) => self.stored.contains(&key.word.text),
            _ => false,
        };
        if !is_of_agents || assigned.contains(&base) {
            return;
        }
        let span = self.place(route, key.word.span);
        let form = match key.dot {
            Some(dot) => Form::Member {
                dot: self.place(route, Span::new(dot, dot + 1)).start,
                quote,
            },
            None => Form::Text,
        };
        self.note(key.word.text, span, form, false);
    }

    fn place(&self, route: &Route, span: Span) -> Span {
        self.document.resolve(&route.clone().text(span))
    }

    fn note(&mut self, agent: &str, span: Span, form: Form, is_definition: bool) {
        if self.agents.contains(&agent) {
            self.found.push(Occurrence {
                agent: agent.to_owned(),
                span,
                form,
                is_definition,
            });
        }
    }
}

/// The names that a template assigns: of these it is not known what they mean at a place.
fn assigned<'a>(words: &[Word<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut is_target = false;
    for word in words {
        match (word.kind, word.text) {
            (Kind::Name, "set" | "for" | "macro" | "with") => is_target = true,
            (Kind::Name, "in") | (Kind::Symbol, "=") => is_target = false,
            (Kind::Name, name) if is_target => names.push(name),
            _ => {}
        }
    }
    names
}

/// The strings that are compared with `agent_name`, of executions in the history.
fn compared_names<'a>(words: &[Word<'a>]) -> Vec<Word<'a>> {
    let is_equality = |at: usize| match words.get(at..at + 2) {
        Some([first, _]) if first.text == "==" => Some(1),
        Some([first, second]) if first.text == "!" && second.text == "=" => Some(2),
        _ => None,
    };
    let text_at = |at: usize| words.get(at).copied().filter(|word| word.kind == Kind::Text);
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.kind == Kind::Name && word.text == "agent_name" {
            found.extend(is_equality(at + 1).and_then(|length| text_at(at + 1 + length)));
        }
    }
    found
}
