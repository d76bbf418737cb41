//! What the names in templates of Conductor stand for, and what is written for them here.

use std::collections::HashMap;

/// A step, as templates read it.
#[derive(Debug)]
pub(super) struct Step {
    /// The name in the new file.
    pub(super) new: String,
    pub(super) reads: Reads,
}

/// The form of the output of a step.
#[derive(Debug)]
pub(super) enum Reads {
    /// A model; `raw`: its reply is a text.
    Model { raw: bool },
    /// A child process; `declared`: its output is a JSON object.
    Script { declared: bool },
    /// A choice of a person.
    Gate,
    /// Answers of a person.
    Questions,
    /// Values that templates compute, by key; the key of a single value is empty.
    Set(HashMap<String, Option<String>>),
    /// A group of steps that run side by side: their old names.
    Parallel(Vec<String>),
    /// A step that runs for each item of a list.
    Each { collect: bool, keyed: bool },
    /// An inner workflow.
    Workflow,
    /// No output that anyone could read.
    Nothing,
}

/// The position of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    Prompt,
    /// A condition on the output of this step.
    Condition(&'a str),
    /// An expression of the result, or of a list of items.
    Result,
}

/// The replacement of a path of names.
pub(super) enum Found {
    /// The text for the first `used` keys. `soft`: the value may be missing.
    Path { text: String, used: usize, soft: bool },
    /// An expression of Conductor that stands for the first `used` keys.
    Value { source: String, used: usize },
    /// The name is not one of a step.
    Unknown,
    /// There is nothing that could be written, and why.
    Lost(&'static str),
}

/// All names of a workflow.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) steps: HashMap<String, Step>,
    pub(super) name: String,
    pub(super) description: String,
}

impl Names {
    /// Returns the replacement of a name followed by keys.
    pub(super) fn find(&self, root: &str, keys: &[&str], place: Place<'_>) -> Found {
        match (root, keys) {
            ("workflow", ["input", name, ..]) => hard(member("inputs", name), 2),
            ("workflow", ["input"]) => hard("inputs".to_owned(), 1),
            ("workflow", ["name", ..]) => hard(quoted(&self.name), 1),
            ("workflow", ["description", ..]) => hard(quoted(&self.description), 1),
            ("workflow", _) => Found::Lost("the place of the file is not known to an ensemble"),
            ("context", ["iteration", ..]) => hard("turn_count".to_owned(), 1),
            ("context", _) => Found::Lost("only `context.iteration` has an equivalent"),
            ("_index", _) => hard("part.index".to_owned(), 0),
            ("_key", _) => hard("part.key".to_owned(), 0),
            ("output", _) => match place {
                Place::Condition(source) => match self.steps.get(source) {
                    Some(_) => self.step(source, "output", keys, place, 0),
                    None => Found::Unknown,
                },
                _ => Found::Unknown,
            },
            (_, _) if !self.steps.contains_key(root) => Found::Unknown,
            (_, [part @ ("output" | "outputs" | "errors" | "choice"), rest @ ..]) => {
                self.step(root, part, rest, place, 1)
            }
            _ => self.whole(root, place),
        }
    }

    /// The step itself, as in `{% if step is defined %}`.
    fn whole(&self, root: &str, place: Place<'_>) -> Found {
        match self.steps.get(root).map(|step| &step.reads) {
            Some(Reads::Parallel(members)) => match members.last() {
                Some(last) => self.base(last, place, 0),
                None => Found::Unknown,
            },
            Some(_) => self.base(root, place, 0),
            None => Found::Unknown,
        }
    }

    fn base(&self, step: &str, place: Place<'_>, used: usize) -> Found {
        let new = self.steps.get(step).map_or(step, |step| step.new.as_str());
        match place {
            Place::Condition(source) if source == step => hard("output".to_owned(), used),
            Place::Prompt => hard(member("context", new), used),
            _ => Found::Path {
                text: member("outputs", new),
                used,
                soft: true,
            },
        }
    }

    /// A key under the output of a step.
    fn key(&self, step: &str, key: &str, place: Place<'_>, used: usize) -> Found {
        match self.base(step, place, used) {
            Found::Path { text, soft: true, .. } => Found::Path {
                text: format!("{text}?.{key}"),
                used,
                soft: true,
            },
            Found::Path { text, .. } => hard(format!("{text}.{key}"), used),
            other => other,
        }
    }

