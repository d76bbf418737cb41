//! The addresses of requests: from the profile, from a variable that clients of the provider read, or the usual one.

use crate::ModelNetwork;
use crate::providers::dialect::ProviderDialect;
use ensemble_language::ensemble::{self, HttpProvider, ModelProfile};

/// Variables that clients of a provider read, and the path that they add to their value.
const BASE_URL_VARIABLES: [(&str, &str, &str); 3] = [
    ("openai", "OPENAI_BASE_URL", ""),
    ("anthropic", "ANTHROPIC_BASE_URL", "/v1"),
    ("gemini", "GOOGLE_GEMINI_BASE_URL", "/v1beta"),
];

/// The ends of the names of Azure's hosts.
const AZURE_HOST_SUFFIXES: [&str; 3] = [
    ".openai.azure.com",
    ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
];

/// Default version of the Azure API, for addresses without a version.
const DEFAULT_AZURE_VERSION: &str = "api-version=2024-10-21";

/// Base address of a provider, with an optional query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderAddress {
    /// Scheme, host and path, without a slash at the end.
    pub(crate) base: String,
    /// The part of every request after the `?`.
    query: Option<String>,
    /// Is it the address that the provider always has?
    pub(crate) is_usual: bool,
}

impl ProviderAddress {
    /// Resolves the address from the profile, the environment variables of the provider, or the default, in this order.
    pub(crate) fn for_profile(
        profile: &ModelProfile,
        provider: &HttpProvider,
        dialect: &dyn ProviderDialect,
        network: &ModelNetwork,
    ) -> Self {
        if let Some(base_url) = &profile.base_url {
            return Self::normalize_base_url(base_url, provider.dialect, dialect);
        }
        if provider.dialect == ensemble::ProviderApi::Ollama
            && let Some(host) = network.read_variable("OLLAMA_HOST")
        {
            return Self {
                base: parse_ollama_host(&host),
                query: None,
                is_usual: false,
            };
        }
        let variable = BASE_URL_VARIABLES.iter().find(|(name, ..)| *name == provider.name);
        let set = variable.and_then(|(_, name, path)| Some((network.read_variable(name)?, *path)));
        if let Some((given, path)) = set {
            let url = given.trim_end_matches('/');
            let lacks_path = !path.is_empty() && !url.contains('?') && !url.ends_with(path);
            let url = if lacks_path {
                format!("{url}{path}")
            } else {
                url.to_owned()
            };
            return Self::normalize_base_url(&url, provider.dialect, dialect);
        }
        Self {
            base: provider.base_url.to_owned(),
            query: None,
            is_usual: true,
        }
    }

    /// Normalizes an address as users write or paste it: separates the query, removes endpoints, and adds the default path.
    fn normalize_base_url(given: &str, kind: ensemble::ProviderApi, dialect: &dyn ProviderDialect) -> Self {
        let (base, query) = match given.split_once('?') {
            Some((base, query)) => (base, Some(query.to_owned()).filter(|query| !query.is_empty())),
            None => (given, None),
        };
        let (scheme, rest) = base.split_once("://").unwrap_or(("http", base));
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = without_endpoint_path(path.trim_end_matches('/'), kind);
        let mut address = Self {
            base: String::new(),
            query,
            is_usual: false,
        };
        let is_azure = kind == ensemble::ProviderApi::OpenAi && is_azure_host(host);
        let path = match (is_azure, path) {
            (true, "" | "/openai") => "/openai/v1",
            (false, "") => dialect.default_base_path(),
            (_, path) => path,
        };
        if is_azure && path.contains("/deployments/") && address.query.is_none() {
            address.query = Some(DEFAULT_AZURE_VERSION.to_owned());
        }
        address.base = format!("{scheme}://{}{path}", to_reachable_host(host));
        address
    }

    /// Returns the URL of a path, which can have a query.
    pub(crate) fn request_url(&self, path: &str) -> String {
        let Some(query) = &self.query else {
            return format!("{}{path}", self.base);
        };
        let mark = if path.contains('?') { '&' } else { '?' };
        format!("{}{path}{mark}{query}", self.base)
    }

