//! Model profiles: the profiles that the agents use are written to the new file, so that it needs no other file.

use serde_json::{Value, json};

use super::draft::{DraftMap, DraftMapLine, DraftValue};
use super::values::{scalar_or_empty_text, to_json as value_of};
use super::{ImportTask, has_nonblank_text, list_map_entries, template_text};
use ensemble_language::loader::document::{YamlDocument, YamlEntry, YamlNode};
use ensemble_language::source::SourceText;

/// The profile of agents that were not converted.
pub(super) const PLACEHOLDER_PROFILE: &str = "not-carried-over";

/// Sources of model profiles, and the profiles that the agents use.
pub(super) struct ProfileCollector<'a> {
    /// The sources; the file itself is first.
    places: Vec<&'a YamlDocument>,
    /// The used profiles, in the order of their first use.
    used: Vec<(String, DraftValue)>,
    placeholder: bool,
}

impl<'a> ProfileCollector<'a> {
    /// Creates a collector. Profiles of the imported file have precedence over those of the configurations.
    pub(super) fn from_documents(document: &'a YamlDocument, configurations: &'a [YamlDocument]) -> Self {
        Self {
            places: std::iter::once(document).chain(configurations).collect(),
            used: Vec::new(),
            placeholder: false,
        }
    }

    /// Marks the placeholder profile as needed by the new file.
    pub(super) fn mark_placeholder_needed(&mut self) {
        self.placeholder = true;
    }

    /// Returns the profile with this name and its source: from a map, or from a file with a single profile.
    fn find_source_profile(&self, name: &str) -> Option<(&'a SourceText, &'a YamlNode)> {
        self.places.iter().find_map(|place| {
            let root = place.root();
            let named_node = root.get("model_profiles").and_then(|all| all.get(name));
            let alone = || {
                let is_it =
                    root.get("agents").is_none() && root.get("name").map(scalar_or_empty_text).as_deref() == Some(name);
                is_it.then_some(root)
            };
            named_node.or_else(alone).map(|node| (place.source(), node))
        })
    }
}

/// Builds a profile whose model always fails with the reason.
pub(super) fn build_placeholder_profile() -> Value {
    let error = "this agent was not converted from llm-orc; the comments in the file say what to write instead";
    json!({"provider": "simulated", "replies": [{"error": error}]})
}

/// Builds the placeholder profile as a draft, for changes.
pub(super) fn placeholder_draft() -> DraftMap {
    let mut map = DraftMap::default();
    for (key, value) in build_placeholder_profile().as_object().into_iter().flatten() {
        map.put_plain_value(key, value.clone(), None);
    }
    map
}

/// Builds the line of an agent that uses the placeholder profile.
pub(super) fn placeholder_line() -> DraftMapLine {
    DraftMapLine::new_entry("model_profile", DraftValue::Plain(json!(PLACEHOLDER_PROFILE)), None)
}

/// Adds the placeholder profile to the draft, unless the draft contains the profile.
pub(super) fn add_placeholder_profile(draft: &mut DraftMap) {
    if draft.get_value_mut("model_profiles").is_none() {
        draft.lines.push(DraftMapLine::new_entry(
            "model_profiles",
            DraftValue::Map(DraftMap::default()),
            None,
        ));
    }
    if let Some(DraftValue::Map(all)) = draft.get_value_mut("model_profiles")
        && all.find_line_index(PLACEHOLDER_PROFILE).is_none()
    {
        all.put_plain_value(PLACEHOLDER_PROFILE, build_placeholder_profile(), None);
    }
}

impl<'a> ImportTask<'a> {
    /// Returns the used profiles and the placeholder if needed. Removes the used profiles.
    pub(super) fn take_used_profiles(&mut self) -> DraftMap {
        let mut all = DraftMap::default();
        for (name, shape) in std::mem::take(&mut self.profiles.used) {
            all.lines.push(DraftMapLine::new_entry(&name, shape, None));
        }
        if self.profiles.placeholder && all.find_line_index(PLACEHOLDER_PROFILE).is_none() {
            all.put_plain_value(PLACEHOLDER_PROFILE, build_placeholder_profile(), None);
        }
        all
    }

