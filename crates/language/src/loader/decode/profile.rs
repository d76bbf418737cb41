//! `model_profiles`, in an ensemble and in the configuration.

use std::collections::HashMap;
use std::sync::Arc;

use super::limits;
use super::options::options;
use super::reference;
use super::remote;
use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::{CalledTool, HeaderText, Profile, RateLimit, Reply, Simulated};
use crate::loader::codes;
use crate::loader::document::{Content, Document, ScalarValue};
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::json;
use crate::loader::reader::{
    Cursor, filled_list_of, flag, number_within, out_of_range, seconds, text, whole, wrong_type,
};
use crate::vocabulary::Section;

/// The profiles in file order.
pub(in crate::loader) type Profiles = Vec<(Arc<str>, Profile)>;

/// Reads a configuration file, which contains `model_profiles`.
pub(in crate::loader) fn config(document: &Document, findings: &mut Findings) -> Option<Profiles> {
    let root = Cursor::root(document.root());
    let fields = Fields::open(&root, Section::Config, findings)?;
    match fields.get("model_profiles") {
        Some(at) => all(&at, findings),
        None => Some(Vec::new()),
    }
}

/// Reads `model_profiles`. An empty value is allowed, for example if every profile is commented out.
pub(super) fn all(at: &Cursor<'_>, findings: &mut Findings) -> Option<Profiles> {
    if matches!(&at.node.content, Content::Scalar(scalar) if scalar.value == ScalarValue::Null) {
        return Some(Vec::new());
    }
    let mut profiles = Vec::new();
    let mut sound = true;
    for (name, entry) in at.entries("a map from names to profiles", findings)? {
        match read(&entry, findings) {
            Some(profile) => profiles.push((name.clone(), profile)),
            None => sound = false,
        }
    }
    fallback_circles(at, &profiles, findings);
    sound.then_some(profiles)
}

fn read(at: &Cursor<'_>, findings: &mut Findings) -> Option<Profile> {
    let fields = Fields::open(at, Section::Profile, findings)?;
    let help = "for example, write `provider: ollama`; `provider: simulated` needs no network";
    let provider = fields.required("provider", help, findings, remote::provider);
    let simulated = provider.as_deref() == Some("simulated");
    let model = match fields.get("model") {
        Some(at) => reference(&at, findings),
        None if simulated || provider.is_none() => Some("".into()),
        None => fields.required(
            "model",
            "write the name that the provider uses for the model",
            findings,
            reference,
        ),
    };
    let answers = simulated_answers(&fields, simulated, provider.is_some(), findings);
    let profile = Profile {
        provider: provider.clone().unwrap_or_default(),
        model: model.clone().unwrap_or_default(),
        base_url: fields.read("base_url", findings, remote::base_url),
        api_key_env: fields.read("api_key_env", findings, |at, findings| {
            remote::environment_variable("api_key_env", at, findings)
        }),
        headers: fields.read("headers", findings, remote::headers).unwrap_or_default(),
        system_prompt: fields.read("system_prompt", findings, text),
        temperature: fields.read("temperature", findings, |at, f| number_within(at, 0.0, 10.0, f)),
        top_p: fields.read("top_p", findings, |at, f| number_within(at, 0.0, 1.0, f)),
        max_tokens: fields.read("max_tokens", findings, whole),
        context_window: fields.read("context_window", findings, whole),
        seed: fields.read("seed", findings, seed),
        options: fields.read("options", findings, options).unwrap_or_default(),
        timeout: fields.read("timeout_seconds", findings, seconds),
        retry: fields.read("retry", findings, limits::retry),
        fallback: fields.read("fallback", findings, reference),
        cost: fields.read("cost", findings, remote::cost),
        rate_limit: fields.read("rate_limit", findings, rate_limit),
        without_prompt_cache: fields.read("prompt_cache", findings, flag) == Some(false),
        simulated: answers,
    };
    if let (Some(at), Some(url)) = (fields.get("base_url"), &profile.base_url)
        && sends_a_value(&profile)
    {
        remote::check_private(&at, url, findings);
    }
    (provider.is_some() && model.is_some() && (profile.simulated.is_some() || !simulated)).then_some(profile)
}

/// Does a request contain a key or a value of the environment?
fn sends_a_value(profile: &Profile) -> bool {
    let is_value = |(_, header): &(String, HeaderText)| matches!(header, HeaderText::Env(_));
    profile.api_key_env.is_some() || profile.headers.iter().any(is_value)
}

fn rate_limit(at: &Cursor<'_>, findings: &mut Findings) -> Option<RateLimit> {
    let fields = Fields::open(at, Section::RateLimit, findings)?;
    Some(RateLimit {
        requests_per_minute: fields.read("requests_per_minute", findings, whole),
        tokens_per_minute: fields.read("tokens_per_minute", findings, whole),
        concurrent: fields.read("concurrent", findings, whole),
    })
}

