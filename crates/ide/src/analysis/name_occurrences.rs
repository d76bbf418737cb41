//! Where the agents, the tools and the inputs of an ensemble are named.

use ensemble_language::loader::YamlDocument;
use ensemble_language::loader::document::{YamlContent, YamlNode};
use ensemble_language::source::{Route, Span};
use ensemble_language::template;

use super::document_tree::{self, CodeLanguage};
use super::lexer::{self, CodeWord, CodeWordKind, VariableRead};
use super::{EditorView, test_file_patterns};

/// The subject of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedItemKind {
    /// An agent.
    Agent,
    /// An entry of `tools`.
    Tool,
    /// An entry of `inputs`.
    Input,
}

impl NamedItemKind {
    /// Returns the word for it, with its article.
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Agent => "an agent",
            Self::Tool => "a tool",
            Self::Input => "an input",
        }
    }
}

/// A position in a text at which an agent, a tool or an input is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameOccurrence {
    /// What is named.
    pub subject: NamedItemKind,
    /// The name.
    pub name: String,
    /// The bytes of the name.
    pub span: Span,
    /// The bytes of the text that the name is a part of: of `SERVER.TOOL`, those of both names.
    pub whole_span: Span,
    /// How it is written.
    pub form: NameForm,
    /// Whether the agent or the tool is defined here.
    pub is_definition: bool,
}

impl NameOccurrence {
    /// Returns whether both are names of the same agent or tool.
    pub fn has_same_subject(&self, other: &Self) -> bool {
        self.subject == other.subject && self.name == other.name
    }
}

/// The agent, tool or input of an ensemble that is renamed.
#[derive(Debug, Clone, Copy)]
pub struct RenameTarget<'t> {
    /// What it is.
    pub subject: NamedItemKind,
    /// Its name.
    pub name: &'t str,
    /// Whether the context has the output of the agent, or the value of the input, under this name.
    pub is_stored: bool,
}

/// The syntax of a name, which determines its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameForm {
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

/// Returns all names of agents, tools and inputs in the text, in order.
pub fn list_name_occurrences(view: &EditorView<'_>) -> Vec<NameOccurrence> {
    let Some(document) = &view.document else {
        return Vec::new();
    };
    let agents = document_tree::list_named_agents(document);
    let is_stored = |agent: &&document_tree::AgentNode<'_>| {
        let conversation = agent.node.get("conversation");
        conversation.and_then(|it| it.get("state_key")).is_none()
    };
    let inputs = document_tree::list_keys_of_root_map(document, "inputs");
    let state_keys = document_tree::list_state_keys(document);
    let finder = OccurrenceFinder {
        document,
        agents: agents.iter().map(|agent| agent.name).collect(),
        stored: agents.iter().filter(is_stored).map(|agent| agent.name).collect(),
        tools: document_tree::list_keys_of_root_map(document, "tools"),
        stored_inputs: inputs
            .iter()
            .copied()
            .filter(|input| !state_keys.contains(input))
            .collect(),
        inputs,
        found: Vec::new(),
    };
    finder.find_all_sorted()
}

/// Returns all names of the target in a test file of its ensemble.
pub fn list_test_occurrences(text: &str, target: &RenameTarget<'_>) -> Vec<NameOccurrence> {
    let Some(document) = document_tree::parse_tolerantly(text, None) else {
        return Vec::new();
    };
    let names_if = |is_used: bool| if is_used { vec![target.name] } else { Vec::new() };
    let is_subject = |subject| target.subject == subject;
    let finder = OccurrenceFinder {
        document: &document,
        agents: names_if(is_subject(NamedItemKind::Agent)),
        stored: names_if(is_subject(NamedItemKind::Agent) && target.is_stored),
        tools: names_if(is_subject(NamedItemKind::Tool)),
        inputs: names_if(is_subject(NamedItemKind::Input)),
        stored_inputs: names_if(is_subject(NamedItemKind::Input) && target.is_stored),
        found: Vec::new(),
    };
    finder.find_all_sorted()
}

