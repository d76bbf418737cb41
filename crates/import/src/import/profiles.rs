//! Model profiles: the profiles that the agents use are written to the new file, so that it needs no other file.

use serde_json::{Value, json};

use super::draft::{Line, Map, Shape};
use super::values::{json as value_of, text_of};
use super::{Task, entries, is_text, text};
use ensemble_language::loader::document::{Document, Entry, Node};
use ensemble_language::source::Source;

/// The profile of agents that were not converted.
pub(super) const PLACEHOLDER: &str = "not-carried-over";

/// The sources of profiles, and the profiles that are used.
pub(super) struct Profiles<'a> {
    /// The sources; the file itself is first.
    places: Vec<&'a Document>,
    /// The used profiles, in the order of their first use.
    used: Vec<(String, Shape)>,
    placeholder: bool,
}

impl<'a> Profiles<'a> {
    pub(super) fn of(document: &'a Document, configurations: &'a [Document]) -> Self {
        Self {
            places: std::iter::once(document).chain(configurations).collect(),
            used: Vec::new(),
            placeholder: false,
        }
    }

    pub(super) fn need_placeholder(&mut self) {
        self.placeholder = true;
    }

    /// A profile by its name: from a map, or from a file that contains one profile.
    fn find(&self, name: &str) -> Option<(&'a Source, &'a Node)> {
        self.places.iter().find_map(|place| {
            let root = place.root();
            let one = root.get("model_profiles").and_then(|all| all.get(name));
            let alone = || {
                let is_it = root.get("agents").is_none() && root.get("name").map(text_of).as_deref() == Some(name);
                is_it.then_some(root)
            };
            one.or_else(alone).map(|node| (place.source(), node))
        })
    }
}

/// The profile that always fails, with the reason.
pub(super) fn placeholder() -> Value {
    let error = "this agent was not converted from llm-orc; the comments in the file say what to write instead";
    json!({"provider": "simulated", "replies": [{"error": error}]})
}

/// The same, so that keys can be added and removed.
pub(super) fn placeholder_map() -> Map {
    let mut map = Map::default();
    for (key, value) in placeholder().as_object().into_iter().flatten() {
        map.put(key, value.clone(), None);
    }
    map
}

/// The line of an agent that uses it.
pub(super) fn placeholder_line() -> Line {
    Line::entry("model_profile", Shape::Plain(json!(PLACEHOLDER)), None)
}

/// Adds the placeholder to a draft that does not contain it yet.
pub(super) fn with_placeholder(draft: &mut Map) {
    if draft.get_mut("model_profiles").is_none() {
        draft
            .lines
            .push(Line::entry("model_profiles", Shape::Map(Map::default()), None));
    }
    if let Some(Shape::Map(all)) = draft.get_mut("model_profiles")
        && all.position(PLACEHOLDER).is_none()
    {
        all.put(PLACEHOLDER, placeholder(), None);
    }
}

impl<'a> Task<'a> {
    /// All profiles that the new file needs.
    pub(super) fn take_profiles(&mut self) -> Map {
        let mut all = Map::default();
        for (name, shape) in std::mem::take(&mut self.profiles.used) {
            all.lines.push(Line::entry(&name, shape, None));
        }
        if self.profiles.placeholder && all.position(PLACEHOLDER).is_none() {
            all.put(PLACEHOLDER, placeholder(), None);
        }
        all
    }