    /// Returns the URL of the list of models. Azure has one list for all deployments.
    pub(crate) fn model_list_url(&self, path: &str) -> String {
        let base = match self.base.split_once("/deployments/") {
            Some((before, _)) if self.uses_azure_key_header() => before.to_owned(),
            _ => self.base.clone(),
        };
        Self { base, ..self.clone() }.request_url(path)
    }

    /// Returns whether the server expects its key in the header `api-key`, because the host belongs to Azure.
    pub(crate) fn uses_azure_key_header(&self) -> bool {
        let host = self.base.split("://").nth(1).and_then(|rest| rest.split('/').next());
        host.is_some_and(is_azure_host)
    }
}

/// Returns whether the host name belongs to Azure.
fn is_azure_host(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
    AZURE_HOST_SUFFIXES.iter().any(|end| name.ends_with(end))
}

/// Removes the path of a request endpoint from the end of a pasted path.
fn without_endpoint_path(path: &str, kind: ensemble::ProviderApi) -> &str {
    let ends: &[&str] = match kind {
        ensemble::ProviderApi::OpenAi => &["/chat/completions", "/models"],
        ensemble::ProviderApi::Anthropic => &["/messages"],
        ensemble::ProviderApi::Ollama => &[
            "/api/chat",
            "/api/generate",
            "/api/tags",
            "/api",
            "/v1/chat/completions",
            "/v1",
        ],
        ensemble::ProviderApi::Gemini => return path.split_once("/models").map_or(path, |(before, _)| before),
    };
    ends.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path)
}

/// Replaces an address that means all interfaces, such as `0.0.0.0`, by `127.0.0.1`.
fn to_reachable_host(host: &str) -> String {
    match host.strip_prefix("0.0.0.0").or_else(|| host.strip_prefix("[::]")) {
        Some(port) if port.is_empty() || port.starts_with(':') => format!("127.0.0.1{port}"),
        _ => host.to_owned(),
    }
}

