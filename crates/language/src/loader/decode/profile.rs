//! `model_profiles`, in an ensemble and in the configuration.

use std::collections::HashMap;
use std::sync::Arc;

use super::decode_reference;
use super::limits;
use super::options::decode_options;
use super::provider_access;
use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::{
    ConfiguredHeader, ModelProfile, RateLimit, SimulatedReply, SimulatedReplySource, SimulatedToolCall,
};
use crate::loader::codes;
use crate::loader::document::{ScalarValue, YamlContent, YamlDocument};
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_nonempty_list, decode_number_within, decode_positive_integer, decode_seconds,
    decode_text, report_out_of_range, report_wrong_type,
};
use crate::vocabulary::FileSection;

/// The profiles in file order.
pub(in crate::loader) type NamedProfiles = Vec<(Arc<str>, ModelProfile)>;

/// Decodes the `model_profiles` of a configuration file.
pub(in crate::loader) fn decode_config_profiles(
    document: &YamlDocument,
    findings: &mut LimitedFindingList,
) -> Option<NamedProfiles> {
    let root = NodeCursor::from_root(document.root());
    let fields = SectionFields::from_map(&root, FileSection::Config, findings)?;
    match fields.get("model_profiles") {
        Some(at) => decode_profiles(&at, findings),
        None => Some(Vec::new()),
    }
}

