//! Providers, models, prices and MCP servers.

use serde_json::{Map as JsonMap, Value, json};

use super::super::agent_names::sanitize_name;
use super::super::draft::{DraftMap, DraftValue};
use super::super::values::{scalar_or_empty_text, to_json as value_of};
use super::super::{ImportTask, list_map_entries};
use ensemble_language::loader::document::{YamlContent, YamlEntry, YamlNode};
use ensemble_language::source::Span;

/// Name of the profile of agents that name no model.
const DEFAULT_PROFILE: &str = "default";

/// Model profiles, tools and settings that the agents of a workflow share.
pub(super) struct WorkflowModels<'a> {
    runtime: Option<&'a YamlNode>,
    pricing: Option<&'a YamlNode>,
    /// The profiles with the provider, the model and the effort that they stand for.
    profiles: Vec<(String, [String; 3], Value)>,
    tools: DraftMap,
    /// The names of the servers, and what an agent names to use them.
    servers: Vec<(String, Vec<String>)>,
}

impl<'a> WorkflowModels<'a> {
    /// Creates the settings of the workflow, without profiles and tools yet.
    pub(super) fn from_workflow(workflow: Option<&'a YamlNode>) -> Self {
        Self {
            runtime: workflow.and_then(|workflow| workflow.get("runtime")),
            pricing: workflow
                .and_then(|workflow| workflow.get("cost"))
                .and_then(|cost| cost.get("pricing")),
            profiles: Vec::new(),
            tools: DraftMap::default(),
            servers: Vec::new(),
        }
    }

    /// Returns the collected profiles and removes them.
    pub(super) fn take_profile_drafts(&mut self) -> DraftMap {
        let mut all = DraftMap::default();
        for (name, _, value) in std::mem::take(&mut self.profiles) {
            all.put_plain_value(&name, value, None);
        }
        all
    }

    /// Returns the collected tools and removes them.
    pub(super) fn take_tool_drafts(&mut self) -> DraftMap {
        std::mem::take(&mut self.tools)
    }

    /// Returns the setting of `runtime` if it is not null.
    fn runtime_setting(&self, key: &str) -> Option<&'a YamlNode> {
        let node = self.runtime?.get(key)?;
        (value_of(node) != Value::Null).then_some(node)
    }

    /// Returns the provider of the workflow, `copilot` by default, and its settings if there are any.
    fn default_provider_and_settings(&self) -> (String, Option<&'a YamlNode>) {
        match self.runtime_setting("provider") {
            Some(node) if node.get("name").is_some() => (
                node.get("name").map(scalar_or_empty_text).unwrap_or_default(),
                Some(node),
            ),
            Some(node) if list_map_entries(node).is_empty() => (scalar_or_empty_text(node), None),
            Some(node) => ("copilot".to_owned(), Some(node)),
            None => ("copilot".to_owned(), None),
        }
    }

    /// Returns the setting for the number of requests of an agent that calls tools.
    pub(super) fn max_agent_iterations(&self) -> Option<Value> {
        self.runtime_setting("max_agent_iterations").map(value_of)
    }
}