/// Converts the value of `OLLAMA_HOST` to a base URL: a host, a port, or both, with or without a scheme.
fn parse_ollama_host(given: &str) -> String {
    let address = given.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'');
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let usual = match scheme {
        "http" => "80",
        "https" => "443",
        _ => "11434",
    };
    let scheme = if scheme.is_empty() { "http" } else { scheme };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.trim_end_matches('/');
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, if is_port(port) { port } else { usual })
        }
        _ => (host, usual),
    };
    let host = match host {
        "" => "127.0.0.1".to_owned(),
        bare if bare.contains(':') && !bare.starts_with('[') => format!("[{bare}]"),
        host => host.to_owned(),
    };
    format!("{scheme}://{}{path}", to_reachable_host(&format!("{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::remote::dialect_for_api;

    fn at(provider: &str, base_url: Option<&str>, variable: Option<(&'static str, &'static str)>) -> ProviderAddress {
        let known = HttpProvider::find_by_name(provider).expect("is known");
        let profile = ModelProfile {
            base_url: base_url.map(Into::into),
            ..ModelProfile::default()
        };
        let environment = move |name: &str| {
            variable
                .filter(|(known, _)| *known == name)
                .map(|(_, value)| value.to_owned())
        };
        let network = ModelNetwork::new(environment, || chrono::DateTime::UNIX_EPOCH, || 0.5);
        ProviderAddress::for_profile(&profile, known, dialect_for_api(known.dialect), &network)
    }

    #[test]
    fn addresses_are_completed() {
        for (provider, given, path, expected) in [
            ("openai", "http://h:1", "/x", "http://h:1/v1/x"),
            ("openai", "http://h:1/", "/x", "http://h:1/v1/x"),
            ("openai", "http://h:1/api", "/x", "http://h:1/api/x"),
            ("openai", "http://h:1/v1/chat/completions", "/x", "http://h:1/v1/x"),
            ("openai", "http://h:1/v1?a=b", "/x", "http://h:1/v1/x?a=b"),
            ("openai", "http://h:1?a=b", "/x", "http://h:1/v1/x?a=b"),
            ("openai", "http://0.0.0.0:8000/v1", "/x", "http://127.0.0.1:8000/v1/x"),
            ("openai", "http://[::]:8000", "/x", "http://127.0.0.1:8000/v1/x"),
            ("openai", "http://0.0.0.0.example", "/x", "http://0.0.0.0.example/v1/x"),
            (
                "openai",
                "https://n.openai.azure.com",
                "/x",
                "https://n.openai.azure.com/openai/v1/x",
            ),
            (
                "openai",
                "https://n.openai.azure.com/openai/deployments/d",
                "/x",
                "https://n.openai.azure.com/openai/deployments/d/x?api-version=2024-10-21",
            ),
            (
                "openai",
                "https://n.openai.azure.com/openai/deployments/d/chat/completions?api-version=2025-01-01-preview",
                "/x",
                "https://n.openai.azure.com/openai/deployments/d/x?api-version=2025-01-01-preview",
            ),
            ("anthropic", "http://h:1", "/x", "http://h:1/v1/x"),
            ("anthropic", "http://h:1/v1/messages", "/x", "http://h:1/v1/x"),
            ("gemini", "http://h:1", "/x?alt=sse", "http://h:1/v1beta/x?alt=sse"),
            (
                "gemini",
                "http://h:1/v1beta/models/g:generateContent",
                "/x",
                "http://h:1/v1beta/x",
            ),
            (
                "gemini",
                "http://h:1/v1beta?a=b",
                "/x?alt=sse",
                "http://h:1/v1beta/x?alt=sse&a=b",
            ),
            ("ollama", "http://h:1", "/x", "http://h:1/x"),
            ("ollama", "http://h:1/api/chat", "/x", "http://h:1/x"),
            ("ollama", "http://h:1/v1", "/x", "http://h:1/x"),
        ] {
            assert_eq!(
                at(provider, Some(given), None).request_url(path),
                expected,
                "{provider} {given}"
            );
        }
        let azure = at(
            "openai",
            Some("https://n.openai.azure.com/openai/deployments/d?api-version=1"),
            None,
        );
        assert!(azure.uses_azure_key_header() && !at("openai", Some("http://h"), None).uses_azure_key_header());
        assert_eq!(
            azure.model_list_url("/models"),
            "https://n.openai.azure.com/openai/models?api-version=1"
        );
    }

    #[test]
    fn variables_of_other_clients_are_read_where_the_profile_has_no_address() {
        for (provider, variable, value, expected) in [
            ("openai", "OPENAI_BASE_URL", "http://h:1/v1/", "http://h:1/v1"),
            ("openai", "OPENAI_BASE_URL", "http://h:1", "http://h:1/v1"),
            (
                "openai",
                "ANTHROPIC_BASE_URL",
                "http://h:1",
                "https://api.openai.com/v1",
            ),
            (
                "anthropic",
                "ANTHROPIC_BASE_URL",
                "https://h/anthropic",
                "https://h/anthropic/v1",
            ),
            ("anthropic", "ANTHROPIC_BASE_URL", "https://h/v1", "https://h/v1"),
            ("gemini", "GOOGLE_GEMINI_BASE_URL", "https://h", "https://h/v1beta"),
            (
                "groq",
                "OPENAI_BASE_URL",
                "http://h:1",
                "https://api.groq.com/openai/v1",
            ),
            ("ollama", "OLLAMA_HOST", "box", "http://box:11434"),
            ("ollama", "OLLAMA_HOST", ":11434", "http://127.0.0.1:11434"),
            ("ollama", "OLLAMA_HOST", "box:", "http://box:11434"),
            ("ollama", "OLLAMA_HOST", "0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("ollama", "OLLAMA_HOST", "0.0.0.0", "http://127.0.0.1:11434"),
            (
                "ollama",
                "OLLAMA_HOST",
                "http://0.0.0.0:11434",
                "http://127.0.0.1:11434",
            ),
            ("ollama", "OLLAMA_HOST", "http://box:1/", "http://box:1"),
            ("ollama", "OLLAMA_HOST", "http://box", "http://box:80"),
            (
                "ollama",
                "OLLAMA_HOST",
                "https://ollama.example/a/",
                "https://ollama.example:443/a",
            ),
            ("ollama", "OLLAMA_HOST", "::1", "http://[::1]:11434"),
            ("ollama", "OLLAMA_HOST", "[::1]:1", "http://[::1]:1"),
        ] {
            assert_eq!(
                at(provider, None, Some((variable, value))).base,
                expected,
                "{variable}={value}"
            );
        }
        let written = at("openai", Some("http://own"), Some(("OPENAI_BASE_URL", "http://h:1")));
        assert_eq!(written.base, "http://own/v1");
    }
}
