//! The providers that a profile can name, and their addresses.

/// The provider that needs no network; also the name of the profile that always exists.
pub const SIMULATED_PROVIDER: &str = "simulated";

/// The API of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderApi {
    /// The chat completions API of OpenAI, which many servers support.
    OpenAi,
    /// The messages API of Anthropic.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
    /// The API of Ollama.
    Ollama,
}

/// A provider that is used over HTTP, with its default address and key variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpProvider {
    /// The name in a profile.
    pub name: &'static str,
    /// The API.
    pub dialect: ProviderApi,
    /// The default address, without a slash at the end.
    pub base_url: &'static str,
    /// The environment variable that usually contains its key; a provider without one needs no key.
    pub api_key_env: Option<&'static str>,
}

/// All providers except `simulated`.
pub const PROVIDERS: &[HttpProvider] = &[
    HttpProvider {
        name: "openai",
        dialect: ProviderApi::OpenAi,
        base_url: "https://api.openai.com/v1",
        api_key_env: Some("OPENAI_API_KEY"),
    },
    HttpProvider {
        name: "anthropic",
        dialect: ProviderApi::Anthropic,
        base_url: "https://api.anthropic.com/v1",
        api_key_env: Some("ANTHROPIC_API_KEY"),
    },
    HttpProvider {
        name: "gemini",
        dialect: ProviderApi::Gemini,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        api_key_env: Some("GEMINI_API_KEY"),
    },
    HttpProvider {
        name: "ollama",
        dialect: ProviderApi::Ollama,
        base_url: "http://localhost:11434",
        api_key_env: None,
    },
    HttpProvider {
        name: "openrouter",
        dialect: ProviderApi::OpenAi,
        base_url: "https://openrouter.ai/api/v1",
        api_key_env: Some("OPENROUTER_API_KEY"),
    },
    HttpProvider {
        name: "groq",
        dialect: ProviderApi::OpenAi,
        base_url: "https://api.groq.com/openai/v1",
        api_key_env: Some("GROQ_API_KEY"),
    },
    HttpProvider {
        name: "deepseek",
        dialect: ProviderApi::OpenAi,
        base_url: "https://api.deepseek.com/v1",
        api_key_env: Some("DEEPSEEK_API_KEY"),
    },
    HttpProvider {
        name: "xai",
        dialect: ProviderApi::OpenAi,
        base_url: "https://api.x.ai/v1",
        api_key_env: Some("XAI_API_KEY"),
    },
];

impl HttpProvider {
    /// Returns the HTTP provider with this name.
    pub fn find_by_name(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }
}

/// Returns the names of all providers, including `simulated`.
pub fn list_provider_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(SIMULATED_PROVIDER).chain(PROVIDERS.iter().map(|provider| provider.name))
}
