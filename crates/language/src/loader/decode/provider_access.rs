//! The keys of a profile about its provider: name, address, headers, prices.

use std::sync::Arc;

use super::decode_reference;
use crate::diagnostic::{Finding, find_similar_word};
use crate::ensemble::{
    ConfiguredHeader, HttpProvider, SIMULATED_PROVIDER, TokenPrice, carries_rights, is_safe_for_keys,
    list_provider_names,
};
use crate::loader::codes;
use crate::loader::document::YamlContent;
use crate::loader::findings::LimitedFindingList;
use crate::loader::key_messages::{format_choices, quote_excerpt};
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{NodeCursor, decode_money_amount, decode_text};
use crate::names::is_ascii_identifier;
use crate::source::RouteLocation;
use crate::vocabulary::FileSection;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Headers that contain keys, in lower case.
const SECRET_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
];

/// Decodes the name of a provider, and reports an unknown provider.
pub(super) fn decode_provider(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Arc<str>> {
    let name = decode_reference(at, findings)?;
    if is_provider_name(&name) {
        return Some(name);
    }
    findings.push(unknown_provider_finding(&name, at));
    None
}

/// Returns whether there is a provider with this name.
pub(super) fn is_provider_name(name: &str) -> bool {
    name == SIMULATED_PROVIDER || HttpProvider::find_by_name(name).is_some()
}

/// Builds the error about an unknown provider, with a similar name or all names.
pub(super) fn unknown_provider_finding(name: &str, at: &NodeCursor<'_>) -> Finding {
    let message = format!("unknown provider {}", quote_excerpt(name));
    let finding = Finding::new_error(codes::NOT_A_CHOICE, at.value_location(), message);
    match find_similar_word(name, list_provider_names()) {
        Some(guess) => finding.with_near_name_fix(name, guess),
        None => finding.with_help(format!(
            "write {}; for a server with an OpenAI-compatible API, use `provider: openai` with a `base_url`",
            format_choices(list_provider_names())
        )),
    }
}

/// Names of parameters of an address that contain keys.
const SECRET_PARAMETERS: [&str; 5] = ["key", "token", "secret", "password", "sig"];

/// Decodes an address with `http` or `https` and without credentials. Removes the last slash of its path.
pub(super) fn decode_base_url(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<String> {
    let url = decode_text(at, findings)?;
    let after_scheme = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let authority = after_scheme.and_then(|rest| rest.split(['/', '?', '#']).next());
    let (message, help) = match authority {
        // The part before an `@` may be a password, so it is not repeated.
        Some(authority) if authority.contains('@') => (
            "this `base_url` contains credentials".to_owned(),
            "remove the credentials; name the environment variable with the key in `api_key_env`, or send a header with `headers`",
        ),
        // The value may be a key, so it is not repeated.
        Some(_) if has_secret_parameter(&url) => (
            "the query of this `base_url` contains a key".to_owned(),
            "remove it; name the environment variable with the key in `api_key_env`, or send a header with `headers`",
        ),
        Some(authority) if !authority.is_empty() && !url.contains([' ', '#']) => {
            return Some(match url.split_once('?') {
                Some((path, query)) if !query.is_empty() => format!("{}?{query}", path.trim_end_matches('/')),
                _ => url.trim_end_matches(['/', '?']).to_owned(),
            });
        }
        _ => (
            format!("{} is not the address of a server", quote_excerpt(&url)),
            "for example, write `http://localhost:8000/v1`",
        ),
    };
    findings.push(Finding::new_error(codes::BAD_ADDRESS, at.value_location(), message).with_help(help));
    None
}

/// Returns whether the query of the address contains a parameter for a key.
fn has_secret_parameter(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut names = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.0.to_ascii_lowercase()));
    names.any(|name| SECRET_PARAMETERS.iter().any(|secret| name.ends_with(secret)))
}

