//! The words of expressions and templates: variables, and the form in which functions and filters are listed.

/// A variable, a function or a filter of the language: its name, form and documentation.
#[derive(Debug, Clone, Copy)]
pub struct LanguageWord {
    /// The name.
    pub name: &'static str,
    /// The type of a variable, or the parameters of a function.
    pub form: &'static str,
    /// The meaning, in Markdown.
    pub documentation: &'static str,
}

/// Rows of words: `"name": "form", "documentation";`.
macro_rules! words {
    ($($name:literal: $form:literal, $documentation:literal;)*) => {
        [$(LanguageWord { name: $name, form: $form, documentation: $documentation }),*]
    };
}

/// The variables of conditions and expressions, in the order of the language reference.
pub static CONDITION_VARIABLES: [LanguageWord; 9] = words![
    "context": "a map",
        "The accumulated context: the outputs of agents by their names, and the keys of their outputs.";
    "output": "the output of the dependency",
        "The latest output of the agent of the dependency; nothing if there is no output yet.";
    "turn_count": "a number", "The number of finished turns.";
    "history": "a list", "All executions so far, the oldest first.";
    "executions": "a map from agents to numbers", "The number of executions of each agent.";
    "agent_execution_count": "a map from agents to numbers", "Another name for `executions`.";
    "input": "a string", "The input of the run.";
    "inputs": "a map", "The inputs of the run, by name.";
    "outputs": "a map from agents to outputs", "The latest output of each agent that has an output.";
];

/// The variables of templates, in addition to the names of dependencies.
pub const TEMPLATE_VARIABLES: [LanguageWord; 11] = words![
    "input": "a string", "The input of the run.";
    "inputs": "a map", "The inputs of the run, by name.";
    "context": "a map",
        "The accumulated context: the outputs of agents by their names, and the keys of their outputs.";
    "turn_count": "a number", "The number of finished turns.";
    "execution": "a number", "The number of the execution of the agent, from 1.";
    "dependencies": "a map from agents to outputs",
        "The latest outputs of the agents that this agent depends on, including agents whose names are not identifiers.";
    "news": "a list of agents",
        "The agents whose new outputs started the execution; `news.writer` is true if `writer` is one of them, otherwise false.";
    "parameters": "a map", "The agent's `config`.";
    "request": "a map",
        "`from`, `parameters` and `priority` of the request that started the execution; nothing if there was no request.";
    "history": "a list", "The executions so far, the oldest first.";
    "transcript": "a string", "The executions so far as text, in labeled blocks.";
];

/// Returns the names of a table of words.
pub(crate) const fn word_names<const N: usize>(words: &[LanguageWord; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = words[at].name;
        at += 1;
    }
    names
}