/// Returns the name at an offset. For a tool of a server, returns the name of the server.
pub fn find_occurrence_at(view: &EditorView<'_>, offset: usize) -> Option<NameOccurrence> {
    let mut all = list_name_occurrences(view).into_iter();
    all.find(|one| one.whole_span.start <= offset && offset <= one.whole_span.end)
}

/// Returns all names of the agent, tool or input that is named at an offset.
pub fn list_same_occurrences(view: &EditorView<'_>, offset: usize) -> Option<Vec<NameOccurrence>> {
    let occurrence = find_occurrence_at(view, offset)?;
    let all = list_name_occurrences(view).into_iter();
    Some(all.filter(|one| one.has_same_subject(&occurrence)).collect())
}

/// Returns the span of the name where the agent, tool or input is defined.
pub fn find_definition_span(view: &EditorView<'_>, what: NamedItemKind, name: &str) -> Option<Span> {
    let mut all = list_name_occurrences(view).into_iter();
    all.find(|one| one.is_definition && one.subject == what && one.name == name)
        .map(|one| one.span)
}

/// The state of searching a text for the names of agents, tools and inputs.
struct OccurrenceFinder<'d> {
    document: &'d YamlDocument,
    agents: Vec<&'d str>,
    /// The agents whose outputs are stored in the context under their names.
    stored: Vec<&'d str>,
    tools: Vec<&'d str>,
    inputs: Vec<&'d str>,
    /// The inputs whose values the context has under their names: no agent stores its output there.
    stored_inputs: Vec<&'d str>,
    found: Vec<NameOccurrence>,
}

impl<'d> OccurrenceFinder<'d> {
    /// Visits the whole tree, and returns the names in the order of the text, each once.
    fn find_all_sorted(mut self) -> Vec<NameOccurrence> {
        self.visit_node(self.document.root(), &Route::root(), &[]);
        let mut occurrences = self.found;
        occurrences.sort_by_key(|one| (one.span.start, one.span.end));
        // A value with an alias stands at one place.
        occurrences.dedup();
        occurrences
    }

