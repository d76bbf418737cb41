//! Providers, models, prices and MCP servers.

use serde_json::{Map as JsonMap, Value, json};

use super::super::draft::{Map, Shape};
use super::super::names::sound;
use super::super::values::{json as value_of, text_of};
use super::super::{Task, entries};
use ensemble_language::loader::document::{Content, Entry, Node};
use ensemble_language::source::Span;

/// The profile of agents that name no model.
const DEFAULT: &str = "default";

/// The model settings that the agents of a workflow share.
pub(super) struct Models<'a> {
    runtime: Option<&'a Node>,
    pricing: Option<&'a Node>,
    /// The profiles with the provider, the model and the effort that they stand for.
    profiles: Vec<(String, [String; 3], Value)>,
    tools: Map,
    /// The names of the servers, and what an agent names to use them.
    servers: Vec<(String, Vec<String>)>,
}

impl<'a> Models<'a> {
    pub(super) fn of(workflow: Option<&'a Node>) -> Self {
        Self {
            runtime: workflow.and_then(|workflow| workflow.get("runtime")),
            pricing: workflow
                .and_then(|workflow| workflow.get("cost"))
                .and_then(|cost| cost.get("pricing")),
            profiles: Vec::new(),
            tools: Map::default(),
            servers: Vec::new(),
        }
    }

    pub(super) fn take_profiles(&mut self) -> Map {
        let mut all = Map::default();
        for (name, _, value) in std::mem::take(&mut self.profiles) {
            all.put(&name, value, None);
        }
        all
    }

    pub(super) fn take_tools(&mut self) -> Map {
        std::mem::take(&mut self.tools)
    }

    fn setting(&self, key: &str) -> Option<&'a Node> {
        let node = self.runtime?.get(key)?;
        (value_of(node) != Value::Null).then_some(node)
    }

    /// The provider of the workflow: its name, and its settings if it has some.
    fn provider(&self) -> (String, Option<&'a Node>) {
        match self.setting("provider") {
            Some(node) if node.get("name").is_some() => (node.get("name").map(text_of).unwrap_or_default(), Some(node)),
            Some(node) if entries(node).is_empty() => (text_of(node), None),
            Some(node) => ("copilot".to_owned(), Some(node)),
            None => ("copilot".to_owned(), None),
        }
    }

    /// Returns how many requests an agent can make while it calls tools.
    pub(super) fn iterations(&self) -> Option<Value> {
        self.setting("max_agent_iterations").map(value_of)
    }
}

impl<'a> Task<'a> {
    /// The profile of an agent.
    pub(super) fn conductor_profile(&mut self, agent: &'a Node, span: Span, models: &mut Models<'a>) -> String {
        let (shared, settings) = models.provider();
        let provider = agent.get("provider").map(text_of).filter(|text| !text.is_empty());
        let settings = settings.filter(|_| provider.as_ref().is_none_or(|own| *own == shared));
        let provider = provider.unwrap_or(shared);
        let model = agent
            .get("model")
            .or_else(|| models.setting("default_model"))
            .map(text_of);
        let model = model.filter(|model| !model.trim().is_empty()).unwrap_or_default();
        let effort = agent.get("reasoning").and_then(|reasoning| reasoning.get("effort"));
        let effort = effort
            .or_else(|| models.setting("default_reasoning_effort"))
            .map(text_of);
        let key = [provider.clone(), model.clone(), effort.clone().unwrap_or_default()];
        if let Some((name, ..)) = models.profiles.iter().find(|(_, known, _)| *known == key) {
            return name.clone();
        }
        let computed = model.contains("{{");
        let wanted = if model.is_empty() || computed { DEFAULT } else { &model };
        let wanted = sound(wanted, DEFAULT);
        let taken = |name: &str| models.profiles.iter().any(|(known, ..)| known == name);
        let name = (1..)
            .map(|number| {
                if number == 1 {
                    wanted.clone()
                } else {
                    format!("{wanted}-{number}")
                }
            })
            .find(|name| !taken(name))
            .unwrap_or(wanted);
        let value = if wanted_default(&model) {
            let message = if computed {
                format!("the model `{model}` is not known before the run")
            } else {
                format!("no model is named, and `{provider}` chooses one itself")
            };
            let help = format!("write `provider` and `model` in the profile `{name}`");
            self.note(span, &message, &help);
            json!({"provider": "simulated", "replies": [{"error": "the workflow names no model: write `provider` and `model` in this profile"}]})
        } else {
            self.profile_of(&provider, &model, effort.as_deref(), settings, span, models)
        };
        models.profiles.push((name.clone(), key, value));
        name
    }

