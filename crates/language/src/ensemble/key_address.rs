//! Where keys may go: the own addresses of providers, and addresses that only this machine reads.
//!
//! A text that is not plainly `scheme://host:port/…` is neither: a client may read such a text in another way.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::PROVIDERS;

/// Services with an OpenAI-compatible API that are no providers by themselves: the usual variable of the key, and the host.
const KEYED_SERVICES: [(&str, &str); 6] = [
    ("MISTRAL_API_KEY", "api.mistral.ai"),
    ("TOGETHER_API_KEY", "api.together.xyz"),
    ("FIREWORKS_API_KEY", "api.fireworks.ai"),
    ("CEREBRAS_API_KEY", "api.cerebras.ai"),
    ("PERPLEXITY_API_KEY", "api.perplexity.ai"),
    ("OLLAMA_API_KEY", "ollama.com"),
];

/// The scheme, host and port of an address, in lower case.
struct UrlOrigin {
    scheme: String,
    host: String,
    port: Option<String>,
}

impl UrlOrigin {
    /// Parses a plain address. Returns `None` for every address that a client might read in another way.
    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        if authority.is_empty() || !authority.chars().all(is_plain) {
            return None;
        }
        let after_host = authority.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match authority[after_host..].split_once(':') {
            Some((name, port)) => (&authority[..after_host + name.len()], Some(port.to_owned())),
            None => (authority, None),
        };
        Some(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Returns whether the host is this machine.
    fn is_loopback(&self) -> bool {
        let host = self.host.as_str();
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match inner {
            Some(inner) => inner.parse() == Ok(Ipv6Addr::LOCALHOST),
            None => host == "localhost" || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback()),
        }
    }
}

/// Returns whether a key may be sent to this address: over `https://`, or over `http://` to this machine.
pub fn is_safe_for_keys(url: &str) -> bool {
    let is_encrypted = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    is_encrypted || UrlOrigin::parse(url).is_some_and(|target| target.scheme == "http" && target.is_loopback())
}

/// Returns whether the address belongs to the service whose key is usually in this variable.
pub fn is_own_service_url(variable: &str, url: &str) -> bool {
    let Some(target) = UrlOrigin::parse(url).filter(|target| target.scheme == "https") else {
        return false;
    };
    let of_providers = PROVIDERS.iter().filter_map(|provider| {
        let origin = UrlOrigin::parse(provider.base_url)?;
        Some((provider.api_key_env?, origin.host))
    });
    let of_services = KEYED_SERVICES.iter().map(|(name, host)| (*name, (*host).to_owned()));
    let mut known_hosts = of_providers.chain(of_services);
    target.port.as_deref().is_none_or(|port| port == "443")
        && known_hosts.any(|(name, host)| name == variable && host == target.host)
}

/// Returns the environment variables that usually contain the keys of providers.
pub fn list_key_variables() -> impl Iterator<Item = &'static str> {
    let of_providers = PROVIDERS.iter().filter_map(|provider| provider.api_key_env);
    of_providers.chain(KEYED_SERVICES.iter().map(|(name, _)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_over_https_or_to_this_machine() {
        let rows = [
            ("https://api.openai.com/v1", true),
            ("HTTPS://x", true),
            ("http://localhost:8000/v1", true),
            ("http://127.0.0.1", true),
            ("http://127.9.8.7:1/x", true),
            ("http://[::1]:8000/v1", true),
            ("http://LOCALHOST?x", true),
            ("http://gpu:8000/v1", false),
            ("http://10.0.0.1", false),
            ("http://127.0.0.1.example.com", false),
            ("http://localhost.example.com", false),
            ("http://localhost@example.com", false),
            ("http://127.0.0.1:80@example.com", false),
            ("http://localhost\\@example.com", false),
            ("http://local\thost", false),
            ("http://[::2]", false),
            ("http://[::1]x", false),
            ("http://", false),
            ("ftp://localhost", false),
            ("localhost:8000", false),
        ];
        for (url, expected) in rows {
            assert_eq!(is_safe_for_keys(url), expected, "{url}");
        }
    }

    #[test]
    fn a_key_belongs_to_the_address_of_its_service() {
        let rows = [
            ("OPENAI_API_KEY", "https://api.openai.com/v1", true),
            ("OPENAI_API_KEY", "https://api.openai.com", true),
            ("OPENAI_API_KEY", "https://API.openai.com:443/v1", true),
            ("DEEPSEEK_API_KEY", "https://api.deepseek.com", true),
            ("MISTRAL_API_KEY", "https://api.mistral.ai/v1", true),
            ("OPENAI_API_KEY", "https://api.openai.com:8443/v1", false),
            ("OPENAI_API_KEY", "http://api.openai.com/v1", false),
            ("OPENAI_API_KEY", "https://api.openai.com.example.com", false),
            ("OPENAI_API_KEY", "https://api.openai.com\\@example.com", false),
            ("OPENAI_API_KEY", "https://api.mistral.ai/v1", false),
            ("OTHER", "https://api.openai.com/v1", false),
            ("OPENAI_API_KEY", "https://localhost", false),
        ];
        for (variable, url, expected) in rows {
            assert_eq!(is_own_service_url(variable, url), expected, "{variable} {url}");
        }
        assert!(list_key_variables().any(|name| name == "ANTHROPIC_API_KEY"));
    }
}
