//! Converts the agents, key by key.

use serde_json::{Map as JsonMap, Value, json};

use super::draft::{DraftMap, DraftMapLine, DraftValue};
use super::predicate::GuardPredicate;
use super::values::{self, is_true_value, scalar_or_empty_text, to_json as value_of};
use super::{
    ImportTask, agent_names, find_key_span, has_nonblank_text, key_advice, list_map_entries, profiles, template_text,
};
use ensemble_language::loader::document::{YamlContent, YamlEntry, YamlNode};
use ensemble_language::names::is_script_member_name;
use ensemble_language::source::Span;
use ensemble_language::vocabulary::{AgentType, TYPE_CHOOSING_KEYS};

/// Kind of an llm-orc agent, by the first present key that defines what the agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImportedAgentKind {
    Script,
    Loop,
    Dispatch,
    Ensemble,
    Llm,
    Input,
    None,
}

/// Keys of llm-orc that define what an agent runs, in order of precedence.
const KIND_KEYS: [&str; 7] = [
    "script",
    "loop",
    "dispatch",
    "ensemble",
    "model_profile",
    "model",
    "input",
];

/// Script of llm-orc that asks a person.
const USER_INPUT_SCRIPT: &str = "get_user_input.py";

impl ImportedAgentKind {
    /// Returns the kind of the agent, by the first kind key with a value.
    pub(super) fn detect_agent_kind(agent: &YamlNode) -> Self {
        let chosen_key = KIND_KEYS.into_iter().find(|key| {
            let value = agent.get(key);
            value.is_some_and(|node| value_of(node) != Value::Null)
        });
        chosen_key.and_then(Self::from_kind_key).unwrap_or(Self::None)
    }

