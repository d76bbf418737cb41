//! The sections of files: the maps with a fixed set of keys.

use serde_json::{Map, Value};

use super::keys::SectionKey;
use super::keys::agents;
use super::keys::cases;
use super::keys::config;
use super::keys::ensembles;
use super::keys::models;
use super::keys::tools;

/// A section of a file: a map with its own set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSection {
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
    /// The map of an item of `replies` of a stub.
    StubReply,
    /// The map of `expect`.
    Expect,
    /// The map of `judge`.
    Judge,
}

/// The title, schema definition and keys of a section.
struct SectionRow {
    section: FileSection,
    /// The name for messages.
    title: &'static str,
    /// The definition in the JSON Schema; empty: the root.
    definition: &'static str,
    keys: &'static [SectionKey],
}

/// Creates a row of the table of sections.
const fn section_row(
    section: FileSection,
    title: &'static str,
    definition: &'static str,
    keys: &'static [SectionKey],
) -> SectionRow {
    SectionRow {
        section,
        title,
        definition,
        keys,
    }
}

/// All sections, in the order of [`FileSection`].
static SECTIONS: [SectionRow; 33] = [
    section_row(FileSection::Ensemble, "the ensemble", "", ensembles::ENSEMBLE),
    section_row(FileSection::Agent, "an agent", "agent", agents::AGENT),
    section_row(FileSection::Defaults, "`defaults`", "defaults", agents::DEFAULTS),
    section_row(
        FileSection::Conversation,
        "`conversation`",
        "conversation",
        agents::CONVERSATION,
    ),
    section_row(FileSection::ForEach, "`for_each`", "for_each", agents::FOR_EACH),
    section_row(FileSection::Combine, "`combine`", "combine", agents::COMBINE),
    section_row(
        FileSection::Dependency,
        "an item of `dependencies`",
        "dependency",
        agents::DEPENDENCY,
    ),
    section_row(
        FileSection::Limits,
        "`conversation_limits`",
        "limits",
        ensembles::LIMITS,
    ),
    section_row(FileSection::Profile, "a model profile", "profile", models::PROFILE),
    section_row(FileSection::Retry, "`retry`", "retry", ensembles::RETRY),
    section_row(FileSection::Sandbox, "`sandbox`", "sandbox", ensembles::SANDBOX),
    section_row(FileSection::Input, "`input`", "question", agents::INPUT),
    section_row(FileSection::Responses, "`responses`", "responses", agents::RESPONSES),
    section_row(
        FileSection::ContextWindow,
        "`context_window`",
        "context_window",
        agents::CONTEXT_WINDOW,
    ),
    section_row(FileSection::Strategy, "`strategy`", "strategy", agents::STRATEGY),
    section_row(FileSection::Reply, "a reply", "reply", models::REPLY),
    section_row(
        FileSection::CalledTool,
        "an item of `tool_calls`",
        "tool_call",
        models::CALLED_TOOL,
    ),
    section_row(FileSection::Tool, "a tool", "tool", tools::TOOL),
    section_row(FileSection::Mcp, "`mcp`", "mcp", tools::MCP),
    section_row(FileSection::Acp, "`acp`", "acp", agents::ACP),
    section_row(
        FileSection::Permissions,
        "`permissions`",
        "permissions",
        agents::PERMISSIONS,
    ),
    section_row(
        FileSection::Setting,
        "a value from the environment",
        "setting",
        tools::SETTING,
    ),
    section_row(FileSection::Cost, "`cost`", "cost", models::COST),
    section_row(FileSection::RateLimit, "`rate_limit`", "rate_limit", models::RATE_LIMIT),
    section_row(FileSection::Header, "a header", "header", models::HEADER),
    section_row(FileSection::Config, "the configuration", "", config::CONFIG),
    section_row(FileSection::Validate, "`validate`", "validate", config::VALIDATE),
    section_row(FileSection::TestFile, "a test file", "", cases::TEST_FILE),
    section_row(FileSection::Case, "a case", "case", cases::CASE),
    section_row(FileSection::Stub, "a stub", "stub_map", cases::STUB),
    section_row(
        FileSection::StubReply,
        "an item of `replies`",
        "stub_reply",
        cases::STUB_REPLY,
    ),
    section_row(FileSection::Expect, "`expect`", "expect", cases::EXPECT),
    section_row(FileSection::Judge, "`judge`", "judge", cases::JUDGE),
];

