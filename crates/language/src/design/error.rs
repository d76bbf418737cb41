//! Errors of commands of the graph, by kind.

use serde_json::Value;

/// An error of a command that cannot become an edit of the text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GraphEditError {
    /// The text is not YAML; the line and the message of the first problem, if one is known.
    #[error("the text cannot be changed from the graph while it is not YAML{}", describe_first_problem(.first))]
    NotYaml {
        /// The line, from 1, and the message.
        first: Option<(usize, String)>,
    },
    /// The text has a number that JSON does not have.
    #[error("the text cannot be changed from the graph: a number in it is not a JSON number")]
    NotJson,
    /// The text is not a map.
    #[error("the text is not an ensemble: the top level must be a map")]
    NotEnsemble,
    /// `agents` is something else than a list.
    #[error("`agents` is not a list")]
    AgentsNotList,
    /// No agent has the name.
    #[error("there is no agent `{0}`")]
    UnknownAgent(String),
    /// Two agents have the name.
    #[error("two agents have the name `{0}`")]
    AmbiguousAgent(String),
    /// An agent has the name of the new one.
    #[error("an agent `{0}` already exists; choose another name")]
    AgentExists(String),
    /// The name cannot be that of an agent.
    #[error(
        "`{0}` cannot be the name of an agent: use letters, digits, `_`, `.` and `-`, and start with a letter or digit"
    )]
    BadName(String),
    /// The word chooses no kind of agent.
    #[error("`{0}` is not a type of agent")]
    UnknownKind(String),
    /// The kind of the new agent has no value.
    #[error("`{0}` needs a value")]
    NoValue(String),
    /// An ensemble has at least one agent.
    #[error("`{0}` is the only agent, and an ensemble has at least one")]
    OnlyAgent(String),
    /// The dependency exists.
    #[error("`{agent}` already listens to `{to}`")]
    DependencyExists {
        /// The agent that listens.
        agent: String,
        /// The agent to which it listens.
        to: String,
    },
    /// The dependency with this number is another one.
    #[error("dependency {number} of `{agent}` is not on `{to}`")]
    OtherDependency {
        /// The number, from 1.
        number: usize,
        /// The agent that listens.
        agent: String,
        /// The agent to which it should listen.
        to: String,
    },
    /// The condition has no text.
    #[error("the condition is blank")]
    BlankCondition,
    /// The dependency has no condition that could be removed.
    #[error("`{agent}` already listens to `{to}` without a condition")]
    NoCondition {
        /// The agent that listens.
        agent: String,
        /// The agent to which it listens.
        to: String,
    },
    /// The key has this value.
    #[error("`{key}` of the dependency of `{agent}` on `{to}` already has this value")]
    SameValue {
        /// The key.
        key: String,
        /// The agent that listens.
        agent: String,
        /// The agent to which it listens.
        to: String,
    },
    /// The key is not one that the graph sets.
    #[error("`{0}` of a dependency cannot be set here; edit the text")]
    UnknownKey(String),
    /// The key of the agent or of the file has this value.
    #[error("`{key}` of {owner} already has this value")]
    SameSetting {
        /// The keys, with dots.
        key: String,
        /// The agent, or the file.
        owner: String,
    },
    /// The agent or the file has no such key, or the key has commands of its own.
    #[error("`{key}` of {owner} cannot be set here; edit the text")]
    UnknownSetting {
        /// The keys, with dots.
        key: String,
        /// The agent, or the file.
        owner: String,
    },
    /// The key cannot have the value.
    #[error("`{key}` is {expected}, not {value}")]
    BadValue {
        /// The key.
        key: String,
        /// The possible values.
        expected: String,
        /// The value.
        value: Value,
    },
    /// The text is written in a way in which the edit would change something else.
    #[error(
        "cannot {title} without changing something else or losing a comment, because of the way in which it is written (an alias, a merge, or \
         brackets); change the text"
    )]
    Stuck {
        /// What the command does.
        title: String,
    },
}

/// Returns the line and the message of the first problem for an error message, or an empty text.
fn describe_first_problem(first: &Option<(usize, String)>) -> String {
    first
        .as_ref()
        .map_or_else(String::new, |(line, message)| format!(": line {line}: {message}"))
}

/// Returns the name of the agent in backticks, or `the file` without an agent.
pub(super) fn describe_owner(agent: Option<&str>) -> String {
    agent.map_or_else(|| "the file".to_owned(), |agent| format!("`{agent}`"))
}
