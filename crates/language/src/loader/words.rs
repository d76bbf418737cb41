//! The keys of every part of a file, and the messages about unknown keys.

use super::{codes, test_words};
use crate::diagnostic::{Finding, did_you_mean, nearest};
use crate::source::At;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// A part of a file with its own set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Ensemble,
    Limits,
    Agent,
    Defaults,
    Dependency,
    Conversation,
    ForEach,
    Combine,
    Retry,
    Sandbox,
    Input,
    Responses,
    ContextWindow,
    Strategy,
    Profile,
    Reply,
    CalledTool,
    Tool,
    Mcp,
    Acp,
    Permissions,
    Setting,
    Cost,
    RateLimit,
    Header,
    Config,
    Validate,
    TestFile,
    Case,
    Stub,
    Expect,
    Judge,
}

impl Section {
    /// All parts.
    pub(super) const ALL: [Self; 27] = [
        Self::Ensemble,
        Self::Agent,
        Self::Defaults,
        Self::Conversation,
        Self::ForEach,
        Self::Combine,
        Self::Dependency,
        Self::Limits,
        Self::Profile,
        Self::Retry,
        Self::Sandbox,
        Self::Input,
        Self::Responses,
        Self::ContextWindow,
        Self::Strategy,
        Self::Reply,
        Self::CalledTool,
        Self::Tool,
        Self::Mcp,
        Self::Acp,
        Self::Permissions,
        Self::Setting,
        Self::Cost,
        Self::RateLimit,
        Self::Header,
        Self::Config,
        Self::Validate,
    ];

    /// All parts of test files.
    pub(super) const OF_TESTS: [Self; 5] = [Self::TestFile, Self::Case, Self::Stub, Self::Expect, Self::Judge];

