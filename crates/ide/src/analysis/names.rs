//! Where the agents and the tools of an ensemble are named.

use ensemble_language::loader::Document;
use ensemble_language::loader::document::{Content, Node};
use ensemble_language::source::{Route, Span};
use ensemble_language::template;

use super::lexis::{self, Kind, Read, Word};
use super::tree::{self, Code};
use super::{View, tested};

/// The subject of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// An agent.
    Agent,
    /// An entry of `tools`.
    Tool,
}

impl Named {
    /// The word for it, with its article.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "an agent",
            Self::Tool => "a tool",
        }
    }
}

/// A place at which an agent or a tool is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// What is named.
    pub what: Named,
    /// The name.
    pub name: String,
    /// The bytes of the name.
    pub span: Span,
    /// The bytes of the text that the name is a part of: of `SERVER.TOOL`, those of both names.
    pub whole: Span,
    /// How it is written.
    pub form: Form,
    /// Whether the agent or the tool is defined here.
    pub is_definition: bool,
}

impl Occurrence {
    /// Returns whether both are names of the same agent or tool.
    pub fn names_the_same(&self, other: &Self) -> bool {
        self.what == other.what && self.name == other.name
    }
}

/// An agent or a tool of a tested ensemble.
#[derive(Debug, Clone, Copy)]
pub struct Target<'t> {
    /// What it is.
    pub what: Named,
    /// Its name.
    pub name: &'t str,
    /// Of an agent, whether its output is in the context under its name.
    pub is_stored: bool,
}

/// The spelling of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As a value or a key of YAML, or at the beginning of one: `SERVER.TOOL`.
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
    let agents = tree::agents(document);
    let is_stored = |agent: &&tree::Agent<'_>| {
        let conversation = agent.node.get("conversation");
        conversation.and_then(|it| it.get("state_key")).is_none()
    };
    let finder = Finder {
        document,
        agents: agents.iter().map(|agent| agent.name).collect(),
        stored: agents.iter().filter(is_stored).map(|agent| agent.name).collect(),
        tools: tree::tools(document),
        found: Vec::new(),
    };
    finder.all()
}

/// All places in a test file at which this agent or tool of the tested ensemble is named.
pub fn in_test(text: &str, target: &Target<'_>) -> Vec<Occurrence> {
    let Some(document) = tree::outline(text, None) else {
        return Vec::new();
    };
    let is_agent = target.what == Named::Agent;
    let finder = Finder {
        document: &document,
        agents: if is_agent { vec![target.name] } else { Vec::new() },
        stored: if target.is_stored {
            vec![target.name]
        } else {
            Vec::new()
        },
        tools: if is_agent { Vec::new() } else { vec![target.name] },
        found: Vec::new(),
    };
    finder.all()
}

/// The name at an offset; also at the name of a server's tool, then that of the server.
pub fn at(view: &View<'_>, offset: usize) -> Option<Occurrence> {
    let mut all = occurrences(view).into_iter();
    all.find(|one| one.whole.start <= offset && offset <= one.whole.end)
}

/// All places that name the same as the one at an offset.
pub fn same(view: &View<'_>, offset: usize) -> Option<Vec<Occurrence>> {
    let asked = at(view, offset)?;
    let all = occurrences(view).into_iter();
    Some(all.filter(|one| one.names_the_same(&asked)).collect())
}

/// The place at which an agent or a tool is defined.
pub fn definition(view: &View<'_>, what: Named, name: &str) -> Option<Span> {
    let mut all = occurrences(view).into_iter();
    all.find(|one| one.is_definition && one.what == what && one.name == name)
        .map(|one| one.span)
}

struct Finder<'d> {
    document: &'d Document,
    agents: Vec<&'d str>,
    /// The agents whose outputs are stored in the context under their names.
    stored: Vec<&'d str>,
    tools: Vec<&'d str>,
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
                let pattern = tree::pattern(route);
                for entry in entries {
                    let route = route.key(entry.key.clone());
                    if are_agents {
                        self.note(&entry.key, entry.key_span, Form::Yaml, false);
                    }
                    if tested::may_be_inside(&pattern) {
                        self.outer(&entry.key, entry.key_span);
                    }
                    if pattern == "tools" {
                        self.tool(&entry.key, entry.key_span, entry.key_span, true);
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
                if let Some(name) = self.tool_in(text, &pattern) {
                    let name = &text[..name.len()];
                    self.tool(name, self.place(route, Span::new(0, name.len())), node.span, false);
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
                what: Named::Agent,
                name: agent.to_owned(),
                span,
                whole: span,
                form,
                is_definition,
            });
        }
    }

    fn tool(&mut self, name: &str, span: Span, whole: Span, is_definition: bool) {
        if self.tools.contains(&name) {
            self.found.push(Occurrence {
                what: Named::Tool,
                name: name.to_owned(),
                span,
                whole,
                form: Form::Yaml,
                is_definition,
            });
        }
    }

    /// The tool that a value of YAML begins with.
    fn tool_in(&self, text: &str, pattern: &str) -> Option<&'d str> {
        let known = |name: &str| self.tools.iter().copied().find(|tool| *tool == name);
        match pattern {
            "agents.*.tool" | "agents.*.tools.*" | "defaults.tool" | "defaults.tools.*" => {
                known(text.split_once('.').map_or(text, |(server, _)| server))
            }
            // As a model sees it: a tool of a server is `server__tool`.
            _ if pattern.starts_with("model_profiles.") && pattern.ends_with(".replies.*.tool_calls.*.name") => {
                let servers = text.match_indices("__").map(|(end, _)| &text[..end]);
                known(text).or_else(|| servers.filter_map(known).find(|name| self.is_server(name)))
            }
            _ => None,
        }
    }

    fn is_server(&self, tool: &str) -> bool {
        let tools = self.document.root().get("tools");
        tools.and_then(|tools| tools.get(tool)?.get("mcp")).is_some()
    }

    /// Of the key `outer.inner`, the agent or the tool that is an ensemble with an agent `inner`.
    fn outer(&mut self, key: &str, span: Span) {
        let raw = &self.document.source().text()[span.start..span.end];
        let is_quoted = raw.starts_with(['"', '\'']);
        let start = span.start + usize::from(is_quoted);
        for (end, _) in key.match_indices('.') {
            let outer = &key[..end];
            // A name that is written with escapes is not found.
            if !raw[usize::from(is_quoted)..].starts_with(outer) {
                continue;
            }
            let (what, known) = match (self.agents.contains(&outer), self.tools.contains(&outer)) {
                (true, _) => (Named::Agent, true),
                (false, known) => (Named::Tool, known),
            };
            if known {
                self.found.push(Occurrence {
                    what,
                    name: outer.to_owned(),
                    span: Span::new(start, start + outer.len()),
                    whole: span,
                    form: Form::Yaml,
                    is_definition: false,
                });
            }
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