    /// Records that an agent uses a profile: returns the key and the value for the agent.
    pub(super) fn use_profile(
        &mut self,
        name: &str,
        entry: &Entry,
        overrides: &[&'a Entry],
        own_prompt: bool,
        agent: &str,
    ) -> (&'static str, String) {
        let Some((source, node)) = self.profiles.find(name) else {
            let message = format!("the model profile `{name}` is not found");
            let help = "write it under `model_profiles` here, or in `.ensemble/config.yaml`";
            self.note(entry.value.span, &message, help);
            for one in overrides {
                let message = format!("`{}` is not converted: it is part of the profile", one.key);
                self.note(one.key_span, &message, "write it in the model profile");
            }
            return ("model_profile", name.to_owned());
        };
        // In llm-orc, an agent's system prompt replaces that of its profile; here the two would be combined.
        let replaced = own_prompt && is_text(node.get("system_prompt"));
        if overrides.is_empty() && !replaced {
            self.add_profile(name, source, node, &[], false);
            return ("model_profile", name.to_owned());
        }
        let derived = format!("{name}-for-{agent}");
        self.add_profile(&derived, source, node, overrides, replaced);
        ("model_profile", derived)
    }

    /// Records that an agent names its model itself.
    pub(super) fn use_model(
        &mut self,
        model: &str,
        provider: Option<&str>,
        entry: &Entry,
        overrides: &[&'a Entry],
        agent: &str,
    ) -> (&'static str, String) {
        let provider = match provider {
            Some(provider) if !provider.trim().is_empty() => provider.to_owned(),
            _ if self.profiles.find(model).is_some() => {
                return self.use_profile(model, entry, overrides, false, agent);
            }
            _ => {
                let guess = provider_of(model);
                let message = format!("the model `{model}` has no provider; it is read as a model of {guess}");
                self.note(entry.value.span, &message, "write `model: provider/model`");
                guess.to_owned()
            }
        };
        let (known, remark) = provider_here(&provider);
        if overrides.is_empty() && remark.is_none() && known != "simulated" {
            return ("model", format!("{known}/{model}"));
        }
        let mut map = Map::default();
        self.provider(&mut map, &provider, self.document.source().clone(), entry);
        map.put("model", model, None);
        let source = self.document.source();
        for one in overrides {
            self.setting(&mut map, source, one);
        }
        let name = format!("model-of-{agent}");
        self.profiles.used.push((name.clone(), Shape::Map(map)));
        ("model_profile", name)
    }

    fn add_profile(
        &mut self,
        name: &str,
        source: &'a Source,
        node: &'a Node,
        overrides: &[&'a Entry],
        without_prompt: bool,
    ) {
        if self.profiles.used.iter().any(|(known, _)| known == name) {
            return;
        }
        // Its place in the order is before its fallbacks.
        let at = self.profiles.used.len();
        self.profiles.used.push((name.to_owned(), Shape::Map(Map::default())));
        let mut map = Map::default();
        for entry in entries(node) {
            match &*entry.key {
                "name" | "description" => {}
                "provider" => self.provider(&mut map, &text_of(&entry.value), source.clone(), entry),
                "system_prompt" if without_prompt => {}
                _ => self.setting(&mut map, source, entry),
            }
        }
        let own = self.document.source();
        for one in overrides {
            self.setting(&mut map, own, one);
        }
        if map.position("provider").is_none() {
            let message = format!("the model profile `{name}` has no provider; it is read as a model of ollama");
            self.note_in(source, node.span, &message, "write `provider`");
            map.lines
                .insert(0, Line::entry("provider", Shape::Plain(json!("ollama")), None));
        }
        if map.position("model").is_none() && !is_simulated(&mut map) {
            let message = format!("the model profile `{name}` has no model");
            self.note_in(source, node.span, &message, "write `model`");
            map.put("model", "unknown", None);
        }
        self.profiles.used[at].1 = Shape::Map(map);
    }

    fn provider(&mut self, map: &mut Map, provider: &str, source: Source, entry: &Entry) {
        let (known, remark) = provider_here(provider);
        if let Some(remark) = remark {
            let message = format!("the provider `{provider}` has become `{known}`");
            self.note_in(&source, entry.value.span, &message, remark);
        }
        map.put("provider", known, None);
        if known == "simulated" {
            map.put("replies", json!(["This is a simulated reply."]), None);
        }
    }

    /// Adds a key of a profile; a later key replaces an earlier one.
    fn setting(&mut self, map: &mut Map, source: &'a Source, entry: &'a Entry) {
        let value = value_of(&entry.value);
        let mut set = |key: &str, value: Value| {
            map.lines
                .retain(|line| !matches!(line, Line::Entry { key: known, .. } if known == key));
            map.put(key, value, None);
        };
        match (&*entry.key, &value) {
            (_, Value::Null) => {}
            ("system_prompt", Value::String(prompt)) => set("system_prompt", json!(text::literal(prompt))),
            ("model", _) => set("model", json!(text_of(&entry.value))),
            ("temperature" | "top_p" | "max_tokens" | "seed" | "timeout_seconds" | "base_url" | "api_key_env", _) => {
                set(&entry.key, value);
            }
            ("fallback_model_profile" | "fallback_profile" | "fallback_model" | "fallback", Value::String(other)) => {
                if let Some((place, node)) = self.profiles.find(other) {
                    set("fallback", json!(other));
                    self.add_profile(other, place, node, &[], false);
                } else {
                    let message = format!("the model profile `{other}` to fall back on is not found");
                    let help = "write it under `model_profiles`, and `fallback` here";
                    self.note_in(source, entry.value.span, &message, help);
                }
            }
            ("options", Value::Object(_)) => {
                let mut further = serde_json::Map::new();
                for option in entries(&entry.value) {
                    match &*option.key {
                        "num_predict" | "max_tokens" => set("max_tokens", value_of(&option.value)),
                        "temperature" | "top_p" | "seed" => set(&option.key, value_of(&option.value)),
                        key @ ("model" | "messages" | "system" | "stream" | "tools" | "format" | "n") => {
                            let message = format!("the option `{key}` is not converted: the program itself sets it");
                            self.note_in(source, option.key_span, &message, "leave it out");
                        }
                        key => drop(further.insert(key.to_owned(), value_of(&option.value))),
                    }
                }
                if !further.is_empty() {
                    set("options", Value::Object(further));
                }
            }
            // A price of 0 is not reported.
            ("cost_per_token", Value::Number(number)) if number.as_f64() == Some(0.0) => {}
            ("cost_per_token", Value::Number(number)) if number.as_f64().is_some_and(|price| price > 0.0) => {
                let price = per_million(number.as_f64().unwrap_or_default());
                set("cost", json!({"input_per_million": price, "output_per_million": price}));
            }
            (key, _) => {
                let message =
                    format!("`{key}` of the model profile is not converted: there is no equivalent in this language");
                self.note_in(source, entry.key_span, &message, "leave it out");
            }
        }
    }
}

/// The price of a million tokens, without the digits that the multiplication of binary fractions adds.
fn per_million(price: f64) -> Value {
    let text = format!("{:.9e}", price * 1e6);
    let rounded: f64 = text.parse().unwrap_or(price * 1e6);
    if rounded.fract() == 0.0 && rounded < 1e15 {
        return json!(format!("{rounded:.0}").parse::<u64>().unwrap_or_default());
    }
    json!(rounded)
}

fn is_simulated(map: &mut Map) -> bool {
    matches!(map.get_mut("provider"), Some(Shape::Plain(provider)) if *provider == json!("simulated"))
}

/// The agents that use a model with this name.
fn provider_of(model: &str) -> &'static str {
    let makers = [
        ("anthropic", "anthropic"),
        ("claude", "anthropic"),
        ("gemini", "gemini"),
        ("gpt", "openai"),
    ];
    let found = makers.iter().find(|(beginning, _)| model.starts_with(beginning));
    found.map_or("ollama", |(_, provider)| provider)
}

/// The name of a provider in this language, and a message if it differs.
fn provider_here(provider: &str) -> (&str, Option<&'static str>) {
    match provider {
        "anthropic-api" => ("anthropic", None),
        "anthropic-claude-pro-max" => (
            "anthropic",
            Some("a subscription cannot be used: name the variable with an API key in `api_key_env`"),
        ),
        "google-gemini" | "google" => ("gemini", None),
        "openai-compatible" => ("openai", Some("write the server's address as `base_url`")),
        "mock" => ("simulated", Some("write what it replies under `replies`")),
        other if other.starts_with("openai-compatible/") => {
            ("openai", Some("write the server's address as `base_url`"))
        }
        other => (other, None),
    }
}
