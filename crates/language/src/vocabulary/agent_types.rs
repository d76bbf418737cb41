//! The types of agents, and the keys that choose them.

/// The type of an agent: what the agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentType {
    /// A program or a Rhai script.
    Script,
    /// A language model.
    Llm,
    /// A question to a person.
    Input,
    /// Another ensemble.
    Ensemble,
    /// A program with the Agent Client Protocol.
    Acp,
    /// One tool of an MCP server.
    Tool,
}

/// The keys that choose what an agent runs, each with the type of the agent. An agent has exactly one of them.
pub const TYPE_CHOOSING_KEYS: [(&str, AgentType); 7] = [
    ("script", AgentType::Script),
    ("model_profile", AgentType::Llm),
    ("model", AgentType::Llm),
    ("input", AgentType::Input),
    ("ensemble", AgentType::Ensemble),
    ("acp", AgentType::Acp),
    ("tool", AgentType::Tool),
];

/// Returns whether the key chooses the type of an agent.
pub fn chooses_agent_type(key: &str) -> bool {
    TYPE_CHOOSING_KEYS.iter().any(|(chooser, _)| *chooser == key)
}

impl AgentType {
    /// All types, each with its word as the value of `type`.
    pub const WORDS: [(&str, Self); 6] = [
        ("script", Self::Script),
        ("llm", Self::Llm),
        ("input", Self::Input),
        ("ensemble", Self::Ensemble),
        ("acp", Self::Acp),
        ("tool", Self::Tool),
    ];

    /// Returns the word of the type as the value of `type`.
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }

    /// Returns the type with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        let (_, found) = Self::WORDS.into_iter().find(|(known, _)| *known == word)?;
        Some(found)
    }

    /// Returns the keys that choose this type.
    pub fn choosing_keys(self) -> impl Iterator<Item = &'static str> {
        let of_type = TYPE_CHOOSING_KEYS
            .into_iter()
            .filter(move |(_, chosen)| *chosen == self);
        of_type.map(|(key, _)| key)
    }
}
