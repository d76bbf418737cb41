//! The sections of files: the maps with a fixed set of keys.

use serde_json::{Map, Value};

use super::keys::Key;
use super::keys::agents;
use super::keys::cases;
use super::keys::config;
use super::keys::ensembles;
use super::keys::models;
use super::keys::tools;

/// A map of a file with its own set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The map of an ensemble file.
    Ensemble,
    /// The map of an agent.
    Agent,
    /// The map of `defaults`.
    Defaults,
    /// The map of `conversation`.
    Conversation,
    /// The map of `for_each`.
    ForEach,
    /// The map of `combine`.
    Combine,
    /// The map of an item of `dependencies`.
    Dependency,
    /// The map of `conversation_limits`.
    Limits,
    /// The map of a model profile.
    Profile,
    /// The map of `retry`.
    Retry,
    /// The map of `sandbox`.
    Sandbox,
    /// The map of `input`.
    Input,
    /// The map of `responses`.
    Responses,
    /// The map of `context_window`.
    ContextWindow,
    /// The map of `strategy`.
    Strategy,
    /// The map of a reply of a simulated model.
    Reply,
    /// The map of an item of `tool_calls`.
    CalledTool,
    /// The map of a tool.
    Tool,
    /// The map of `mcp`.
    Mcp,
    /// The map of `acp`.
    Acp,
    /// The map of `permissions`.
    Permissions,
    /// The map of a value from the environment.
    Setting,
    /// The map of `cost`.
    Cost,
    /// The map of `rate_limit`.
    RateLimit,
    /// The map of a header.
    Header,
    /// The map of a configuration.
    Config,
    /// The map of `validate`.
    Validate,
    /// The map of a test file.
    TestFile,
    /// The map of a case.
    Case,
    /// The map of a stub.
    Stub,
    /// The map of `expect`.
    Expect,
    /// The map of `judge`.
    Judge,
}

/// The facts of a section.
struct SectionRow {
    section: Section,
    /// The name for messages.
    title: &'static str,
    /// The definition in the JSON Schema; empty: the root.
    definition: &'static str,
    keys: &'static [Key],
}

const fn row(section: Section, title: &'static str, definition: &'static str, keys: &'static [Key]) -> SectionRow {
    SectionRow {
        section,
        title,
        definition,
        keys,
    }
}

/// All sections, in the order of [`Section`].
static SECTIONS: [SectionRow; 32] = [
    row(Section::Ensemble, "the ensemble", "", ensembles::ENSEMBLE),
    row(Section::Agent, "an agent", "agent", agents::AGENT),
    row(Section::Defaults, "`defaults`", "defaults", agents::DEFAULTS),
    row(
        Section::Conversation,
        "`conversation`",
        "conversation",
        agents::CONVERSATION,
    ),
    row(Section::ForEach, "`for_each`", "for_each", agents::FOR_EACH),
    row(Section::Combine, "`combine`", "combine", agents::COMBINE),
    row(
        Section::Dependency,
        "an item of `dependencies`",
        "dependency",
        agents::DEPENDENCY,
    ),
    row(Section::Limits, "`conversation_limits`", "limits", ensembles::LIMITS),
    row(Section::Profile, "a model profile", "profile", models::PROFILE),
    row(Section::Retry, "`retry`", "retry", ensembles::RETRY),
    row(Section::Sandbox, "`sandbox`", "sandbox", ensembles::SANDBOX),
    row(Section::Input, "`input`", "question", agents::INPUT),
    row(Section::Responses, "`responses`", "responses", agents::RESPONSES),
    row(
        Section::ContextWindow,
        "`context_window`",
        "context_window",
        agents::CONTEXT_WINDOW,
    ),
    row(Section::Strategy, "`strategy`", "strategy", agents::STRATEGY),
    row(Section::Reply, "a reply", "reply", models::REPLY),
    row(
        Section::CalledTool,
        "an item of `tool_calls`",
        "tool_call",
        models::CALLED_TOOL,
    ),
    row(Section::Tool, "a tool", "tool", tools::TOOL),
    row(Section::Mcp, "`mcp`", "mcp", tools::MCP),
    row(Section::Acp, "`acp`", "acp", agents::ACP),
    row(
        Section::Permissions,
        "`permissions`",
        "permissions",
        agents::PERMISSIONS,
    ),
    row(
        Section::Setting,
        "a value from the environment",
        "setting",
        tools::SETTING,
    ),
    row(Section::Cost, "`cost`", "cost", models::COST),
    row(Section::RateLimit, "`rate_limit`", "rate_limit", models::RATE_LIMIT),
    row(Section::Header, "a header", "header", models::HEADER),
    row(Section::Config, "the configuration", "", config::CONFIG),
    row(Section::Validate, "`validate`", "validate", config::VALIDATE),
    row(Section::TestFile, "a test file", "", cases::TEST_FILE),
    row(Section::Case, "a case", "case", cases::CASE),
    row(Section::Stub, "a stub", "stub_map", cases::STUB),
    row(Section::Expect, "`expect`", "expect", cases::EXPECT),
    row(Section::Judge, "`judge`", "judge", cases::JUDGE),
];