    /// Returns the kind of agents with this key. Returns `None` for other keys.
    fn from_kind_key(key: &str) -> Option<Self> {
        if !KIND_KEYS.contains(&key) {
            return None;
        }
        let choosing_entry = TYPE_CHOOSING_KEYS.into_iter().find(|(chooser, _)| *chooser == key);
        match (key, choosing_entry.map(|(_, chosen)| chosen)) {
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
const MODEL_SETTING_KEYS: [&str; 5] = ["temperature", "max_tokens", "top_p", "seed", "options"];

impl<'a> ImportTask<'a> {
    /// Converts all agents, and adds an agent for the coordinator.
    pub(super) fn convert_agents(&mut self, list: &'a YamlNode) -> Vec<(DraftValue, Option<Span>)> {
        let items = list.items().unwrap_or_default();
        let mut agents: Vec<(DraftValue, Option<Span>)> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            agents.push((DraftValue::Map(self.convert_agent(index, item)), Some(item.span)));
        }
        let all: Vec<String> = self.names.list_new_names().map(str::to_owned).collect();
        agents.extend(self.convert_coordinator(all));
        agents
    }

    /// Converts the agent at this index.
    fn convert_agent(&mut self, index: usize, item: &'a YamlNode) -> DraftMap {
        let mut map = DraftMap::default();
        let (old, new) = self.names.old_and_new_name(index);
        let (old, new) = (old.map(str::to_owned), new.to_owned());
        let all = list_map_entries(item);
        map.put_plain_value("name", new.as_str(), find_key_span(all, "name"));
        if old.as_deref() != Some(&new) {
            let span = item.get("name").map_or(item.span, |node| node.span);
            let message = match &old {
                Some(old) => format!("the name `{old}` was changed to `{new}`"),
                None => format!("the agent has no name; `{new}` is used"),
            };
            let help = if self.names.find_new_name(&new).is_some() {
                "give each agent its own name"
            } else {
                agent_names::NAME_RULE_HELP
            };
            self.add_remark_and_warning(span, &message, help);
        }
        let kind = ImportedAgentKind::detect_agent_kind(item);
        let dependencies = self.convert_agent_dependencies(index, item);
        if kind == ImportedAgentKind::None {
            let message = format!("the agent `{new}` has no script, model, ensemble or input");
            self.add_remark_and_warning(
                item.span,
                &message,
                "add `script`, `model_profile`, `ensemble` or `input`",
            );
            self.put_placeholder_profile(&mut map, None);
        }
        let mut work = AgentDraftState {
            node: item,
            name: new,
            kind,
            is_kind_written: kind == ImportedAgentKind::None,
            dependencies,
            map,
        };
        for entry in all {
            self.convert_agent_key(&mut work, entry);
        }
        if let Some(line) = work.dependencies.take() {
            work.map.lines.push(line);
        }
        work.map
    }

    /// Converts one key of an agent.
    fn convert_agent_key(&mut self, agent: &mut AgentDraftState<'a>, entry: &'a YamlEntry) {
        let from = entry.key_span;
        match &*entry.key {
            "name" => {}
            // The type follows from what the agent runs.
            "type" => agent.map.lines.push(DraftMapLine::WrittenElsewhere(from)),
            "depends_on" | "dependencies" => match agent.dependencies.take() {
                Some(line) => agent.map.lines.push(line),
                None => agent.map.lines.push(DraftMapLine::WrittenElsewhere(from)),
            },
            "when" => self.convert_when_key(agent, entry),
            key if ImportedAgentKind::from_kind_key(key).is_some() => self.convert_kind_key(agent, entry),
            // The provider is a part of the model key.
            "provider" if agent.kind == ImportedAgentKind::Llm && agent.node.get("model_profile").is_none() => {
                agent.map.lines.push(DraftMapLine::WrittenElsewhere(from));
            }
            "system_prompt" | "role"
                if agent.kind == ImportedAgentKind::Llm && has_nonblank_text(Some(&entry.value)) =>
            {
                if &*entry.key == "role" && agent.node.get("system_prompt").is_some() {
                    let unconverted_line =
                        self.report_unconverted_key(entry, "`system_prompt` is present too", "keep one of them");
                    return agent.map.put_comment(unconverted_line);
                }
                agent.map.put_plain_value(
                    "system_prompt",
                    template_text::escape_as_template(&scalar_or_empty_text(&entry.value)),
                    Some(from),
                );
            }
            "prompt" if agent.kind == ImportedAgentKind::Llm => {
                agent
                    .map
                    .put_draft_value("prompt", values::yaml_node_to_draft(&entry.value), from)
            }
            "input_key" if self.try_convert_input_key(agent, entry) => {}
            "parameters" | "config" if agent.kind == ImportedAgentKind::Input && agent.node.get("script").is_some() => {
                agent.map.lines.push(DraftMapLine::WrittenElsewhere(from));
            }
            "parameters" => match &entry.value.content {
                YamlContent::Mapping(inner) if inner.is_empty() => {}
                _ => agent
                    .map
                    .put_draft_value("config", values::yaml_node_to_draft(&entry.value), from),
            },
            "config" if agent.node.get("parameters").is_none() => {
                agent
                    .map
                    .put_draft_value("config", values::yaml_node_to_draft(&entry.value), from);
            }
            key if agent.kind == ImportedAgentKind::Llm
                && (MODEL_SETTING_KEYS.contains(&key) || key.starts_with("fallback_")) =>
            {
                // This is part of the profile.
                agent.map.lines.push(DraftMapLine::WrittenElsewhere(from));
            }
            "fan_out" if !is_true_value(&entry.value) => {}
            "description" | "timeout_seconds" | "output_schema" | "retry" | "on_error" | "conversation" => {
                if agent.kind == ImportedAgentKind::Loop && &*entry.key == "conversation" {
                    let unconverted_line = self.report_unconverted_key(
                        entry,
                        "the loop has its own `conversation`",
                        "change `conversation` of this agent",
                    );
                    return agent.map.put_comment(unconverted_line);
                }
                if value_of(&entry.value) != Value::Null {
                    agent
                        .map
                        .put_draft_value(&entry.key, values::yaml_node_to_draft(&entry.value), from);
                }
            }
            key => {
                let (why, instead) = key_advice::find_agent_key_advice(key);
                let unconverted_line = self.report_unconverted_key(entry, why, instead);
                agent.map.put_comment(unconverted_line);
            }
        }
    }

    /// Converts the key that defines what the agent runs. Reports another kind key as not converted.
    fn convert_kind_key(&mut self, agent: &mut AgentDraftState<'a>, entry: &'a YamlEntry) {
        let from = entry.key_span;
        let entry_kind = ImportedAgentKind::from_kind_key(&entry.key);
        if value_of(&entry.value) == Value::Null {
            return;
        }
        if entry_kind != Some(agent.kind) || agent.is_kind_written {
            let unconverted_line = self.report_unconverted_key(
                entry,
                "an agent has only one script, model, ensemble or input",
                "write a separate agent for it",
            );
            return agent.map.put_comment(unconverted_line);
        }
        agent.is_kind_written = true;
        match agent.kind {
            ImportedAgentKind::Script => self.convert_script_key(agent, entry),
            ImportedAgentKind::Loop => self.convert_loop_key(agent, entry),
            ImportedAgentKind::Ensemble => {
                let name = scalar_or_empty_text(&entry.value);
                if !(self.context.ensemble)(&name) {
                    let message = format!("there is no ensemble `{name}`");
                    self.add_remark_and_warning(
                        entry.value.span,
                        &message,
                        "import this ensemble into the same folder, too",
                    );
                }
                agent.map.put_plain_value("ensemble", name, Some(from));
            }
            ImportedAgentKind::Llm => self.convert_model_key(agent, entry),
            ImportedAgentKind::Input => {
                agent
                    .map
                    .put_draft_value("input", values::yaml_node_to_draft(&entry.value), from)
            }
            ImportedAgentKind::Dispatch | ImportedAgentKind::None => {
                let (why, instead) = key_advice::find_agent_key_advice(&entry.key);
                let unconverted_line = self.report_unconverted_key(entry, why, instead);
                agent.map.put_comment(unconverted_line);
                self.put_placeholder_profile(&mut agent.map, Some(from));
            }
        }
    }

    /// Converts a script. Converts the input script of llm-orc to an input agent. Reports a missing script file.
    fn convert_script_key(&mut self, agent: &mut AgentDraftState<'a>, entry: &'a YamlEntry) {
        let from = Some(entry.key_span);
        let script = scalar_or_empty_text(&entry.value);
        if script.ends_with(USER_INPUT_SCRIPT) && (self.context.script)(&script).is_none() {
            let settings = agent.node.get("parameters").or(agent.node.get("config"));
            let prompt = settings
                .and_then(|settings| settings.get("prompt"))
                .map(scalar_or_empty_text);
            let prompt = prompt.filter(|prompt| !prompt.trim().is_empty());
            let prompt = template_text::escape_as_template(prompt.as_deref().unwrap_or("Your answer?"));
            agent.map.put_plain_value("input", json!({"prompt": prompt}), from);
            agent.kind = ImportedAgentKind::Input;
            return;
        }
        match (self.context.script)(&script) {
            Some(script_path) => {
                self.report_parsed_responses(&script, entry);
                agent.map.put_plain_value("script", script_path, from);
            }
            None => {
                let file = !script.contains(char::is_whitespace) && script.contains(['/', '.']);
                if file {
                    let message = format!("there is no script `{script}`");
                    let help = "put the script into the folder of the ensemble, the project root or its `scripts` folder; copy scripts of llm-orc's package";
                    self.add_remark_and_warning(entry.value.span, &message, help);
                }
                agent.map.put_plain_value("script", script, from);
            }
        }
    }

    /// Converts `model` or `model_profile`, and registers the profile that the agent uses.
    fn convert_model_key(&mut self, agent: &mut AgentDraftState<'a>, entry: &'a YamlEntry) {
        let own_prompt =
            has_nonblank_text(agent.node.get("system_prompt")) || has_nonblank_text(agent.node.get("role"));
        let mut overrides: Vec<&YamlEntry> = Vec::new();
        for entry in list_map_entries(agent.node) {
            if MODEL_SETTING_KEYS.contains(&&*entry.key) || entry.key.starts_with("fallback_") {
                overrides.push(entry);
            }
        }
        let name = scalar_or_empty_text(&entry.value);
        let used = if &*entry.key == "model_profile" {
            self.register_used_profile(&name, entry, &overrides, own_prompt, &agent.name)
        } else {
            let provider = agent.node.get("provider").map(scalar_or_empty_text);
            self.register_used_model(&name, provider.as_deref(), entry, &overrides, &agent.name)
        };
        let (key, value) = used;
        agent.map.put_plain_value(key, value, Some(entry.key_span));
    }

    /// Converts a loop to an agent that depends on its own output until the condition is true.
    fn convert_loop_key(&mut self, agent: &mut AgentDraftState<'a>, entry: &'a YamlEntry) {
        let from = Some(entry.key_span);
        let Some(rounds) = ConvertibleLoop::parse(&entry.value) else {
            let reason = "a loop has a `body`, an `until` such as `${key}`, and `max_iterations`";
            let instead = "let an agent depend on itself with `feedback: true` and a `condition`, and set `conversation.max_turns`";
            let unconverted_line = self.report_unconverted_key(entry, reason, instead);
            agent.map.put_comment(unconverted_line);
            return self.put_placeholder_profile(&mut agent.map, from);
        };
        if !(self.context.ensemble)(&rounds.body) {
            let message = format!("there is no ensemble `{}`", rounds.body);
            self.add_remark_and_warning(
                entry.value.span,
                &message,
                "import this ensemble into the same folder, too",
            );
        }
        let carry = list_map_entries(&entry.value)
            .iter()
            .find(|entry| &*entry.key == "carry");
        if let Some(carry) = carry {
            let reason = "every round gets the same input";
            let instead = "in the body, read the output of the previous round from `context.dependencies`";
            let unconverted_line = self.report_unconverted_key(carry, reason, instead);
            agent.map.put_comment(unconverted_line);
        }
        agent.map.put_plain_value("ensemble", rounds.body, from);
        // The dependency on itself is part of its dependencies.
        agent
            .map
            .put_plain_value("conversation", json!({"max_turns": rounds.max_turns}), None);
    }

    /// Converts `input_key` of a model agent with one dependency to a prompt that reads the key. Returns `false` if this is impossible.
    fn try_convert_input_key(&mut self, agent: &mut AgentDraftState<'a>, entry: &YamlEntry) -> bool {
        let names = self.list_dependency_names(agent.node);
        let key = scalar_or_empty_text(&entry.value);
        let word = |name: &str| {
            is_script_member_name(name)
                && !["in", "is", "not", "and", "or", "if", "else", "true", "false", "none"].contains(&name)
        };
        let [one] = &names[..] else { return false };
        if agent.kind != ImportedAgentKind::Llm || agent.node.get("prompt").is_some() || !word(one) || !word(&key) {
            return false;
        }
        let prompt = if agent.node.get("input_scope").is_some() {
            format!("{{{{ {one}.{key} }}}}")
        } else {
            format!("{{{{ input }}}}\n\n{{{{ {one}.{key} }}}}")
        };
        agent.map.put_plain_value("prompt", prompt, Some(entry.key_span));
        true
    }

    /// Converts `when` to a condition of a dependency. Reports a condition that cannot be converted.
    fn convert_when_key(&mut self, agent: &mut AgentDraftState<'a>, entry: &YamlEntry) {
        if value_of(&entry.value) == Value::Null {
            return;
        }
        if self.can_convert_guard(agent.node) {
            if let Some(line) = agent.dependencies.take() {
                agent.map.lines.push(line);
            } else {
                agent.map.lines.push(DraftMapLine::WrittenElsewhere(entry.key_span));
            }
            return;
        }
        let reason = "only `${agent.key}` and `${agent.key} == value` can be converted";
        let unconverted_line =
            self.report_unconverted_key(entry, reason, "write a `condition` in the agent's `dependencies`");
        agent.map.put_comment(unconverted_line);
    }

    /// Adds the placeholder profile, whose model reports that the agent was not converted.
    fn put_placeholder_profile(&mut self, map: &mut DraftMap, from: Option<Span>) {
        self.profiles.mark_placeholder_needed();
        map.put_plain_value("model_profile", profiles::PLACEHOLDER_PROFILE, from);
    }
}

/// Agent during its conversion.
pub(super) struct AgentDraftState<'a> {
    node: &'a YamlNode,
    name: String,
    kind: ImportedAgentKind,
    is_kind_written: bool,
    /// Its dependencies, until they are written at the place of their first key.
    dependencies: Option<DraftMapLine>,
    map: DraftMap,
}

/// Loop of llm-orc that can be converted.
pub(super) struct ConvertibleLoop {
    body: String,
    /// The condition on the output of the body that ends the loop.
    pub(super) until: String,
    pub(super) max_turns: u64,
}

impl ConvertibleLoop {
    /// Parses a loop. Returns `None` if the loop cannot be converted.
    pub(super) fn parse(node: &YamlNode) -> Option<Self> {
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
            until: GuardPredicate::parse(spec.get("until")?.as_str()?)?.to_condition_with_all_keys()?,
            max_turns: spec
                .get("max_iterations")?
                .as_u64()
                .filter(|most| (1..=u64::from(u32::MAX)).contains(most))?,
        })
    }
}
