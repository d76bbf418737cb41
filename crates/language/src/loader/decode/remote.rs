//! The keys of a profile about its provider: name, address, headers, prices.

use std::sync::Arc;

use super::reference;
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{HeaderText, Price, Provider, SIMULATED, is_private, provider_names};
use crate::loader::codes;
use crate::loader::document::Content;
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, amount, text};
use crate::loader::words::{one_of, quoted};
use crate::names::is_ascii_identifier;
use crate::vocabulary::Section;
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

/// The name of a provider.
pub(super) fn provider(at: &Cursor<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let name = reference(at, findings)?;
    if is_provider(&name) {
        return Some(name);
    }
    findings.push(unknown_provider(&name, at));
    None
}

pub(super) fn is_provider(name: &str) -> bool {
    name == SIMULATED || Provider::named(name).is_some()
}

pub(super) fn unknown_provider(name: &str, at: &Cursor<'_>) -> Finding {
    let message = format!("unknown provider {}", quoted(name));
    let finding = Finding::error(codes::NOT_A_CHOICE, at.value(), message);
    match did_you_mean(name, provider_names()) {
        Some(guess) => finding.meant_name(name, guess),
        None => finding.help(format!(
            "write {}; for a server with an OpenAI-compatible API, use `provider: openai` with a `base_url`",
            one_of(provider_names())
        )),
    }
}

/// Names of parameters of an address that contain keys.
const SECRET_PARAMETERS: [&str; 5] = ["key", "token", "secret", "password", "sig"];

/// `http://…` or `https://…`, without credentials; the last slash of its path is removed.
pub(super) fn base_url(at: &Cursor<'_>, findings: &mut Findings) -> Option<String> {
    let url = text(at, findings)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
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
            format!("{} is not the address of a server", quoted(&url)),
            "for example, write `http://localhost:8000/v1`",
        ),
    };
    findings.push(Finding::error(codes::BAD_ADDRESS, at.value(), message).help(help));
    None
}

fn has_secret_parameter(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut names = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.0.to_ascii_lowercase()));
    names.any(|name| SECRET_PARAMETERS.iter().any(|secret| name.ends_with(secret)))
}

/// Reports an address that everybody on the way can read, where a key is sent to it.
pub(super) fn check_private(at: &Cursor<'_>, url: &str, findings: &mut Findings) {
    if is_private(url) {
        return;
    }
    let message = "a key is sent to this address, and everybody on the way to it can read `http://`";
    let change = RouteEdit::ReplaceWord(at.value(), "http".to_owned(), "https".to_owned());
    let finding =
        Finding::error(codes::UNENCRYPTED, at.value(), message).with_fix(RouteFix::not_safe("write `https`", change));
    findings.push(
        finding.help(
            "write `https://…`; `http://` with a key is only for this machine, such as `http://localhost:8000/v1`",
        ),
    );
}

/// A map from names of headers to strings or to `{env: NAME}`.
pub(super) fn headers(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(String, HeaderText)>> {
    let mut headers = Vec::new();
    for (name, entry) in at.entries("a map from headers to strings", findings)? {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            let message = format!("{} is not the name of a header", quoted(name));
            findings.push(Finding::error(codes::BAD_NAME, entry.key(), message).help("for example, write `X-Title`"));
            continue;
        }
        if let Some(text) = header(name, &entry, findings) {
            headers.push((name.to_string(), text));
        }
    }
    Some(headers)
}

fn header(name: &str, at: &Cursor<'_>, findings: &mut Findings) -> Option<HeaderText> {
    if let Content::Mapping(_) = at.node.content {
        let fields = Fields::open(at, Section::Header, findings)?;
        let help = "write `{env: NAME}`, with the name of an environment variable";
        let name = fields.required("env", help, findings, |at, findings| {
            environment_variable("env", at, findings)
        });
        return name.map(HeaderText::Env);
    }
    let written = text(at, findings)?;
    if SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        // It may be a key, so it is not repeated.
        let message = format!("the header `{name}` contains a key in plain text");
        let finding = Finding::error(codes::KEY_IN_FILE, at.key(), message);
        findings.push(finding.help(format!(
            "write `{name}: {{env: NAME}}`, and set that environment variable to the value"
        )));
        return None;
    }
    if written.chars().any(|c| c.is_control()) {
        let message = format!("the value of the header `{name}` contains a line break or a control character");
        findings.push(Finding::error(codes::BAD_NAME, at.key(), message).help("write the value on one line"));
        return None;
    }
    Some(HeaderText::Text(written))
}

/// `cost`: the prices of a million tokens.
pub(super) fn cost(at: &Cursor<'_>, findings: &mut Findings) -> Option<Price> {
    let fields = Fields::open(at, Section::Cost, findings)?;
    let help = "write the price of a million tokens, for example `0.15`, or `0` if they are free";
    let input_per_million = fields.required("input_per_million", help, findings, amount);
    let cached_per_million = fields.read("cached_per_million", findings, amount);
    let output_per_million = fields.required("output_per_million", help, findings, amount);
    Some(Price {
        input_per_million: input_per_million?,
        cached_per_million,
        output_per_million: output_per_million?,
    })
}

/// The name of an environment variable. An invalid name may be a key, so it is not repeated.
pub(super) fn environment_variable(key: &str, at: &Cursor<'_>, findings: &mut Findings) -> Option<String> {
    let name = text(at, findings)?;
    if is_ascii_identifier(&name) {
        return Some(name);
    }
    let message = format!("`{key}` is not the name of an environment variable");
    let finding = Finding::error(codes::BAD_NAME, at.key(), message);
    findings.push(finding.help("write the name of the variable, not the key itself"));
    None
}