    fn step(&self, name: &str, part: &str, keys: &[&str], place: Place<'_>, before: usize) -> Found {
        let Some(step) = self.steps.get(name) else {
            return Found::Unknown;
        };
        match (&step.reads, part, keys) {
            (Reads::Model { raw: true }, "output", ["result", ..]) => self.key(name, "response", place, before + 1),
            (Reads::Script { .. }, "output", ["stdout", ..]) => self.key(name, "response", place, before + 1),
            (Reads::Script { .. }, "output", ["exit_code", ..]) => match place {
                Place::Condition(source) if source == name => hard(super::EXIT_CODE.to_owned(), before + 1),
                _ => Found::Lost("the exit code of a script is not a part of its output"),
            },
            (Reads::Script { .. }, "output", ["stderr", ..]) => {
                Found::Lost("the standard error of a script is not a part of its output")
            }
            (Reads::Gate, "choice", _) => self.key(name, "response", place, before),
            (Reads::Gate, "output", ["selected" | "value" | "choice", ..]) => {
                self.key(name, "response", place, before + 1)
            }
            (Reads::Gate, "output", ["additional_input", field, ..]) => {
                let asked = format!("{name}\u{0}{field}");
                if self.steps.contains_key(&asked) {
                    self.key(&asked, "response", place, before + 2)
                } else {
                    Found::Lost("no option of the gate asks for this")
                }
            }
            (Reads::Questions, "output", ["transcript", ..]) => self.key(name, "response", place, before + 1),
            (Reads::Questions, "output", ["answered_any", ..]) => self.key(name, "response", place, before + 1),
            (Reads::Questions, "output", [_, ..]) => {
                Found::Lost("the answers to several questions are one text, the `transcript`")
            }
            (Reads::Set(values), "output", keys) => {
                let (key, used) = match keys {
                    [key, ..] if values.contains_key(*key) => (*key, 1),
                    _ => ("", 0),
                };
                match values.get(key) {
                    Some(Some(source)) => Found::Value {
                        source: source.clone(),
                        used: before + used,
                    },
                    _ => Found::Lost("the value that the `set` step computes cannot be written in its place"),
                }
            }
            (Reads::Parallel(members), "outputs", [member, rest @ ..]) if members.iter().any(|one| one == member) => {
                self.step(member, "output", rest, place, before + 1)
            }
            (Reads::Parallel(members), "outputs", []) => {
                let items: Vec<String> = members
                    .iter()
                    .filter_map(|old| match self.base(old, place, 0) {
                        Found::Path { text, .. } => Some(format!("{}: {text}", quoted(old))),
                        _ => None,
                    })
                    .collect();
                hard(format!("{{{}}}", items.join(", ")), before)
            }
            (Reads::Parallel(_), "errors", _) => hard("{}".to_owned(), before),
            (Reads::Parallel(_), _, _) => Found::Lost("the group has no such member"),
            (Reads::Each { keyed: true, .. }, "outputs", [_, ..]) => {
                Found::Lost("outputs are a list under `items`, and their keys are under `keys`")
            }
            (Reads::Each { collect, .. }, "outputs", _) => match self.key(name, "items", place, before) {
                // Failed parts are `null` in the list.
                Found::Path { text, used, .. } if *collect && place == Place::Prompt => {
                    hard(format!("({text} | select | list)"), used)
                }
                other => other,
            },
            (Reads::Each { .. }, "errors", _) => self.key(name, "failed", place, before),
            (Reads::Nothing, _, _) => Found::Lost("the step has no output here"),
            _ => self.base(name, place, before),
        }
    }
}

fn hard(text: String, used: usize) -> Found {
    Found::Path {
        text,
        used,
        soft: false,
    }
}

/// `map.key`, or `map["key"]` for a key that is not a word.
pub(super) fn member(map: &str, key: &str) -> String {
    if is_word(key) {
        format!("{map}.{key}")
    } else {
        format!("{map}[{}]", quoted(key))
    }
}

pub(super) fn is_word(text: &str) -> bool {
    ensemble_language::names::is_ascii_identifier(text)
}

/// A string literal of both languages.
pub(super) fn quoted(text: &str) -> String {
    if text.chars().all(|c| !c.is_control() && !matches!(c, '\'' | '\\')) {
        return format!("'{text}'");
    }
    serde_json::Value::from(text).to_string()
}
