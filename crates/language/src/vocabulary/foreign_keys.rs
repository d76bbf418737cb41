//! Keys of another system, which are refused with the words of this language.

/// A key of llm-orc.
pub(crate) struct LlmOrcKey {
    name: &'static str,
    /// The keys of this language to write instead.
    pub(crate) advice: &'static str,
    pub(crate) replacement: Option<KeyReplacement>,
}

/// A fix for a key of another system.
#[derive(Clone, Copy)]
pub(crate) enum KeyReplacement {
    /// The key has this name here.
    Rename(&'static str),
    /// The key has no counterpart in the file.
    Remove,
}

/// Rows: `"name": "advice", replacement;`.
macro_rules! foreign_keys {
    ($($name:literal: $advice:literal $(, $replacement:expr)?;)*) => {
        &[$(LlmOrcKey { name: $name, advice: $advice, replacement: foreign_keys!(@optional $($replacement)?) }),*]
    };
    (@optional) => { None };
    (@optional $replacement:expr) => { Some($replacement) };
}

/// All keys of llm-orc that are not keys of this language.
static FOREIGN_KEYS: &[LlmOrcKey] = foreign_keys![
    "when": "write a `condition` in the agent's `dependencies`";
    "conditional": "write a `condition` in the agent's `dependencies`";
    "loop": "add a dependency with `feedback: true` to `dependencies`, and set `conversation.max_turns`";
    "fan_out":
        "write one agent for each part, or let an agent with `conversation.triggers_conversation: true` request the agents";
    "dispatch":
        "set `conversation.triggers_conversation: true` and let the agent put `agent_requests` into its output";
    "input_key":
        "a script reads the outputs of its dependencies in `dependencies`; a prompt uses `{{ agent_name.key }}`";
    "options": "put sampling options such as `temperature` into a model profile, and options of a script into `config`";
    "validation": "describe the output with `output_schema`, a JSON Schema";
    "output_format":
        "describe the output with `output_schema`, a JSON Schema; `--output json` prints a run's result as JSON";
    "synthesis": "add an agent that depends on the others";
    "coordinator": "add an agent that depends on the others";
    "cache":
        "remove the key: `run --cache DIR` caches the replies of models; `replay` uses the outputs of a recorded run",
        KeyReplacement::Remove;
    "fallback_model": "write `fallback: profile` in the model profile";
    "fallback_model_profile": "write `fallback: profile` in the model profile";
    "fallback_profile": "write `fallback: profile` in the model profile";
    "execution":
        "remove the key: agents that are ready run in parallel; `conversation_limits.parallel_agent_limit` sets the maximum",
        KeyReplacement::Remove;
    "role": "use `system_prompt`", KeyReplacement::Rename("system_prompt");
    "default_input": "use `default_task`", KeyReplacement::Rename("default_task");
];

impl LlmOrcKey {
    /// Returns the key of llm-orc with this name, if this language does not have it.
    pub(crate) fn find_by_name(name: &str) -> Option<&'static Self> {
        FOREIGN_KEYS.iter().find(|key| key.name == name)
    }
}