    fn profile_of(
        &mut self,
        provider: &str,
        model: &str,
        effort: Option<&str>,
        settings: Option<&'a Node>,
        span: Span,
        models: &Models<'a>,
    ) -> Value {
        let known = match provider {
            "claude" | "anthropic" => "anthropic",
            "openai" => "openai",
            _ => {
                let guess = maker(model);
                let message =
                    format!("the provider `{provider}` is not one of this program; `{model}` is asked at {guess}");
                let help = "write another `provider` in the model profile if you have no key for this one";
                self.note(span, &message, help);
                guess
            }
        };
        let mut profile = JsonMap::new();
        profile.insert("provider".to_owned(), json!(known));
        profile.insert("model".to_owned(), json!(model));
        for key in ["temperature", "max_tokens"] {
            if let Some(node) = models.setting(key) {
                profile.insert(key.to_owned(), value_of(node));
            }
        }
        if let Some(node) = models.setting("timeout") {
            profile.insert("timeout_seconds".to_owned(), value_of(node));
        }
        for entry in settings.map_or(&[][..], entries) {
            self.provider_setting(&mut profile, entry);
        }
        match effort {
            Some(effort) if known == "openai" => {
                profile.insert("options".to_owned(), json!({"reasoning_effort": effort}));
            }
            Some(effort) => {
                let message = format!("the reasoning effort `{effort}` of `{model}` is not converted");
                let help = "write the parameter of the provider under `options` in the model profile";
                self.note(span, &message, help);
            }
            None => {}
        }
        if let Some(price) = models.pricing.and_then(|pricing| pricing.get(model)) {
            let mut cost = JsonMap::new();
            for (old, new) in [
                ("input_per_mtok", "input_per_million"),
                ("output_per_mtok", "output_per_million"),
                ("cache_read_per_mtok", "cached_per_million"),
            ] {
                if let Some(value) = price.get(old) {
                    cost.insert(new.to_owned(), value_of(value));
                }
            }
            profile.insert("cost".to_owned(), Value::Object(cost));
        }
        Value::Object(profile)
    }

    fn provider_setting(&mut self, profile: &mut JsonMap<String, Value>, entry: &'a Entry) {
        let text = text_of(&entry.value);
        match &*entry.key {
            "name" | "type" | "wire_api" => {}
            "base_url" => {
                // `${NAME:-address}` has a default.
                let default = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
                let address = default
                    .and_then(|text| text.split_once(":-"))
                    .map_or(text.as_str(), |(_, address)| address);
                profile.insert("base_url".to_owned(), json!(address));
            }
            "api_key" | "bearer_token" | "auth_token" => match variable(&text) {
                Some(name) => drop(profile.insert("api_key_env".to_owned(), json!(name))),
                None => self.note(
                    entry.key_span,
                    &format!("`{}` is not converted: a file contains no keys", entry.key),
                    "write the name of a variable of the environment as `api_key_env`",
                ),
            },
            key => {
                let message =
                    format!("`{key}` of the provider is not converted: there is no equivalent in this language");
                self.note(
                    entry.key_span,
                    &message,
                    "leave it out, or write `headers` and `options` in the model profile",
                );
            }
        }
    }

