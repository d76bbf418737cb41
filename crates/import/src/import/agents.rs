//! Converts the agents, key by key.

use serde_json::{Map as JsonMap, Value, json};

use super::draft::{Line, Map, Shape};
use super::guard::Predicate;
use super::values::{self, is_true, json as value_of, text_of};
use super::{Task, advice, entries, is_text, names, profiles, span_of, text};
use ensemble_language::loader::document::{Content, Entry, Node};
use ensemble_language::names::is_plain_word;
use ensemble_language::source::Span;
use ensemble_language::vocabulary::{AgentType, CHOOSERS};

/// The keys that define what an agent of llm-orc runs; the first one that is present is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Script,
    Loop,
    Dispatch,
    Ensemble,
    Llm,
    Input,
    None,
}

/// The keys of llm-orc that say what an agent runs, in the order in which they count.
const CHOOSING_KEYS: [&str; 7] = [
    "script",
    "loop",
    "dispatch",
    "ensemble",
    "model_profile",
    "model",
    "input",
];

/// The script of llm-orc that asks a person.
const ASKS: &str = "get_user_input.py";

impl Kind {
    pub(super) fn of(agent: &Node) -> Self {
        let found = CHOOSING_KEYS.into_iter().find(|key| {
            let value = agent.get(key);
            value.is_some_and(|node| value_of(node) != Value::Null)
        });
        found.and_then(Self::from_key).unwrap_or(Self::None)
    }

    /// Returns the kind of the agents that have this key: the kind of the language, or one that only llm-orc has.
    fn from_key(key: &str) -> Option<Self> {
        if !CHOOSING_KEYS.contains(&key) {
            return None;
        }
        let chosen = CHOOSERS.into_iter().find(|(chooser, _)| *chooser == key);
        match (key, chosen.map(|(_, chosen)| chosen)) {
            ("loop", None) => Some(Self::Loop),
            ("dispatch", None) => Some(Self::Dispatch),
            (_, Some(AgentType::Script)) => Some(Self::Script),
            (_, Some(AgentType::Ensemble)) => Some(Self::Ensemble),
            (_, Some(AgentType::Llm)) => Some(Self::Llm),
            (_, Some(AgentType::Input)) => Some(Self::Input),
            (_, Some(AgentType::Acp | AgentType::Tool) | None) => None,
        }
    }
}

/// Keys with model settings, which belong to a profile in this language.
const SAMPLING: [&str; 5] = ["temperature", "max_tokens", "top_p", "seed", "options"];