    /// All parts of the kind of file to which this part belongs.
    fn family(self) -> &'static [Self] {
        match Self::OF_TESTS.contains(&self) {
            true => &Self::OF_TESTS,
            false => &Self::ALL,
        }
    }

    /// The allowed keys.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Ensemble => &[
                "name",
                "description",
                "agents",
                "conversation_limits",
                "model_profiles",
                "tools",
                "default_task",
                "inputs",
                "result",
                "defaults",
            ],
            Self::Limits => &[
                "max_total_turns",
                "max_agent_executions",
                "timeout_seconds",
                "turn_timeout_seconds",
                "parallel_agent_limit",
                "max_total_tokens",
                "max_cost",
            ],
            Self::Agent => &[
                "name",
                "description",
                "type",
                "script",
                "env",
                "model_profile",
                "model",
                "input",
                "ensemble",
                "acp",
                "permissions",
                "tool",
                "arguments",
                "prompt",
                "system_prompt",
                "attachments",
                "inputs",
                "tools",
                "max_iterations",
                "max_parallel_tools",
                "config",
                "parameters",
                "depends_on",
                "dependencies",
                "for_each",
                "conversation",
                "output_schema",
                "context_window",
                "timeout_seconds",
                "retry",
                "on_error",
                "sandbox",
            ],
            Self::Defaults => &[
                "description",
                "type",
                "script",
                "env",
                "model_profile",
                "model",
                "input",
                "ensemble",
                "acp",
                "permissions",
                "tool",
                "arguments",
                "prompt",
                "system_prompt",
                "attachments",
                "inputs",
                "tools",
                "max_iterations",
                "max_parallel_tools",
                "config",
                "parameters",
                "for_each",
                "conversation",
                "output_schema",
                "context_window",
                "timeout_seconds",
                "retry",
                "on_error",
                "sandbox",
            ],
            Self::Dependency => &[
                "agent_name",
                "condition",
                "max_executions",
                "requires_all",
                "feedback",
                "wait_for",
                "on",
            ],
            Self::Conversation => &[
                "max_turns",
                "state_key",
                "triggers_conversation",
                "trigger",
                "memory",
                "on_resume",
                "history",
            ],
            Self::ForEach => &[
                "in",
                "times",
                "as",
                "key",
                "max_parallel",
                "max_items",
                "on_error",
                "at_least",
                "combine",
            ],
            Self::Combine => &["best", "first", "majority", "quorum"],
            Self::Retry => &["max_attempts", "delay_seconds", "backoff"],
            Self::Sandbox => &[
                "read",
                "write",
                "network",
                "env",
                "memory",
                "cpu_seconds",
                "processes",
                "best_effort",
            ],
            Self::Input => &["prompt", "choices", "default", "timeout_seconds", "responses"],
            Self::Responses => &["script", "model_profile"],
            Self::ContextWindow => &[
                "max_tokens",
                "max_messages",
                "preserve_system_message",
                "min_recent_turns",
                "strategy",
            ],
            Self::Strategy => &["recent_turns_only", "custom", "summarize"],
            Self::Profile => &[
                "provider",
                "model",
                "base_url",
                "api_key_env",
                "headers",
                "system_prompt",
                "temperature",
                "top_p",
                "max_tokens",
                "context_window",
                "seed",
                "options",
                "timeout_seconds",
                "retry",
                "fallback",
                "rate_limit",
                "prompt_cache",
                "cost",
                "replies",
                "script",
            ],
            Self::Reply => &["error", "text", "tool_calls"],
            Self::CalledTool => &["name", "arguments"],
            Self::Tool => &[
                "description",
                "script",
                "env",
                "agent",
                "ensemble",
                "mcp",
                "parameters",
                "permission",
                "timeout_seconds",
                "max_result_bytes",
                "output_schema",
                "exclusive",
                "repeatable",
                "sandbox",
            ],
            Self::Acp => &["command", "args", "env", "cwd"],
            Self::Permissions => &[
                "read",
                "edit",
                "delete",
                "move",
                "search",
                "execute",
                "think",
                "fetch",
                "switch_mode",
                "other",
            ],
            Self::Mcp => &["command", "env", "cwd", "sandbox", "url", "headers"],
            Self::Setting => &["env", "prefix"],
            Self::RateLimit => &["requests_per_minute", "tokens_per_minute", "concurrent"],
            Self::Cost => &["input_per_million", "cached_per_million", "output_per_million"],
            Self::Header => &["env"],
            Self::Config => &["model_profiles", "validate"],
            Self::Validate => &["levels", "exclude", "deny_warnings", "ci", "output"],
            Self::TestFile => test_words::FILE,
            Self::Case => test_words::CASE,
            Self::Stub => test_words::STUB,
            Self::Expect => test_words::EXPECT,
            Self::Judge => test_words::JUDGE,
        }
    }

    /// The name for messages.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Ensemble => "the ensemble",
            Self::Limits => "`conversation_limits`",
            Self::Agent => "an agent",
            Self::Defaults => "`defaults`",
            Self::Dependency => "an item of `dependencies`",
            Self::Conversation => "`conversation`",
            Self::ForEach => "`for_each`",
            Self::Combine => "`combine`",
            Self::Retry => "`retry`",
            Self::Sandbox => "`sandbox`",
            Self::Input => "`input`",
            Self::Responses => "`responses`",
            Self::ContextWindow => "`context_window`",
            Self::Strategy => "`strategy`",
            Self::Profile => "a model profile",
            Self::Reply => "a reply",
            Self::CalledTool => "an item of `tool_calls`",
            Self::Tool => "a tool",
            Self::Mcp => "`mcp`",
            Self::Acp => "`acp`",
            Self::Permissions => "`permissions`",
            Self::Setting => "a value from the environment",
            Self::Cost => "`cost`",
            Self::RateLimit => "`rate_limit`",
            Self::Header => "a header",
            Self::Config => "the configuration",
            Self::Validate => "`validate`",
            Self::TestFile => "a test file",
            Self::Case => "a case",
            Self::Stub => "a stub",
            Self::Expect => "`expect`",
            Self::Judge => "`judge`",
        }
    }
}

/// Whether the key is the author's own (`x-…`), in a place where such keys are ignored.
pub(super) fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}

impl Section {
    /// Whether keys that begin with `x-` are ignored there.
    pub(super) fn has_extensions(self) -> bool {
        matches!(self, Self::Ensemble | Self::Agent | Self::Defaults)
    }

    /// Whether only configurations have this part.
    fn is_of_config(self) -> bool {
        matches!(self, Self::Config | Self::Validate)
    }

    /// The part to which an unknown key belongs. Keys of a configuration are not looked for in an ensemble.
    fn home(self, key: &str) -> Option<Self> {
        let mut others = self.family().iter().copied();
        others.find(|other| (self.is_of_config() || !other.is_of_config()) && other.keys().contains(&key))
    }
}