/// Reports an unencrypted address of another machine to which a key would be sent.
pub(super) fn check_private_url(at: &NodeCursor<'_>, url: &str, findings: &mut LimitedFindingList) {
    if is_safe_for_keys(url) {
        return;
    }
    let message = "a key would be sent to this address over `http://`, which is not encrypted";
    let change = RouteEdit::ReplaceWord(at.value_location(), "http".to_owned(), "https".to_owned());
    let finding = Finding::new_error(codes::UNENCRYPTED, at.value_location(), message)
        .with_fix(RouteFix::new_unsafe("write `https`", change));
    findings.push(finding.with_help(
        "write `https://…`; `http://` with a key is only for this machine, such as `http://localhost:8000/v1`",
    ));
}

/// Decodes `headers`: a map from names to strings or to `{env: NAME}`.
pub(super) fn decode_headers(
    at: &NodeCursor<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<(String, ConfiguredHeader)>> {
    let mut headers = Vec::new();
    for (name, entry) in at.require_entries("a map from headers to strings", findings)? {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            let message = format!("{} is not the name of a header", quote_excerpt(name));
            findings.push(
                Finding::new_error(codes::BAD_NAME, entry.key_location(), message)
                    .with_help("for example, write `X-Title`"),
            );
            continue;
        }
        if let Some(text) = decode_header(name, &entry, findings) {
            headers.push((name.to_string(), text));
        }
    }
    Some(headers)
}

/// Decodes the value of a header, and reports a key in plain text.
fn decode_header(name: &str, at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<ConfiguredHeader> {
    if let YamlContent::Mapping(_) = at.node.content {
        let fields = SectionFields::from_map(at, FileSection::Header, findings)?;
        let help = "write `{env: NAME}`, with the name of an environment variable";
        let name = fields.decode_required("env", help, findings, |at, findings| {
            decode_environment_variable("env", at, findings)
        });
        return name.map(ConfiguredHeader::Env);
    }
    let header_value = decode_text(at, findings)?;
    if SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        // It may be a key, so it is not repeated.
        let message = format!("the header `{name}` contains a key in plain text");
        let finding = Finding::new_error(codes::KEY_IN_FILE, at.key_location(), message);
        findings.push(finding.with_help(format!(
            "write `{name}: {{env: NAME}}`, and set that environment variable to the value"
        )));
        return None;
    }
    if header_value.chars().any(|c| c.is_control()) {
        let message = format!("the value of the header `{name}` contains a line break or a control character");
        findings.push(
            Finding::new_error(codes::BAD_NAME, at.key_location(), message).with_help("write the value on one line"),
        );
        return None;
    }
    Some(ConfiguredHeader::Text(header_value))
}

/// Decodes `cost`: the prices of a million tokens.
pub(super) fn decode_token_price(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<TokenPrice> {
    let fields = SectionFields::from_map(at, FileSection::Cost, findings)?;
    let help = "write the price of a million tokens, for example `0.15`, or `0` if the tokens are free";
    let input_per_million = fields.decode_required("input_per_million", help, findings, decode_money_amount);
    let cached_per_million = fields.decode_optional("cached_per_million", findings, decode_money_amount);
    let output_per_million = fields.decode_required("output_per_million", help, findings, decode_money_amount);
    Some(TokenPrice {
        input_per_million: input_per_million?,
        cached_per_million,
        output_per_million: output_per_million?,
    })
}

/// Decodes the name of an environment variable. The error about an invalid name does not repeat the name, which may be a key.
pub(super) fn decode_environment_variable(
    key: &str,
    at: &NodeCursor<'_>,
    findings: &mut LimitedFindingList,
) -> Option<String> {
    let name = decode_text(at, findings)?;
    if is_ascii_identifier(&name) {
        return (!report_rights_variable(at.value_location(), &name, findings)).then_some(name);
    }
    let message = format!("`{key}` is not the name of an environment variable");
    let finding = Finding::new_error(codes::BAD_NAME, at.key_location(), message);
    findings.push(finding.with_help("write the name of the variable, not the key itself"));
    None
}

/// Returns whether the variable carries rights of the user, and reports such a variable.
pub(super) fn report_rights_variable(at: RouteLocation, name: &str, findings: &mut LimitedFindingList) -> bool {
    if !carries_rights(name) {
        return false;
    }
    let message = format!("the variable `{name}` carries rights of the user and is passed to no program");
    findings.push(Finding::new_error(codes::BAD_NAME, at, message).with_help("remove it"));
    true
}