/// Decodes `model_profiles`. An empty value is allowed, for example if every profile is commented out.
pub(super) fn decode_profiles(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<NamedProfiles> {
    if matches!(&at.node.content, YamlContent::Scalar(scalar) if scalar.value == ScalarValue::Null) {
        return Some(Vec::new());
    }
    let mut profiles = Vec::new();
    let mut sound = true;
    for (name, entry) in at.require_entries("a map from names to profiles", findings)? {
        match decode_profile(&entry, findings) {
            Some(profile) => profiles.push((name.clone(), profile)),
            None => sound = false,
        }
    }
    check_fallback_cycles(at, &profiles, findings);
    sound.then_some(profiles)
}

/// Decodes one model profile, and reports all its problems.
fn decode_profile(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<ModelProfile> {
    let fields = SectionFields::from_map(at, FileSection::Profile, findings)?;
    let help = "for example, write `provider: ollama`; `provider: simulated` needs no network";
    let provider = fields.decode_required("provider", help, findings, provider_access::decode_provider);
    let simulated = provider.as_deref() == Some("simulated");
    let model = match fields.get("model") {
        Some(at) => decode_reference(&at, findings),
        None if simulated || provider.is_none() => Some("".into()),
        None => fields.decode_required(
            "model",
            "write the name that the provider uses for the model",
            findings,
            decode_reference,
        ),
    };
    let answers = decode_simulated_replies(&fields, simulated, provider.is_some(), findings);
    let profile = ModelProfile {
        provider: provider.clone().unwrap_or_default(),
        model: model.clone().unwrap_or_default(),
        base_url: fields.decode_optional("base_url", findings, provider_access::decode_base_url),
        api_key_env: fields.decode_optional("api_key_env", findings, |at, findings| {
            provider_access::decode_environment_variable("api_key_env", at, findings)
        }),
        headers: fields
            .decode_optional("headers", findings, provider_access::decode_headers)
            .unwrap_or_default(),
        system_prompt: fields.decode_optional("system_prompt", findings, decode_text),
        temperature: fields.decode_optional("temperature", findings, |at, f| decode_number_within(at, 0.0, 10.0, f)),
        top_p: fields.decode_optional("top_p", findings, |at, f| decode_number_within(at, 0.0, 1.0, f)),
        max_tokens: fields.decode_optional("max_tokens", findings, decode_positive_integer),
        context_window: fields.decode_optional("context_window", findings, decode_positive_integer),
        seed: fields.decode_optional("seed", findings, decode_seed),
        options: fields
            .decode_optional("options", findings, decode_options)
            .unwrap_or_default(),
        timeout: fields.decode_optional("timeout_seconds", findings, decode_seconds),
        retry: fields.decode_optional("retry", findings, limits::decode_retry),
        fallback: fields.decode_optional("fallback", findings, decode_reference),
        cost: fields.decode_optional("cost", findings, provider_access::decode_token_price),
        rate_limit: fields.decode_optional("rate_limit", findings, decode_rate_limit),
        without_prompt_cache: fields.decode_optional("prompt_cache", findings, decode_bool) == Some(false),
        simulated: answers,
    };
    if let (Some(at), Some(url)) = (fields.get("base_url"), &profile.base_url)
        && sends_secret(&profile)
    {
        provider_access::check_private_url(&at, url, findings);
    }
    (provider.is_some() && model.is_some() && (profile.simulated.is_some() || !simulated)).then_some(profile)
}

/// Returns whether requests with this profile contain a key or a value of an environment variable.
fn sends_secret(profile: &ModelProfile) -> bool {
    let is_value = |(_, header): &(String, ConfiguredHeader)| matches!(header, ConfiguredHeader::Env(_));
    profile.api_key_env.is_some() || profile.headers.iter().any(is_value)
}

/// Decodes `rate_limit`.
fn decode_rate_limit(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<RateLimit> {
    let fields = SectionFields::from_map(at, FileSection::RateLimit, findings)?;
    Some(RateLimit {
        requests_per_minute: fields.decode_optional("requests_per_minute", findings, decode_positive_integer),
        tokens_per_minute: fields.decode_optional("tokens_per_minute", findings, decode_positive_integer),
        concurrent: fields.decode_optional("concurrent", findings, decode_positive_integer),
    })
}

/// Decodes `replies` or `script`: exactly one for a simulated model, and neither for other models. `known`: the provider is known.
fn decode_simulated_replies(
    fields: &SectionFields<'_>,
    simulated: bool,
    known: bool,
    findings: &mut LimitedFindingList,
) -> Option<SimulatedReplySource> {
    let (replies, script) = (fields.get("replies"), fields.get("script"));
    if !simulated {
        for at in [&replies, &script].into_iter().flatten().filter(|_| known) {
            let message = "this key is only allowed for a simulated model";
            let finding = Finding::new_error(codes::SIMULATED, at.key_location(), message);
            findings.push(finding.with_help("write `provider: simulated`, or remove the key"));
        }
        return None;
    }
    let help = "add `replies: [text, …]` or `script: file.rhai`";
    if replies.is_none() && script.is_none() {
        let at = fields.at.route().with_key("provider").into_value_location();
        findings.push(Finding::new_error(codes::SIMULATED, at, "this simulated model has no replies").with_help(help));
        return None;
    }
    let codes = [codes::SIMULATED, codes::SIMULATED];
    let (key, given) = fields.require_exactly_one(&["replies", "script"], codes, help, findings)?;
    match key {
        "replies" => self::decode_replies(&given, findings).map(SimulatedReplySource::Replies),
        _ => decode_reference(&given, findings).map(|script| SimulatedReplySource::Script(script.to_string())),
    }
}

/// Decodes the replies of a simulated model: at least one.
fn decode_replies(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<SimulatedReply>> {
    let rule = "a simulated model needs at least one reply";
    decode_nonempty_list(at, "a list of replies", rule, findings, decode_reply)
}

/// Decodes a reply: a text or a map.
fn decode_reply(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<SimulatedReply> {
    if let YamlContent::Mapping(_) = at.node.content {
        let fields = SectionFields::from_map(at, FileSection::Reply, findings)?;
        return decode_reply_map(&fields, findings);
    }
    decode_text(at, findings).map(SimulatedReply::Text)
}

/// Decodes a reply as a map: `{error}`, or `{text, tool_calls}`.
fn decode_reply_map(fields: &SectionFields<'_>, findings: &mut LimitedFindingList) -> Option<SimulatedReply> {
    let Some(at) = fields.get("tool_calls") else {
        if let Some(text) = fields.get("text") {
            let finding = Finding::new_error(codes::MISSING, text.key_location(), "`tool_calls` is missing");
            findings.push(finding.with_help("write a reply that is only text as a string, without a map"));
            return None;
        }
        let help = "a reply must be a string, `{error: text}` or `{tool_calls: [{name, arguments}]}`";
        return fields
            .decode_required("error", help, findings, decode_text)
            .map(SimulatedReply::Error);
    };
    if let Some(error) = fields.get("error") {
        let finding = Finding::new_error(
            codes::SIMULATED,
            error.key_location(),
            "a reply must not have both `error` and `tool_calls`",
        );
        findings.push(
            finding
                .with_related(at.key_location(), "the calls")
                .with_help("keep one of them"),
        );
    }
    let reply_text = match fields.get("text") {
        Some(at) => decode_text(&at, findings),
        None => Some(String::new()),
    };
    let rule = "`tool_calls` must have at least one call";
    let tool_calls = decode_nonempty_list(&at, "a list of calls", rule, findings, decode_tool_call);
    Some(SimulatedReply::Calls {
        text: reply_text?,
        tool_calls: tool_calls?,
    })
}

/// Decodes a tool call in a reply of a simulated model.
fn decode_tool_call(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<SimulatedToolCall> {
    let fields = SectionFields::from_map(at, FileSection::CalledTool, findings)?;
    let help = "write the tool's name";
    let name = fields.decode_required("name", help, findings, decode_reference);
    let arguments = match fields.get("arguments") {
        Some(at) => json::decode_json_map(&at, findings),
        None => Some(JsonMap::new()),
    };
    Some(SimulatedToolCall {
        name: name?.to_string(),
        arguments: arguments?,
    })
}

/// Decodes a seed: any integer of 64 bits.
fn decode_seed(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<i64> {
    if let YamlContent::Scalar(scalar) = &at.node.content {
        match scalar.value {
            ScalarValue::Int(value) => return Some(value),
            ScalarValue::Unsigned(_) => {
                report_out_of_range(at, &format!("an integer of at most {}", i64::MAX), findings);
                return None;
            }
            _ => {}
        }
    }
    report_wrong_type(at, "an integer", findings);
    None
}

/// Reports every cycle of fallbacks once, at its first profile in the file.
fn check_fallback_cycles(at: &NodeCursor<'_>, profiles: &NamedProfiles, findings: &mut LimitedFindingList) {
    let index: HashMap<&str, usize> = profiles
        .iter()
        .enumerate()
        .map(|(at, (name, _))| (&**name, at))
        .collect();
    let next: Vec<Option<usize>> = profiles
        .iter()
        .map(|(_, profile)| profile.fallback.as_deref().and_then(|name| index.get(name).copied()))
        .collect();
    // The number of the walk that visited a profile first. A walk that visits a profile twice has found a cycle.
    let mut walked = vec![None; profiles.len()];
    for start in 0..profiles.len() {
        let mut current = start;
        while walked[current].is_none() {
            walked[current] = Some(start);
            match next[current] {
                Some(next_profile) => current = next_profile,
                None => break,
            }
        }
        if walked[current] != Some(start) || next[current].is_none() {
            continue;
        }
        let mut names = vec![&*profiles[current].0];
        let mut step = next[current];
        while let Some(next_profile) = step {
            names.push(&*profiles[next_profile].0);
            step = next[next_profile].filter(|_| next_profile != current);
        }
        let place = at
            .route()
            .with_key(&*profiles[current].0)
            .with_key("fallback")
            .into_value_location();
        let message = format!("the fallbacks of these profiles form a cycle: {}", names.join(" → "));
        findings.push(
            Finding::new_error(codes::FALLBACK_CIRCLE, place, message)
                .with_help("remove the `fallback` of one of these profiles"),
        );
    }
}