/// The number of sections before those of test files.
const FIRST_TEST_SECTION: usize = FileSection::TestFile as usize;

impl FileSection {
    /// Returns all sections.
    pub fn iter_all() -> impl Iterator<Item = Self> {
        SECTIONS.iter().map(|row| row.section)
    }

    /// Returns the row of this section in the table of sections.
    fn find_section_row(self) -> &'static SectionRow {
        &SECTIONS[self as usize]
    }

    /// Returns the name of the section for messages.
    pub(crate) fn title(self) -> &'static str {
        self.find_section_row().title
    }

    /// Returns the name of the definition in the JSON Schema. An empty name means the root.
    pub fn schema_definition(self) -> &'static str {
        self.find_section_row().definition
    }

    /// Returns whether only test files have the section.
    pub fn is_test_section(self) -> bool {
        self as usize >= FIRST_TEST_SECTION
    }

    /// Returns whether only configurations have the section.
    pub(crate) fn is_config_section(self) -> bool {
        matches!(self, Self::Config | Self::Validate)
    }

    /// Returns whether keys that begin with `x-` are ignored in the section.
    pub(crate) fn allows_extensions(self) -> bool {
        matches!(self, Self::Ensemble | Self::Agent | Self::Defaults)
    }

    /// Returns the keys of the section, in the order of the reference.
    pub fn iter_keys(self) -> impl Iterator<Item = &'static SectionKey> {
        let is_defaults = self == Self::Defaults;
        let keys = if is_defaults {
            agents::AGENT
        } else {
            self.find_section_row().keys
        };
        let allowed_keys = keys.iter().filter(move |key| !is_defaults || key.is_in_defaults());
        allowed_keys.map(move |key| if is_defaults { key_for_defaults(key) } else { key })
    }

    /// Returns the names of the keys, in the order of the reference.
    pub fn key_names(self) -> impl Iterator<Item = &'static str> {
        self.iter_keys().map(|key| key.name)
    }

    /// Returns the key of the section with this name.
    pub fn find_key(self, name: &str) -> Option<&'static SectionKey> {
        if self == Self::Defaults {
            let key = find_key_by_name(agents::AGENT, name).filter(|key| key.is_in_defaults());
            return key.map(key_for_defaults);
        }
        find_key_by_name(self.find_section_row().keys, name)
    }

    /// Returns another section that has the key. Keys of a configuration are not searched for an ensemble.
    pub(crate) fn find_section_with_key(self, key: &str) -> Option<Self> {
        let is_related = |other: &Self| {
            other.is_test_section() == self.is_test_section()
                && (self.is_config_section() || !other.is_config_section())
        };
        let mut related = Self::iter_all().filter(is_related);
        related.find(|other| other.find_key(key).is_some())
    }

    /// Returns the properties of the section in its JSON Schema. Keys that are not required may be `null`.
    pub(crate) fn schema_properties(self, is_required: impl Fn(&str) -> bool) -> Map<String, Value> {
        let property = |key: &SectionKey| match is_required(key.name) {
            true => key.to_schema(),
            false => key.to_optional_schema(),
        };
        self.iter_keys()
            .map(|key| (key.name.to_owned(), property(key)))
            .collect()
    }
}

/// Returns the key with this name.
fn find_key_by_name(keys: &'static [SectionKey], name: &str) -> Option<&'static SectionKey> {
    keys.iter().find(|key| key.name == name)
}

/// Returns the key as `defaults` has it; some keys have another meaning there.
fn key_for_defaults(key: &'static SectionKey) -> &'static SectionKey {
    find_key_by_name(agents::DEFAULTS, key.name).unwrap_or(key)
}

impl SectionKey {
    /// Returns the section that is the value of the key. Returns `None` if the value is no section.
    pub fn value_section(&self) -> Option<FileSection> {
        let definition = match self.shape.strip_prefix('#')? {
            "input" => FileSection::Input.schema_definition(),
            definition => definition,
        };
        FileSection::iter_all().find(|section| section.schema_definition() == definition)
    }

    /// Returns the keys of each value with their schemas, if the value of the key is a map with user-defined names, such as `inputs`.
    pub fn named_value_keys(&self) -> Option<Map<String, Value>> {
        let schema = self.to_schema();
        schema["additionalProperties"]["properties"].as_object().cloned()
    }
}