impl<'a> Task<'a> {
    /// Converts all agents, and adds one for the coordinator.
    pub(super) fn agents(&mut self, list: &'a Node) -> Vec<(Shape, Option<Span>)> {
        let items = list.items().unwrap_or_default();
        let mut agents: Vec<(Shape, Option<Span>)> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            agents.push((Shape::Map(self.agent(index, item)), Some(item.span)));
        }
        let all: Vec<String> = self.names.all().map(str::to_owned).collect();
        agents.extend(self.coordinator(all));
        agents
    }

    fn agent(&mut self, index: usize, item: &'a Node) -> Map {
        let mut map = Map::default();
        let (old, new) = self.names.at(index);
        let (old, new) = (old.map(str::to_owned), new.to_owned());
        let all = entries(item);
        map.put("name", new.as_str(), span_of(all, "name"));
        if old.as_deref() != Some(&new) {
            let span = item.get("name").map_or(item.span, |node| node.span);
            let message = match &old {
                Some(old) => format!("the name `{old}` has become `{new}`"),
                None => format!("the agent has no name; it is called `{new}`"),
            };
            let help = if self.names.of_old(&new).is_some() {
                "names are unique"
            } else {
                names::HELP
            };
            self.note(span, &message, help);
        }
        let kind = Kind::of(item);
        let dependencies = self.dependencies(index, item);
        if kind == Kind::None {
            let message = format!("the agent `{new}` does not say what it runs");
            self.note(
                item.span,
                &message,
                "add `script`, `model_profile`, `ensemble` or `input`",
            );
            self.placeholder(&mut map, None);
        }
        let mut work = Agent {
            node: item,
            name: new,
            kind,
            kind_written: kind == Kind::None,
            dependencies,
            map,
        };
        for entry in all {
            self.key(&mut work, entry);
        }
        if let Some(line) = work.dependencies.take() {
            work.map.lines.push(line);
        }
        work.map
    }

    fn key(&mut self, agent: &mut Agent<'a>, entry: &'a Entry) {
        let from = entry.key_span;
        match &*entry.key {
            "name" => {}
            // The type follows from what the agent runs.
            "type" => agent.map.lines.push(Line::Pass(from)),
            "depends_on" | "dependencies" => match agent.dependencies.take() {
                Some(line) => agent.map.lines.push(line),
                None => agent.map.lines.push(Line::Pass(from)),
            },
            "when" => self.when(agent, entry),
            key if Kind::from_key(key).is_some() => self.kind(agent, entry),
            // The provider is a part of the model key.
            "provider" if agent.kind == Kind::Llm && agent.node.get("model_profile").is_none() => {
                agent.map.lines.push(Line::Pass(from));
            }
            "system_prompt" | "role" if agent.kind == Kind::Llm && is_text(Some(&entry.value)) => {
                if &*entry.key == "role" && agent.node.get("system_prompt").is_some() {
                    let lost = self.lose(entry, "`system_prompt` is present too", "keep one of them");
                    return agent.map.lose(lost);
                }
                agent
                    .map
                    .put("system_prompt", text::literal(&text_of(&entry.value)), Some(from));
            }
            "prompt" if agent.kind == Kind::Llm => agent.map.entry("prompt", values::draft(&entry.value), from),
            "input_key" if self.prompt_of_key(agent, entry) => {}
            "parameters" | "config" if agent.kind == Kind::Input && agent.node.get("script").is_some() => {
                agent.map.lines.push(Line::Pass(from));
            }
            "parameters" => match &entry.value.content {
                Content::Mapping(inner) if inner.is_empty() => {}
                _ => agent.map.entry("config", values::draft(&entry.value), from),
            },
            "config" if agent.node.get("parameters").is_none() => {
                agent.map.entry("config", values::draft(&entry.value), from);
            }
            key if agent.kind == Kind::Llm && (SAMPLING.contains(&key) || key.starts_with("fallback_")) => {
                // This is part of the profile.
                agent.map.lines.push(Line::Pass(from));
            }
            "fan_out" if !is_true(&entry.value) => {}
            "description" | "timeout_seconds" | "output_schema" | "retry" | "on_error" | "conversation" => {
                if agent.kind == Kind::Loop && &*entry.key == "conversation" {
                    let lost = self.lose(
                        entry,
                        "the loop has one of its own",
                        "change `conversation` of this agent",
                    );
                    return agent.map.lose(lost);
                }
                if value_of(&entry.value) != Value::Null {
                    agent.map.entry(&entry.key, values::draft(&entry.value), from);
                }
            }
            key => {
                let (why, instead) = advice::agent(key);
                let lost = self.lose(entry, why, instead);
                agent.map.lose(lost);
            }
        }
    }

    /// The key that defines what the agent runs, or another key that could.
    fn kind(&mut self, agent: &mut Agent<'a>, entry: &'a Entry) {
        let from = entry.key_span;
        let own = Kind::from_key(&entry.key);
        if value_of(&entry.value) == Value::Null {
            return;
        }
        if own != Some(agent.kind) || agent.kind_written {
            let lost = self.lose(entry, "an agent runs one thing", "write an agent of its own for it");
            return agent.map.lose(lost);
        }
        agent.kind_written = true;
        match agent.kind {
            Kind::Script => self.script(agent, entry),
            Kind::Loop => self.looped(agent, entry),
            Kind::Ensemble => {
                let name = text_of(&entry.value);
                if !(self.beside.ensemble)(&name) {
                    let message = format!("the ensemble `{name}` is not here");
                    self.note(entry.value.span, &message, "import it as well, into the same folder");
                }
                agent.map.put("ensemble", name, Some(from));
            }
            Kind::Llm => self.model(agent, entry),
            Kind::Input => agent.map.entry("input", values::draft(&entry.value), from),
            Kind::Dispatch | Kind::None => {
                let (why, instead) = advice::agent(&entry.key);
                let lost = self.lose(entry, why, instead);
                agent.map.lose(lost);
                self.placeholder(&mut agent.map, Some(from));
            }
        }
    }

    fn script(&mut self, agent: &mut Agent<'a>, entry: &'a Entry) {
        let from = Some(entry.key_span);
        let script = text_of(&entry.value);
        if script.ends_with(ASKS) && (self.beside.script)(&script).is_none() {
            let settings = agent.node.get("parameters").or(agent.node.get("config"));
            let prompt = settings.and_then(|settings| settings.get("prompt")).map(text_of);
            let prompt = prompt.filter(|prompt| !prompt.trim().is_empty());
            let prompt = text::literal(prompt.as_deref().unwrap_or("Your answer?"));
            agent.map.put("input", json!({"prompt": prompt}), from);
            agent.kind = Kind::Input;
            return;
        }
        match (self.beside.script)(&script) {
            Some(found) => {
                self.tell_of_parsed_responses(&script, entry);
                agent.map.put("script", found, from);
            }
            None => {
                let file = !script.contains(char::is_whitespace) && script.contains(['/', '.']);
                if file {
                    let message = format!("the script `{script}` is not found");
                    let help = "scripts are sought beside the ensemble, in the project's root and in its `scripts/`; those of llm-orc's package have to be copied";
                    self.note(entry.value.span, &message, help);
                }
                agent.map.put("script", script, from);
            }
        }
    }

    fn model(&mut self, agent: &mut Agent<'a>, entry: &'a Entry) {
        let own_prompt = is_text(agent.node.get("system_prompt")) || is_text(agent.node.get("role"));
        let mut overrides: Vec<&Entry> = Vec::new();
        for entry in entries(agent.node) {
            if SAMPLING.contains(&&*entry.key) || entry.key.starts_with("fallback_") {
                overrides.push(entry);
            }
        }
        let name = text_of(&entry.value);
        let used = if &*entry.key == "model_profile" {
            self.use_profile(&name, entry, &overrides, own_prompt, &agent.name)
        } else {
            let provider = agent.node.get("provider").map(text_of);
            self.use_model(&name, provider.as_deref(), entry, &overrides, &agent.name)
        };
        let (key, value) = used;
        agent.map.put(key, value, Some(entry.key_span));
    }

    /// `loop`: the body depends on its own output until the condition is true.
    fn looped(&mut self, agent: &mut Agent<'a>, entry: &'a Entry) {
        let from = Some(entry.key_span);
        let Some(rounds) = Loop::of(&entry.value) else {
            let why = "a loop has a `body`, an `until` such as `${key}`, and `max_iterations`";
            let instead = "let an agent listen to itself with `feedback: true` and a `condition`, and set `conversation.max_turns`";
            let lost = self.lose(entry, why, instead);
            agent.map.lose(lost);
            return self.placeholder(&mut agent.map, from);
        };
        if !(self.beside.ensemble)(&rounds.body) {
            let message = format!("the ensemble `{}` is not here", rounds.body);
            self.note(entry.value.span, &message, "import it as well, into the same folder");
        }
        let carry = entries(&entry.value).iter().find(|entry| &*entry.key == "carry");
        if let Some(carry) = carry {
            let why = "every round gets the same input";
            let instead = "in the body, read what the last round said from `context.dependencies`";
            let lost = self.lose(carry, why, instead);
            agent.map.lose(lost);
        }
        agent.map.put("ensemble", rounds.body, from);
        // The dependency on itself is part of its dependencies.
        agent.map.put("conversation", json!({"max_turns": rounds.most}), None);
    }

    /// A model of one dependency reads one key of its output: this can be written in a prompt.
    fn prompt_of_key(&mut self, agent: &mut Agent<'a>, entry: &Entry) -> bool {
        let names = self.plain_dependencies(agent.node);
        let key = text_of(&entry.value);
        let word = |name: &str| {
            is_plain_word(name)
                && !["in", "is", "not", "and", "or", "if", "else", "true", "false", "none"].contains(&name)
        };
        let [one] = &names[..] else { return false };
        if agent.kind != Kind::Llm || agent.node.get("prompt").is_some() || !word(one) || !word(&key) {
            return false;
        }
        let prompt = if agent.node.get("input_scope").is_some() {
            format!("{{{{ {one}.{key} }}}}")
        } else {
            format!("{{{{ input }}}}\n\n{{{{ {one}.{key} }}}}")
        };
        agent.map.put("prompt", prompt, Some(entry.key_span));
        true
    }

    /// `when` is converted to a condition, or is dropped.
    fn when(&mut self, agent: &mut Agent<'a>, entry: &Entry) {
        if value_of(&entry.value) == Value::Null {
            return;
        }
        if self.is_guarded(agent.node) {
            if let Some(line) = agent.dependencies.take() {
                agent.map.lines.push(line);
            } else {
                agent.map.lines.push(Line::Pass(entry.key_span));
            }
            return;
        }
        let why = "it does not read `${agent.key}` or `${agent.key} == value`";
        let lost = self.lose(entry, why, "write a `condition` in the agent's `dependencies`");
        agent.map.lose(lost);
    }

    /// The agent gets a model that reports that it was not converted.
    fn placeholder(&mut self, map: &mut Map, from: Option<Span>) {
        self.profiles.need_placeholder();
        map.put("model_profile", profiles::PLACEHOLDER, from);
    }
}

/// An agent while it is written.
pub(super) struct Agent<'a> {
    node: &'a Node,
    name: String,
    kind: Kind,
    kind_written: bool,
    /// Its dependencies, until they are written at the place of their first key.
    dependencies: Option<Line>,
    map: Map,
}

/// A `loop` that can be converted.
pub(super) struct Loop {
    body: String,
    /// The condition on the output of the body that ends the loop.
    pub(super) until: String,
    pub(super) most: u64,
}

impl Loop {
    pub(super) fn of(node: &Node) -> Option<Self> {
        let spec: JsonMap<String, Value> = match value_of(node) {
            Value::Object(map) => map,
            _ => return None,
        };
        Some(Self {
            body: spec
                .get("body")?
                .as_str()
                .filter(|body| !body.trim().is_empty())?
                .to_owned(),
            until: Predicate::read(spec.get("until")?.as_str()?)?.on_output()?,
            most: spec
                .get("max_iterations")?
                .as_u64()
                .filter(|most| (1..=u64::from(u32::MAX)).contains(most))?,
        })
    }
}
