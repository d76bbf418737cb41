//! What the text of a Rhai script tells before a run.

/// The variables of the Rhai script of an agent or a tool.
pub const SCRIPT_VARIABLES: [&str; 15] = [
    "input",
    "input_data",
    "inputs",
    "context",
    "dependencies",
    "failures",
    "news",
    "parameters",
    "turn_count",
    "execution",
    "attempt",
    "run_id",
    "agent_name",
    "request",
    "history",
];

/// The variables of a Rhai script that simulates a model.
pub const MODEL_VARIABLES: [&str; 3] = ["messages", "prompt", "execution"];

/// The variables of a Rhai script that selects what a context window contains.
pub const WINDOW_VARIABLES: [&str; 7] = [
    "messages",
    "tokens",
    "system",
    "system_tokens",
    "max_tokens",
    "max_messages",
    "min_recent_turns",
];

/// The text of a Rhai script, with the names and keys that the script reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptText {
    /// The name of its file in messages.
    pub name: String,
    /// The text.
    pub text: String,
    /// The variables that it reads and does not define, each at its first place.
    pub free: Vec<ScriptName>,
    /// The variables that its functions read and do not define, each at its first place. A function has no variables but
    /// its parameters.
    pub free_in_functions: Vec<ScriptName>,
    /// The keys of variables that it reads without testing whether they exist, each at its first place.
    pub keys: Vec<ScriptVariableKeyRead>,
    /// The called functions that do not exist, each at its first place.
    pub unknown_functions: Vec<UnknownFunction>,
    /// The functions that it calls with a number of arguments that none of that name takes.
    pub miscalled: Vec<(ScriptName, ScriptCallMismatch)>,
    /// The place of `agent_requests` in a map that it writes.
    pub requests: Option<ScriptName>,
    /// The agents that it requests by a literal name, each at its first place.
    pub requested: Vec<ScriptName>,
}

/// A name in a script, with its line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptName {
    /// The name.
    pub name: String,
    /// Line and column in the script, from 1.
    pub place: (usize, usize),
}

/// A call of a function that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFunction {
    /// Its name, at the first call.
    pub name: ScriptName,
    /// A function that is spelled alike.
    pub similar: Option<String>,
    /// Whether every execution of the script reaches a call.
    pub is_certain: bool,
}

/// A call of a function with arguments that no definition accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptCallMismatch {
    /// The number in the parentheses.
    pub given: usize,
    /// The numbers that the functions of the name take, in ascending order.
    pub takes: Vec<usize>,
    /// Whether it is called on a value: `value.name(…)`.
    pub is_method: bool,
    /// Whether every execution of the script reaches the call.
    pub is_certain: bool,
}

/// A read of a key of a variable: `dependencies.writer`, `context["topic"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptVariableKeyRead {
    /// The variable.
    pub variable: String,
    /// The literal key.
    pub key: ScriptName,
    /// Whether the script only compares the value or passes it on, so that it may do without it.
    pub may_be_missing: bool,
}
