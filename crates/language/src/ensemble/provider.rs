//! The providers that a profile can name, and where each is found.

/// The provider that needs no network, and the name of the profile that always exists.
pub const SIMULATED: &str = "simulated";

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions, which many servers speak.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
    /// Ollama's own API.
    Ollama,
}

/// A provider that is reached over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// As a profile names it.
    pub name: &'static str,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Where it is, unless a profile says otherwise; without a slash at the end.
    pub base_url: &'static str,
    /// The environment variable that holds its key by convention; a provider without one needs no key.
    pub api_key_env: Option<&'static str>,
}

/// All of them but `simulated`.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "openai",
        dialect: Dialect::OpenAi,
        base_url: "https://api.openai.com/v1",
        api_key_env: Some("OPENAI_API_KEY"),
    },
    Provider {
        name: "anthropic",
        dialect: Dialect::Anthropic,
        base_url: "https://api.anthropic.com/v1",
        api_key_env: Some("ANTHROPIC_API_KEY"),
    },
    Provider {
        name: "gemini",
        dialect: Dialect::Gemini,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        api_key_env: Some("GEMINI_API_KEY"),
    },
    Provider {
        name: "ollama",
        dialect: Dialect::Ollama,
        base_url: "http://localhost:11434",
        api_key_env: None,
    },
    Provider {
        name: "openrouter",
        dialect: Dialect::OpenAi,
        base_url: "https://openrouter.ai/api/v1",
        api_key_env: Some("OPENROUTER_API_KEY"),
    },
    Provider {
        name: "groq",
        dialect: Dialect::OpenAi,
        base_url: "https://api.groq.com/openai/v1",
        api_key_env: Some("GROQ_API_KEY"),
    },
    Provider {
        name: "deepseek",
        dialect: Dialect::OpenAi,
        base_url: "https://api.deepseek.com/v1",
        api_key_env: Some("DEEPSEEK_API_KEY"),
    },
    Provider {
        name: "xai",
        dialect: Dialect::OpenAi,
        base_url: "https://api.x.ai/v1",
        api_key_env: Some("XAI_API_KEY"),
    },
];

impl Provider {
    /// The provider of that name, if it is one that is reached over HTTP.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }
}

/// The names of all providers, `simulated` included.
pub fn provider_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(SIMULATED).chain(PROVIDERS.iter().map(|provider| provider.name))
}