/// `replies` or `script`: exactly one for a simulated model, neither for another model.
fn simulated_answers(fields: &Fields<'_>, simulated: bool, known: bool, findings: &mut Findings) -> Option<Simulated> {
    let (replies, script) = (fields.get("replies"), fields.get("script"));
    if !simulated {
        for at in [&replies, &script].into_iter().flatten().filter(|_| known) {
            let message = "this key is only allowed for a simulated model";
            let finding = Finding::error(codes::SIMULATED, at.key(), message);
            findings.push(finding.help("write `provider: simulated`, or remove the key"));
        }
        return None;
    }
    let help = "add `replies: [text, …]` or `script: file.rhai`";
    if replies.is_none() && script.is_none() {
        let at = fields.at.route().key("provider").value();
        findings.push(Finding::error(codes::SIMULATED, at, "this simulated model has no replies").help(help));
        return None;
    }
    let codes = [codes::SIMULATED, codes::SIMULATED];
    let (key, given) = fields.exactly_one(&["replies", "script"], codes, help, findings)?;
    match key {
        "replies" => self::replies(&given, findings).map(Simulated::Replies),
        _ => reference(&given, findings).map(|script| Simulated::Script(script.to_string())),
    }
}

fn replies(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<Reply>> {
    let rule = "a simulated model needs at least one reply";
    filled_list_of(at, "a list of replies", rule, findings, reply)
}

fn reply(at: &Cursor<'_>, findings: &mut Findings) -> Option<Reply> {
    if let Content::Mapping(_) = at.node.content {
        let fields = Fields::open(at, Section::Reply, findings)?;
        return calling(&fields, findings);
    }
    text(at, findings).map(Reply::Text)
}

/// A reply as a map: `{error}`, or `{text, tool_calls}`.
fn calling(fields: &Fields<'_>, findings: &mut Findings) -> Option<Reply> {
    let Some(at) = fields.get("tool_calls") else {
        if let Some(text) = fields.get("text") {
            let finding = Finding::error(codes::MISSING, text.key(), "`tool_calls` is missing");
            findings.push(finding.help("write a reply that is only a string without a map"));
            return None;
        }
        let help = "a reply must be a string, `{error: text}` or `{tool_calls: [{name, arguments}]}`";
        return fields.required("error", help, findings, text).map(Reply::Error);
    };
    if let Some(error) = fields.get("error") {
        let finding = Finding::error(
            codes::SIMULATED,
            error.key(),
            "a reply must not have both `error` and `tool_calls`",
        );
        findings.push(finding.also(at.key(), "the calls").help("keep one of them"));
    }
    let said = match fields.get("text") {
        Some(at) => text(&at, findings),
        None => Some(String::new()),
    };
    let rule = "`tool_calls` must have at least one call";
    let tool_calls = filled_list_of(&at, "a list of calls", rule, findings, called_tool);
    Some(Reply::Calls {
        text: said?,
        tool_calls: tool_calls?,
    })
}

fn called_tool(at: &Cursor<'_>, findings: &mut Findings) -> Option<CalledTool> {
    let fields = Fields::open(at, Section::CalledTool, findings)?;
    let help = "write the tool's name";
    let name = fields.required("name", help, findings, reference);
    let arguments = match fields.get("arguments") {
        Some(at) => json::map(&at, findings),
        None => Some(JsonMap::new()),
    };
    Some(CalledTool {
        name: name?.to_string(),
        arguments: arguments?,
    })
}

fn seed(at: &Cursor<'_>, findings: &mut Findings) -> Option<i64> {
    if let Content::Scalar(scalar) = &at.node.content {
        match scalar.value {
            ScalarValue::Int(value) => return Some(value),
            ScalarValue::Unsigned(_) => {
                out_of_range(at, &format!("an integer of at most {}", i64::MAX), findings);
                return None;
            }
            _ => {}
        }
    }
    wrong_type(at, "an integer", findings);
    None
}

/// Reports every cycle of fallbacks once, at its first profile in the file.
fn fallback_circles(at: &Cursor<'_>, profiles: &Profiles, findings: &mut Findings) {
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
        let mut here = start;
        while walked[here].is_none() {
            walked[here] = Some(start);
            match next[here] {
                Some(there) => here = there,
                None => break,
            }
        }
        if walked[here] != Some(start) || next[here].is_none() {
            continue;
        }
        let mut names = vec![&*profiles[here].0];
        let mut step = next[here];
        while let Some(there) = step {
            names.push(&*profiles[there].0);
            step = next[there].filter(|_| there != here);
        }
        let place = at.route().key(&*profiles[here].0).key("fallback").value();
        let message = format!("the fallbacks of these profiles form a cycle: {}", names.join(" → "));
        findings.push(
            Finding::error(codes::FALLBACK_CIRCLE, place, message)
                .help("remove the `fallback` of one of these profiles"),
        );
    }
}