    /// MCP servers become tools.
    pub(super) fn servers(&mut self, node: &'a Node, models: &mut Models<'a>) {
        for entry in entries(node) {
            let server: &Node = &entry.value;
            let name: String = sound(&entry.key, "server").replace('.', "-");
            let mut mcp = JsonMap::new();
            if let Some(url) = server.get("url") {
                mcp.insert("url".to_owned(), json!(text_of(url)));
            }
            if let Some(command) = server.get("command") {
                let mut words = vec![json!(text_of(command))];
                let arguments = server.get("args").and_then(Node::items).unwrap_or_default();
                words.extend(arguments.iter().map(|node| json!(text_of(node))));
                mcp.insert("command".to_owned(), Value::Array(words));
            }
            for key in ["env", "headers"] {
                let Some(map) = server.get(key).filter(|map| !entries(map).is_empty()) else {
                    continue;
                };
                mcp.insert(key.to_owned(), environment(map));
            }
            let mut tool = Map::default();
            tool.put("mcp", Value::Object(mcp), None);
            let some: Vec<String> = server
                .get("tools")
                .and_then(Node::items)
                .unwrap_or_default()
                .iter()
                .map(|tool| text_of(tool))
                .collect();
            let used = if some.iter().any(|tool| tool == "*") || some.is_empty() {
                vec![name.clone()]
            } else {
                some.iter().map(|tool| format!("{name}.{tool}")).collect()
            };
            models.servers.push((entry.key.to_string(), used));
            models.tools.entry(&name, Shape::Map(tool), entry.key_span);
        }
    }

    /// The tools of an agent: all servers, unless it names some.
    pub(super) fn conductor_tools(&mut self, agent: &'a Node, models: &Models<'a>) -> Option<Value> {
        let all = models.servers.iter().flat_map(|(_, new)| new);
        let Some(list) = agent.get("tools").and_then(Node::items) else {
            let all: Vec<&String> = all.collect();
            return (!all.is_empty()).then(|| json!(all));
        };
        let mut tools: Vec<String> = Vec::new();
        for item in list {
            let wanted = text_of(item);
            let (server, tool) = wanted.split_once("__").unwrap_or((&wanted, ""));
            match models.servers.iter().find(|(old, _)| old == server) {
                Some((_, new)) if tool.is_empty() => tools.extend(new.iter().cloned()),
                Some((old, _)) => tools.push(format!("{}.{tool}", sound(old, "server").replace('.', "-"))),
                None => {
                    let message = format!("the tool `{wanted}` is not converted: it belongs to the provider");
                    self.note(
                        item.span,
                        &message,
                        "write a tool of this name under `tools`, and name it at the agent",
                    );
                }
            }
        }
        (!tools.is_empty()).then(|| json!(tools))
    }
}

fn wanted_default(model: &str) -> bool {
    model.is_empty() || model.contains("{{")
}

/// A map of strings, in which `${NAME}` reads the environment.
pub(super) fn environment(map: &Node) -> Value {
    let pairs = entries(map).iter().map(|entry| {
        let text = match &entry.value.content {
            Content::Scalar(scalar) => scalar.text.to_string(),
            _ => String::new(),
        };
        let value = variable(&text).map_or_else(|| json!(text), |name| json!({"env": name}));
        (entry.key.to_string(), value)
    });
    Value::Object(pairs.collect())
}

/// The name in `${NAME}` or `${NAME:-default}`.
fn variable(text: &str) -> Option<String> {
    let inner = text.trim().strip_prefix("${")?.strip_suffix('}')?;
    let name = inner.split(':').next().unwrap_or(inner);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| name.to_owned())
}

/// The provider that offers a model with this name.
fn maker(model: &str) -> &'static str {
    let last = model.rsplit('/').next().unwrap_or(model);
    let makers = [
        ("claude", "anthropic"),
        ("gemini", "gemini"),
        ("gpt", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("grok", "xai"),
        ("deepseek", "deepseek"),
    ];
    if model.contains('/') {
        return "openrouter";
    }
    let found = makers.iter().find(|(beginning, _)| last.starts_with(beginning));
    found.map_or("ollama", |(_, provider)| provider)
}