impl<'a> ImportTask<'a> {
    /// Returns the name of the profile for the agent. Adds a profile if none has the same provider, model and effort.
    pub(super) fn find_or_add_model_profile(
        &mut self,
        agent: &'a YamlNode,
        span: Span,
        models: &mut WorkflowModels<'a>,
    ) -> String {
        let (shared, settings) = models.default_provider_and_settings();
        let provider = agent
            .get("provider")
            .map(scalar_or_empty_text)
            .filter(|text| !text.is_empty());
        let settings = settings.filter(|_| provider.as_ref().is_none_or(|own| *own == shared));
        let provider = provider.unwrap_or(shared);
        let model = agent
            .get("model")
            .or_else(|| models.runtime_setting("default_model"))
            .map(scalar_or_empty_text);
        let model = model.filter(|model| !model.trim().is_empty()).unwrap_or_default();
        let effort = agent.get("reasoning").and_then(|reasoning| reasoning.get("effort"));
        let effort = effort
            .or_else(|| models.runtime_setting("default_reasoning_effort"))
            .map(scalar_or_empty_text);
        let key = [provider.clone(), model.clone(), effort.clone().unwrap_or_default()];
        if let Some((name, ..)) = models.profiles.iter().find(|(_, known, _)| *known == key) {
            return name.clone();
        }
        let computed = model.contains("{{");
        let wanted_name = if model.is_empty() || computed {
            DEFAULT_PROFILE
        } else {
            &model
        };
        let wanted_name = sanitize_name(wanted_name, DEFAULT_PROFILE);
        let is_taken = |name: &str| models.profiles.iter().any(|(known, ..)| known == name);
        let name = (1..)
            .map(|number| {
                if number == 1 {
                    wanted_name.clone()
                } else {
                    format!("{wanted_name}-{number}")
                }
            })
            .find(|name| !is_taken(name))
            .unwrap_or(wanted_name);
        let value = if needs_default_profile(&model) {
            let message = if computed {
                format!("the model `{model}` is not known before the run")
            } else {
                format!("the workflow names no model, and the default of `{provider}` is not known")
            };
            let help = format!("write `provider` and `model` in the profile `{name}`");
            self.add_remark_and_warning(span, &message, &help);
            json!({"provider": "simulated", "replies": [{"error": "the workflow names no model: write `provider` and `model` in this profile"}]})
        } else {
            self.build_model_profile(&provider, &model, effort.as_deref(), settings, span, models)
        };
        models.profiles.push((name.clone(), key, value));
        name
    }