    /// Adds the profile to the used profiles, or a derived profile if the agent overrides settings. Reports an unknown profile.
    /// Returns the key and the value for the agent.
    pub(super) fn register_used_profile(
        &mut self,
        name: &str,
        entry: &YamlEntry,
        overrides: &[&'a YamlEntry],
        own_prompt: bool,
        agent: &str,
    ) -> (&'static str, String) {
        let Some((source, node)) = self.profiles.find_source_profile(name) else {
            let message = format!("unknown model profile `{name}`");
            let help = "add it to `model_profiles` in this file, or in `.ensemble/config.yaml`";
            self.add_remark_and_warning(entry.value.span, &message, help);
            for override_entry in overrides {
                let message = format!(
                    "`{}` is not converted: it belongs to the model profile",
                    override_entry.key
                );
                self.add_remark_and_warning(override_entry.key_span, &message, "write it in the model profile");
            }
            return ("model_profile", name.to_owned());
        };
        // In llm-orc, an agent's system prompt replaces that of its profile; here the two would be combined.
        let replaced = own_prompt && has_nonblank_text(node.get("system_prompt"));
        if overrides.is_empty() && !replaced {
            self.add_used_profile(name, source, node, &[], false);
            return ("model_profile", name.to_owned());
        }
        let derived = format!("{name}-for-{agent}");
        self.add_used_profile(&derived, source, node, overrides, replaced);
        ("model_profile", derived)
    }

    /// Adds a profile for an agent that names its model directly. Returns the key and value for the agent.
    pub(super) fn register_used_model(
        &mut self,
        model: &str,
        provider: Option<&str>,
        entry: &YamlEntry,
        overrides: &[&'a YamlEntry],
        agent: &str,
    ) -> (&'static str, String) {
        let provider = match provider {
            Some(provider) if !provider.trim().is_empty() => provider.to_owned(),
            _ if self.profiles.find_source_profile(model).is_some() => {
                return self.register_used_profile(model, entry, overrides, false, agent);
            }
            _ => {
                let guess = guess_provider_by_model(model);
                let message = format!("the model `{model}` has no provider; {guess} is assumed");
                self.add_remark_and_warning(entry.value.span, &message, "write `model: provider/model`");
                guess.to_owned()
            }
        };
        let (known, remark) = translate_provider(&provider);
        if overrides.is_empty() && remark.is_none() && known != "simulated" {
            return ("model", format!("{known}/{model}"));
        }
        let mut map = DraftMap::default();
        self.convert_provider_name(&mut map, &provider, self.document.source().clone(), entry);
        map.put_plain_value("model", model, None);
        let source = self.document.source();
        for override_entry in overrides {
            self.convert_profile_key(&mut map, source, override_entry);
        }
        let name = format!("model-of-{agent}");
        self.profiles.used.push((name.clone(), DraftValue::Map(map)));
        ("model_profile", name)
    }

    /// Converts the profile and its fallbacks, and adds them to the used profiles, unless the name is known.
    fn add_used_profile(
        &mut self,
        name: &str,
        source: &'a SourceText,
        node: &'a YamlNode,
        overrides: &[&'a YamlEntry],
        without_prompt: bool,
    ) {
        if self.profiles.used.iter().any(|(known, _)| known == name) {
            return;
        }
        // Its place in the order is before its fallbacks.
        let at = self.profiles.used.len();
        self.profiles
            .used
            .push((name.to_owned(), DraftValue::Map(DraftMap::default())));
        let mut map = DraftMap::default();
        for entry in list_map_entries(node) {
            match &*entry.key {
                "name" | "description" => {}
                "provider" => {
                    self.convert_provider_name(&mut map, &scalar_or_empty_text(&entry.value), source.clone(), entry)
                }
                "system_prompt" if without_prompt => {}
                _ => self.convert_profile_key(&mut map, source, entry),
            }
        }
        let own_source = self.document.source();
        for override_entry in overrides {
            self.convert_profile_key(&mut map, own_source, override_entry);
        }
        if map.find_line_index("provider").is_none() {
            let message = format!("the model profile `{name}` has no provider; ollama is assumed");
            self.add_remark_for_source(source, node.span, &message, "write `provider`");
            map.lines.insert(
                0,
                DraftMapLine::new_entry("provider", DraftValue::Plain(json!("ollama")), None),
            );
        }
        if map.find_line_index("model").is_none() && !has_simulated_provider(&mut map) {
            let message = format!("the model profile `{name}` has no model");
            self.add_remark_for_source(source, node.span, &message, "write `model`");
            map.put_plain_value("model", "unknown", None);
        }
        self.profiles.used[at].1 = DraftValue::Map(map);
    }

    /// Converts the name of a provider. Reports a changed name. Adds replies for a simulated provider.
    fn convert_provider_name(&mut self, map: &mut DraftMap, provider: &str, source: SourceText, entry: &YamlEntry) {
        let (known, remark) = translate_provider(provider);
        if let Some(remark) = remark {
            let message = format!("the provider `{provider}` was changed to `{known}`");
            self.add_remark_for_source(&source, entry.value.span, &message, remark);
        }
        map.put_plain_value("provider", known, None);
        if known == "simulated" {
            map.put_plain_value("replies", json!(["This is a simulated reply."]), None);
        }
    }

    /// Converts a key of a profile. A later key replaces an earlier key.
    fn convert_profile_key(&mut self, map: &mut DraftMap, source: &'a SourceText, entry: &'a YamlEntry) {
        let value = value_of(&entry.value);
        let mut set = |key: &str, value: Value| {
            map.lines
                .retain(|line| !matches!(line, DraftMapLine::Entry { key: known, .. } if known == key));
            map.put_plain_value(key, value, None);
        };
        match (&*entry.key, &value) {
            (_, Value::Null) => {}
            ("system_prompt", Value::String(prompt)) => {
                set("system_prompt", json!(template_text::escape_as_template(prompt)))
            }
            ("model", _) => set("model", json!(scalar_or_empty_text(&entry.value))),
            ("temperature" | "top_p" | "max_tokens" | "seed" | "timeout_seconds" | "base_url" | "api_key_env", _) => {
                set(&entry.key, value);
            }
            ("fallback_model_profile" | "fallback_profile" | "fallback_model" | "fallback", Value::String(other)) => {
                if let Some((place, node)) = self.profiles.find_source_profile(other) {
                    set("fallback", json!(other));
                    self.add_used_profile(other, place, node, &[], false);
                } else {
                    let message = format!("unknown model profile `{other}`, the fallback of this profile");
                    let help = "add it to `model_profiles`, and write its name as `fallback` here";
                    self.add_remark_for_source(source, entry.value.span, &message, help);
                }
            }
            ("options", Value::Object(_)) => {
                let mut further = serde_json::Map::new();
                for option in list_map_entries(&entry.value) {
                    match &*option.key {
                        "num_predict" | "max_tokens" => set("max_tokens", value_of(&option.value)),
                        "temperature" | "top_p" | "seed" => set(&option.key, value_of(&option.value)),
                        key @ ("model" | "messages" | "system" | "stream" | "tools" | "format" | "n") => {
                            let message = format!("the option `{key}` is not converted: the program itself sets it");
                            self.add_remark_for_source(source, option.key_span, &message, "leave it out");
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
                let price = price_per_million(number.as_f64().unwrap_or_default());
                set("cost", json!({"input_per_million": price, "output_per_million": price}));
            }
            (key, _) => {
                let message =
                    format!("`{key}` of the model profile is not converted: there is no equivalent in this language");
                self.add_remark_for_source(source, entry.key_span, &message, "leave it out");
            }
        }
    }
}

/// Returns the price of a million tokens, rounded to remove errors of binary fractions.
fn price_per_million(price: f64) -> Value {
    let text = format!("{:.9e}", price * 1e6);
    let rounded: f64 = text.parse().unwrap_or(price * 1e6);
    if rounded.fract() == 0.0 && rounded < 1e15 {
        return json!(format!("{rounded:.0}").parse::<u64>().unwrap_or_default());
    }
    json!(rounded)
}

/// Returns whether the profile uses the simulated provider.
fn has_simulated_provider(map: &mut DraftMap) -> bool {
    matches!(map.get_value_mut("provider"), Some(DraftValue::Plain(provider)) if *provider == json!("simulated"))
}

/// Returns the likely provider of the model, by the start of the name.
fn guess_provider_by_model(model: &str) -> &'static str {
    let makers = [
        ("anthropic", "anthropic"),
        ("claude", "anthropic"),
        ("gemini", "gemini"),
        ("gpt", "openai"),
    ];
    let maker = makers.iter().find(|(beginning, _)| model.starts_with(beginning));
    maker.map_or("ollama", |(_, provider)| provider)
}

/// Returns the name of the provider in this language, and a message if the user must act.
fn translate_provider(provider: &str) -> (&str, Option<&'static str>) {
    match provider {
        "anthropic-api" => ("anthropic", None),
        "anthropic-claude-pro-max" => (
            "anthropic",
            Some("a subscription cannot be used: name the variable with an API key in `api_key_env`"),
        ),
        "google-gemini" | "google" => ("gemini", None),
        "openai-compatible" => ("openai", Some("write the server's address as `base_url`")),
        "mock" => ("simulated", Some("write the replies of the model under `replies`")),
        other if other.starts_with("openai-compatible/") => {
            ("openai", Some("write the server's address as `base_url`"))
        }
        other => (other, None),
    }
}