/// Keys of llm-orc, and the keys of this language that replace them.
const FOREIGN: &[(&str, &str)] = &[
    ("when", "write a `condition` in the agent's `dependencies`"),
    ("conditional", "write a `condition` in the agent's `dependencies`"),
    (
        "loop",
        "add a dependency with `feedback: true` to `dependencies`, and set `conversation.max_turns`",
    ),
    (
        "fan_out",
        "write one agent for each part, or let an agent with `conversation.triggers_conversation: true` request them",
    ),
    (
        "dispatch",
        "set `conversation.triggers_conversation: true` and let the agent put `agent_requests` into its output",
    ),
    (
        "input_key",
        "a script reads the outputs of its dependencies in `dependencies`; a prompt uses `{{ agent_name.key }}`",
    ),
    (
        "options",
        "put sampling options such as `temperature` into a model profile, and a script's into `config`",
    ),
    ("validation", "describe the output with `output_schema`, a JSON Schema"),
    (
        "output_format",
        "describe the output with `output_schema`, a JSON Schema; `--output json` prints a run's result as JSON",
    ),
    ("synthesis", "add an agent that depends on the others"),
    ("coordinator", "add an agent that depends on the others"),
    (
        "cache",
        "remove the key: `run --cache DIR` caches the replies of models; `replay` uses the outputs of a recorded run",
    ),
    ("fallback_model", "write `fallback: profile` in the model profile"),
    (
        "fallback_model_profile",
        "write `fallback: profile` in the model profile",
    ),
    ("fallback_profile", "write `fallback: profile` in the model profile"),
    (
        "execution",
        "remove the key: agents that are ready run in parallel; `conversation_limits.parallel_agent_limit` sets the maximum",
    ),
    ("role", "use `system_prompt`"),
    ("default_input", "use `default_task`"),
];

/// The message about an unknown key of `section`.
pub(super) fn unknown_key(key: &str, section: Section, at: At) -> Finding {
    let foreign = FOREIGN.iter().find(|(word, _)| *word == key);
    if let Some((_, advice)) = foreign.filter(|_| {
        !matches!(
            section,
            Section::Reply | Section::Responses | Section::Cost | Section::RateLimit | Section::Header
        ) && !Section::OF_TESTS.contains(&section)
    }) {
        let message = format!("`{key}` is a key of llm-orc, not of this language");
        let mut finding = Finding::error(codes::FOREIGN_KEY, at, message).help(*advice);
        finding.fix = translation(key, &finding.at);
        return finding;
    }
    let finding = Finding::error(
        codes::UNKNOWN_KEY,
        at,
        format!("unknown key {} in {}", quoted(key), section.title()),
    );
    let keys = section.keys();
    if let Some(home) = section.home(key) {
        return finding.help(format!(
            "`{key}` is a key of {}; expected one of {}",
            home.title(),
            list(keys)
        ));
    }
    match nearest(key, keys.iter().copied()) {
        Some(guess) => finding.meant(&guess),
        None => finding.help(format!("expected one of {}", list(keys))),
    }
}

/// The fix for a key of llm-orc: its name in this language, or its removal where it has no counterpart in the file.
fn translation(key: &str, at: &At) -> Option<RouteFix> {
    let renamed = match key {
        "role" => "system_prompt",
        "default_input" => "default_task",
        "cache" | "execution" => {
            return Some(RouteFix::not_safe(
                "remove the key",
                RouteEdit::Remove(at.route.clone()),
            ));
        }
        _ => return None,
    };
    let change = RouteEdit::WriteText(at.clone(), renamed.to_owned());
    Some(RouteFix::safe(format!("write `{renamed}`"), change))
}

/// The key of `section` that is probably meant by an unknown key, as [`unknown_key`] suggests it.
pub(super) fn meant_key(key: &str, section: Section) -> Option<&'static str> {
    let is_known = FOREIGN.iter().any(|(word, _)| *word == key) || section.home(key).is_some();
    if is_known {
        return None;
    }
    did_you_mean(key, section.keys().iter().copied())
}

fn list(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `` `a`, `b` or `c` ``
pub(super) fn one_of<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// A string in quotes, on one line, shortened.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    let mut short: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    format!("'{short}'")
}