    /// Builds a profile from provider, model, effort, settings and prices. Reports an unknown provider.
    fn build_model_profile(
        &mut self,
        provider: &str,
        model: &str,
        effort: Option<&str>,
        settings: Option<&'a YamlNode>,
        span: Span,
        models: &WorkflowModels<'a>,
    ) -> Value {
        let known_provider = match provider {
            "claude" | "anthropic" => "anthropic",
            "openai" => "openai",
            _ => {
                let guess = guess_provider_of_model(model);
                let message = format!("the provider `{provider}` is not supported; {guess} is used for `{model}`");
                let help = "write another `provider` in the model profile if you have no key for this one";
                self.add_remark_and_warning(span, &message, help);
                guess
            }
        };
        let mut profile = JsonMap::new();
        profile.insert("provider".to_owned(), json!(known_provider));
        profile.insert("model".to_owned(), json!(model));
        for key in ["temperature", "max_tokens"] {
            if let Some(node) = models.runtime_setting(key) {
                profile.insert(key.to_owned(), value_of(node));
            }
        }
        if let Some(node) = models.runtime_setting("timeout") {
            profile.insert("timeout_seconds".to_owned(), value_of(node));
        }
        for entry in settings.map_or(&[][..], list_map_entries) {
            self.convert_provider_setting(&mut profile, entry);
        }
        match effort {
            Some(effort) if known_provider == "openai" => {
                profile.insert("options".to_owned(), json!({"reasoning_effort": effort}));
            }
            Some(effort) => {
                let message = format!("the reasoning effort `{effort}` of `{model}` is not converted");
                let help = "write the parameter of the provider under `options` in the model profile";
                self.add_remark_and_warning(span, &message, help);
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

    /// Converts one setting of a provider. Reports a setting without an equivalent.
    fn convert_provider_setting(&mut self, profile: &mut JsonMap<String, Value>, entry: &'a YamlEntry) {
        let text = scalar_or_empty_text(&entry.value);
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
            "api_key" | "bearer_token" | "auth_token" => match parse_variable_reference(&text) {
                Some(name) => drop(profile.insert("api_key_env".to_owned(), json!(name))),
                None => self.add_remark_and_warning(
                    entry.key_span,
                    &format!("`{}` is not converted: a file must not contain API keys", entry.key),
                    "write the name of an environment variable as `api_key_env`",
                ),
            },
            key => {
                let message =
                    format!("`{key}` of the provider is not converted: there is no equivalent in this language");
                self.add_remark_and_warning(
                    entry.key_span,
                    &message,
                    "leave it out, or write `headers` and `options` in the model profile",
                );
            }
        }
    }

    /// Converts MCP servers to tools.
    pub(super) fn convert_mcp_servers(&mut self, node: &'a YamlNode, models: &mut WorkflowModels<'a>) {
        for entry in list_map_entries(node) {
            let server: &YamlNode = &entry.value;
            let name: String = sanitize_name(&entry.key, "server").replace('.', "-");
            let mut mcp = JsonMap::new();
            if let Some(url) = server.get("url") {
                mcp.insert("url".to_owned(), json!(scalar_or_empty_text(url)));
            }
            if let Some(command) = server.get("command") {
                let mut words = vec![json!(scalar_or_empty_text(command))];
                let arguments = server.get("args").and_then(YamlNode::items).unwrap_or_default();
                words.extend(arguments.iter().map(|node| json!(scalar_or_empty_text(node))));
                mcp.insert("command".to_owned(), Value::Array(words));
            }
            for key in ["env", "headers"] {
                let Some(map) = server.get(key).filter(|map| !list_map_entries(map).is_empty()) else {
                    continue;
                };
                mcp.insert(key.to_owned(), convert_environment_map(map));
            }
            let mut tool = DraftMap::default();
            tool.put_plain_value("mcp", Value::Object(mcp), None);
            let some: Vec<String> = server
                .get("tools")
                .and_then(YamlNode::items)
                .unwrap_or_default()
                .iter()
                .map(|tool| scalar_or_empty_text(tool))
                .collect();
            let used = if some.iter().any(|tool| tool == "*") || some.is_empty() {
                vec![name.clone()]
            } else {
                some.iter().map(|tool| format!("{name}.{tool}")).collect()
            };
            models.servers.push((entry.key.to_string(), used));
            models
                .tools
                .put_draft_value(&name, DraftValue::Map(tool), entry.key_span);
        }
    }

    /// Returns the tools of an agent: the named tools, or all servers. Reports unknown servers.
    pub(super) fn convert_agent_tools(&mut self, agent: &'a YamlNode, models: &WorkflowModels<'a>) -> Option<Value> {
        let all = models.servers.iter().flat_map(|(_, new)| new);
        let Some(list) = agent.get("tools").and_then(YamlNode::items) else {
            let all: Vec<&String> = all.collect();
            return (!all.is_empty()).then(|| json!(all));
        };
        let mut tools: Vec<String> = Vec::new();
        for item in list {
            let tool_name = scalar_or_empty_text(item);
            let (server, tool) = tool_name.split_once("__").unwrap_or((&tool_name, ""));
            match models.servers.iter().find(|(old, _)| old == server) {
                Some((_, new)) if tool.is_empty() => tools.extend(new.iter().cloned()),
                Some((old, _)) => tools.push(format!("{}.{tool}", sanitize_name(old, "server").replace('.', "-"))),
                None => {
                    let message = format!("the tool `{tool_name}` is not converted: it belongs to the provider");
                    self.add_remark_and_warning(
                        item.span,
                        &message,
                        "define a tool of this name under `tools`, and add it to `tools` of the agent",
                    );
                }
            }
        }
        (!tools.is_empty()).then(|| json!(tools))
    }
}

/// Returns whether the model is missing or computed by a template, so that the agent uses the default profile.
fn needs_default_profile(model: &str) -> bool {
    model.is_empty() || model.contains("{{")
}

/// Converts a map of strings. `${NAME}` becomes a reference to an environment variable.
pub(super) fn convert_environment_map(map: &YamlNode) -> Value {
    let pairs = list_map_entries(map).iter().map(|entry| {
        let text = match &entry.value.content {
            YamlContent::Scalar(scalar) => scalar.text.to_string(),
            _ => String::new(),
        };
        let value = parse_variable_reference(&text).map_or_else(|| json!(text), |name| json!({"env": name}));
        (entry.key.to_string(), value)
    });
    Value::Object(pairs.collect())
}

/// Returns the name in `${NAME}` or `${NAME:-default}`. Returns `None` for other texts.
fn parse_variable_reference(text: &str) -> Option<String> {
    let inner = text.trim().strip_prefix("${")?.strip_suffix('}')?;
    let name = inner.split(':').next().unwrap_or(inner);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| name.to_owned())
}

/// Returns the likely provider of the model, by the name of the model.
fn guess_provider_of_model(model: &str) -> &'static str {
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
    let maker = makers.iter().find(|(beginning, _)| last.starts_with(beginning));
    maker.map_or("ollama", |(_, provider)| provider)
}