    /// Visits a node. `dependencies`: the agents whose names templates at this node can use.
    fn visit_node(&mut self, node: &'d YamlNode, route: &Route, dependencies: &[&'d str]) {
        match &node.content {
            YamlContent::Sequence(items) => {
                for (at, item) in items.iter().enumerate() {
                    let agent_dependencies = (*route == Route::root().with_key("agents"))
                        .then(|| document_tree::list_dependency_names(item));
                    self.visit_node(
                        item,
                        &route.with_index(at),
                        agent_dependencies.as_deref().unwrap_or(dependencies),
                    );
                }
            }
            YamlContent::Mapping(entries) => {
                let everyone = self.agents.clone();
                let are_agents = document_tree::has_agent_name_keys(route);
                let pattern = document_tree::route_pattern(route);
                for entry in entries {
                    let route = route.with_key(entry.key.clone());
                    if are_agents {
                        self.add_agent(&entry.key, entry.key_span, NameForm::Yaml, false);
                    }
                    if test_file_patterns::can_have_nested_agent_keys(&pattern) {
                        self.add_outer_names(&entry.key, entry.key_span);
                    }
                    if pattern == "tools" {
                        self.add_tool(&entry.key, entry.key_span, entry.key_span, true);
                    }
                    if pattern == "inputs" || test_file_patterns::has_input_keys(&pattern) {
                        self.add_input(&entry.key, entry.key_span, NameForm::Yaml, pattern == "inputs");
                    }
                    let is_default = *route.to_string() == *"defaults";
                    let known_agents = if is_default { &everyone } else { dependencies };
                    self.visit_node(&entry.value, &route, known_agents);
                }
            }
            YamlContent::Scalar(scalar) => self.visit_scalar(&scalar.text, node, route, dependencies),
        }
    }

    /// Adds the names in a scalar: a name of an agent or a tool, or the names in a condition or a template.
    fn visit_scalar(&mut self, text: &str, node: &YamlNode, route: &Route, dependencies: &[&str]) {
        let words = match document_tree::find_code_language(route) {
            Some(CodeLanguage::Condition) => lexer::lex_condition_words(text),
            Some(CodeLanguage::Template) => lexer::lex_template_words(text),
            None => {
                let pattern = document_tree::route_pattern(route);
                let is_tool = pattern.starts_with("tools.") && pattern.ends_with(".agent") && route.0.len() == 3;
                let names = [
                    "agents.*.name",
                    "agents.*.depends_on.*",
                    "agents.*.dependencies.*",
                    "agents.*.dependencies.*.agent_name",
                    "result",
                ];
                if is_tool || names.contains(&pattern.as_str()) || test_file_patterns::is_agent_name_pattern(&pattern) {
                    let span = self
                        .document
                        .resolve_span(&route.clone().into_text_location(Span::new(0, text.len())));
                    self.add_agent(text, span, NameForm::Yaml, pattern == "agents.*.name");
                }
                if let Some(name) = self.find_tool_name(text, &pattern) {
                    let name = &text[..name.len()];
                    self.add_tool(
                        name,
                        self.resolve_span(route, Span::new(0, name.len())),
                        node.span,
                        false,
                    );
                }
                return;
            }
        };
        let is_template = document_tree::find_code_language(route) == Some(CodeLanguage::Template);
        let raw = &self.document.source().text()[node.span.start..node.span.end];
        let quote = if raw.starts_with('"') { '\'' } else { '"' };
        let assigned = if is_template {
            assigned_template_names(&words)
        } else {
            Vec::new()
        };
        for read in lexer::list_variable_reads(&words) {
            self.visit_variable_read(&read, route, is_template, quote, dependencies, &assigned);
        }
        for word in list_compared_agent_names(&words) {
            let span = self.resolve_span(route, word.span);
            self.add_agent(word.text, span, NameForm::Text, false);
        }
    }

    /// Adds the names in the read of a variable. `near`: the dependencies; `assigned`: the names that the template assigns.
    fn visit_variable_read(
        &mut self,
        read: &VariableRead<'_>,
        route: &Route,
        is_template: bool,
        quote: char,
        near: &[&str],
        assigned: &[&str],
    ) {
        let base = read.base.text;
        if is_template && near.contains(&base) && !template::VARIABLES.contains(&base) && !assigned.contains(&base) {
            let span = self.resolve_span(route, read.base.span);
            self.add_agent(base, span, NameForm::Variable { quote }, false);
        }
        let Some(key) = read.key else { return };
        let subject = match (base, is_template) {
            ("outputs" | "executions" | "agent_execution_count", false) | ("dependencies", true) => {
                NamedItemKind::Agent
            }
            ("inputs", _) => NamedItemKind::Input,
            ("context", _) if self.stored.contains(&key.word.text) => NamedItemKind::Agent,
            ("context", _) if self.stored_inputs.contains(&key.word.text) => NamedItemKind::Input,
            _ => return,
        };
        if assigned.contains(&base) {
            return;
        }
        let span = self.resolve_span(route, key.word.span);
        let form = match key.dot {
            Some(dot) => NameForm::Member {
                dot: self.resolve_span(route, Span::new(dot, dot + 1)).start,
                quote,
            },
            None => NameForm::Text,
        };
        match subject {
            NamedItemKind::Input => self.add_input(key.word.text, span, form, false),
            NamedItemKind::Agent | NamedItemKind::Tool => self.add_agent(key.word.text, span, form, false),
        }
    }

    /// Converts a span of the text at the route to a span of the source.
    fn resolve_span(&self, route: &Route, span: Span) -> Span {
        self.document.resolve_span(&route.clone().into_text_location(span))
    }

    /// Adds the name, if it is the name of an agent.
    fn add_agent(&mut self, agent: &str, span: Span, form: NameForm, is_definition: bool) {
        if self.agents.contains(&agent) {
            self.found.push(NameOccurrence {
                subject: NamedItemKind::Agent,
                name: agent.to_owned(),
                span,
                whole_span: span,
                form,
                is_definition,
            });
        }
    }

    /// Adds the name, if it is the name of an input.
    fn add_input(&mut self, input: &str, span: Span, form: NameForm, is_definition: bool) {
        if self.inputs.contains(&input) {
            self.found.push(NameOccurrence {
                subject: NamedItemKind::Input,
                name: input.to_owned(),
                span,
                whole_span: span,
                form,
                is_definition,
            });
        }
    }

    /// Adds the name, if it is the name of a tool. `whole`: the span with the tool of a server.
    fn add_tool(&mut self, name: &str, span: Span, whole: Span, is_definition: bool) {
        if self.tools.contains(&name) {
            self.found.push(NameOccurrence {
                subject: NamedItemKind::Tool,
                name: name.to_owned(),
                span,
                whole_span: whole,
                form: NameForm::Yaml,
                is_definition,
            });
        }
    }

    /// Returns the tool with whose name a value at this route pattern begins.
    fn find_tool_name(&self, text: &str, pattern: &str) -> Option<&'d str> {
        let find_tool = |name: &str| self.tools.iter().copied().find(|tool| *tool == name);
        match pattern {
            "agents.*.tool" | "agents.*.tools.*" | "defaults.tool" | "defaults.tools.*" => {
                find_tool(text.split_once('.').map_or(text, |(server, _)| server))
            }
            // As a model sees it: a tool of a server is `server__tool`.
            _ if pattern.starts_with("model_profiles.") && pattern.ends_with(".replies.*.tool_calls.*.name") => {
                let servers = text.match_indices("__").map(|(end, _)| &text[..end]);
                find_tool(text).or_else(|| servers.filter_map(find_tool).find(|name| self.is_mcp_server(name)))
            }
            _ => None,
        }
    }

    /// Returns whether the tool is an MCP server.
    fn is_mcp_server(&self, tool: &str) -> bool {
        let tools = self.document.root().get("tools");
        tools.and_then(|tools| tools.get(tool)?.get("mcp")).is_some()
    }

    /// Adds the outer names of a key `outer.inner`: an agent or a tool with a nested ensemble.
    fn add_outer_names(&mut self, key: &str, span: Span) {
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
                (true, _) => (NamedItemKind::Agent, true),
                (false, known) => (NamedItemKind::Tool, known),
            };
            if known {
                self.found.push(NameOccurrence {
                    subject: what,
                    name: outer.to_owned(),
                    span: Span::new(start, start + outer.len()),
                    whole_span: span,
                    form: NameForm::Yaml,
                    is_definition: false,
                });
            }
        }
    }
}

/// Returns the names that a template assigns. Their meaning at a position is not known.
fn assigned_template_names<'a>(words: &[CodeWord<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut is_target = false;
    for word in words {
        match (word.kind, word.text) {
            (CodeWordKind::Name, "set" | "for" | "macro" | "with") => is_target = true,
            (CodeWordKind::Name, "in") | (CodeWordKind::Symbol, "=") => is_target = false,
            (CodeWordKind::Name, name) if is_target => names.push(name),
            _ => {}
        }
    }
    names
}

/// Returns the strings that are compared with `agent_name` of executions in the history.
fn list_compared_agent_names<'a>(words: &[CodeWord<'a>]) -> Vec<CodeWord<'a>> {
    let is_equality = |at: usize| match words.get(at..at + 2) {
        Some([first, _]) if first.text == "==" => Some(1),
        Some([first, second]) if first.text == "!" && second.text == "=" => Some(2),
        _ => None,
    };
    let text_at = |at: usize| words.get(at).copied().filter(|word| word.kind == CodeWordKind::Text);
    let mut agent_names = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.kind == CodeWordKind::Name && word.text == "agent_name" {
            agent_names.extend(is_equality(at + 1).and_then(|length| text_at(at + 1 + length)));
        }
    }
    agent_names
}