/// The number of sections before those of test files.
const TESTS_FROM: usize = Section::TestFile as usize;

impl Section {
    /// Returns all sections.
    pub fn all() -> impl Iterator<Item = Self> {
        SECTIONS.iter().map(|row| row.section)
    }

    fn row(self) -> &'static SectionRow {
        &SECTIONS[self as usize]
    }

    /// Returns the name for messages.
    pub(crate) fn title(self) -> &'static str {
        self.row().title
    }

    /// Returns the name of the definition in the JSON Schema; empty: the root.
    pub fn definition(self) -> &'static str {
        self.row().definition
    }

    /// Returns whether only test files have the section.
    pub fn is_of_tests(self) -> bool {
        self as usize >= TESTS_FROM
    }

    /// Returns whether only configurations have the section.
    pub(crate) fn is_of_config(self) -> bool {
        matches!(self, Self::Config | Self::Validate)
    }

    /// Returns whether keys that begin with `x-` are ignored in the section.
    pub(crate) fn has_extensions(self) -> bool {
        matches!(self, Self::Ensemble | Self::Agent | Self::Defaults)
    }

    /// Returns the keys of the section, in the order of the reference.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        let is_defaults = self == Self::Defaults;
        let keys = if is_defaults { agents::AGENT } else { self.row().keys };
        let known = keys.iter().filter(move |key| !is_defaults || key.is_in_defaults());
        known.map(move |key| if is_defaults { in_defaults(key) } else { key })
    }

    /// Returns the names of the keys, in the order of the reference.
    pub fn key_names(self) -> impl Iterator<Item = &'static str> {
        self.keys().map(|key| key.name)
    }

    /// Finds a key of the section.
    pub fn find_key(self, name: &str) -> Option<&'static Key> {
        if self == Self::Defaults {
            let key = find(agents::AGENT, name).filter(|key| key.is_in_defaults());
            return key.map(in_defaults);
        }
        find(self.row().keys, name)
    }

    /// Finds another section that has the key. Keys of a configuration are not looked for in an ensemble.
    pub(crate) fn find_home(self, key: &str) -> Option<Self> {
        let is_related =
            |other: &Self| other.is_of_tests() == self.is_of_tests() && (self.is_of_config() || !other.is_of_config());
        let mut related = Self::all().filter(is_related);
        related.find(|other| other.find_key(key).is_some())
    }

    /// Returns the properties of the section in its JSON Schema.
    pub(crate) fn properties(self) -> Map<String, Value> {
        self.keys().map(|key| (key.name.to_owned(), key.to_schema())).collect()
    }
}

fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}

/// Returns the row of a key of agents for `defaults`, where some keys have another meaning.
fn in_defaults(key: &'static Key) -> &'static Key {
    find(agents::DEFAULTS, key.name).unwrap_or(key)
}
