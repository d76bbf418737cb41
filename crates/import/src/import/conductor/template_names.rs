//! What the names in templates of Conductor stand for, and what is written for them here.

use std::collections::HashMap;

/// Step of a workflow, as templates read its output.
#[derive(Debug)]
pub(super) struct NamedStep {
    /// The name in the new file.
    pub(super) new: String,
    pub(super) reads: StepOutputForm,
}

/// Form of the output of a step, as templates of Conductor read the output.
#[derive(Debug)]
pub(super) enum StepOutputForm {
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
    NoOutput,
}

/// Position of an expression: a prompt, the condition of a step, or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpressionPosition<'a> {
    Prompt,
    /// A condition on the output of this step.
    Condition(&'a str),
    /// An expression of the result, or of a list of items.
    Result,
}

/// Replacement of a name with keys.
pub(super) enum NameReplacement {
    /// The text for the first `used` keys. `soft`: the value may be missing.
    Path { text: String, used: usize, soft: bool },
    /// An expression of Conductor that stands for the first `used` keys.
    Value { source: String, used: usize },
    /// The name is not one of a step.
    Unknown,
    /// There is nothing that could be written, and why.
    NoEquivalent(&'static str),
}

/// Names that templates of a workflow can read.
#[derive(Debug, Default)]
pub(super) struct WorkflowNames {
    pub(super) steps: HashMap<String, NamedStep>,
    pub(super) name: String,
    pub(super) description: String,
}

impl WorkflowNames {
    /// Returns the replacement of a name with keys in this position.
    pub(super) fn find_replacement(&self, root: &str, keys: &[&str], place: ExpressionPosition<'_>) -> NameReplacement {
        match (root, keys) {
            ("workflow", ["input", name, ..]) => required_path(member_expression("inputs", name), 2),
            ("workflow", ["input"]) => required_path("inputs".to_owned(), 1),
            ("workflow", ["name", ..]) => required_path(quote_string(&self.name), 1),
            ("workflow", ["description", ..]) => required_path(quote_string(&self.description), 1),
            ("workflow", _) => NameReplacement::NoEquivalent("an ensemble does not know the path of its file"),
            ("context", ["iteration", ..]) => required_path("turn_count".to_owned(), 1),
            ("context", _) => NameReplacement::NoEquivalent("only `context.iteration` has an equivalent"),
            ("_index", _) => required_path("part.index".to_owned(), 0),
            ("_key", _) => required_path("part.key".to_owned(), 0),
            ("output", _) => match place {
                ExpressionPosition::Condition(source) => match self.steps.get(source) {
                    Some(_) => self.replace_step_part(source, "output", keys, place, 0),
                    None => NameReplacement::Unknown,
                },
                _ => NameReplacement::Unknown,
            },
            (_, _) if !self.steps.contains_key(root) => NameReplacement::Unknown,
            (_, [part @ ("output" | "outputs" | "errors" | "choice"), rest @ ..]) => {
                self.replace_step_part(root, part, rest, place, 1)
            }
            _ => self.replace_step(root, place),
        }
    }

    /// Returns the replacement of a step name without keys, as in `{% if step is defined %}`.
    fn replace_step(&self, root: &str, place: ExpressionPosition<'_>) -> NameReplacement {
        match self.steps.get(root).map(|step| &step.reads) {
            Some(StepOutputForm::Parallel(members)) => match members.last() {
                Some(last) => self.replace_output(last, place, 0),
                None => NameReplacement::Unknown,
            },
            Some(_) => self.replace_output(root, place, 0),
            None => NameReplacement::Unknown,
        }
    }

    /// Returns the replacement of the whole output of a step. `used` is the number of replaced keys.
    fn replace_output(&self, step: &str, place: ExpressionPosition<'_>, used: usize) -> NameReplacement {
        let new = self.steps.get(step).map_or(step, |step| step.new.as_str());
        match place {
            ExpressionPosition::Condition(source) if source == step => required_path("output".to_owned(), used),
            ExpressionPosition::Prompt => required_path(member_expression("context", new), used),
            _ => NameReplacement::Path {
                text: member_expression("outputs", new),
                used,
                soft: true,
            },
        }
    }

    /// Returns the replacement of a key of the output of a step.
    fn replace_output_key(&self, step: &str, key: &str, place: ExpressionPosition<'_>, used: usize) -> NameReplacement {
        match self.replace_output(step, place, used) {
            NameReplacement::Path { text, soft: true, .. } => NameReplacement::Path {
                text: format!("{text}?.{key}"),
                used,
                soft: true,
            },
            NameReplacement::Path { text, .. } => required_path(format!("{text}.{key}"), used),
            other => other,
        }
    }

    /// Returns the replacement of a member of a step, by the form of its output. `before` is the number of keys replaced already.
    fn replace_step_part(
        &self,
        name: &str,
        part: &str,
        keys: &[&str],
        place: ExpressionPosition<'_>,
        before: usize,
    ) -> NameReplacement {
        let Some(step) = self.steps.get(name) else {
            return NameReplacement::Unknown;
        };
        match (&step.reads, part, keys) {
            (StepOutputForm::Model { raw: true }, "output", ["result", ..]) => {
                self.replace_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Script { .. }, "output", ["stdout", ..]) => {
                self.replace_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Script { .. }, "output", ["exit_code", ..]) => match place {
                ExpressionPosition::Condition(source) if source == name => {
                    required_path(super::EXIT_CODE.to_owned(), before + 1)
                }
                _ => NameReplacement::NoEquivalent("the exit code of a script is not a part of its output"),
            },
            (StepOutputForm::Script { .. }, "output", ["stderr", ..]) => {
                NameReplacement::NoEquivalent("the standard error of a script is not a part of its output")
            }
            (StepOutputForm::Gate, "choice", _) => self.replace_output_key(name, "response", place, before),
            (StepOutputForm::Gate, "output", ["selected" | "value" | "choice", ..]) => {
                self.replace_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Gate, "output", ["additional_input", field, ..]) => {
                let question_key = format!("{name}\u{0}{field}");
                if self.steps.contains_key(&question_key) {
                    self.replace_output_key(&question_key, "response", place, before + 2)
                } else {
                    NameReplacement::NoEquivalent("no option of the gate asks for this")
                }
            }
            (StepOutputForm::Questions, "output", ["transcript", ..]) => {
                self.replace_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Questions, "output", ["answered_any", ..]) => {
                self.replace_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Questions, "output", [_, ..]) => {
                NameReplacement::NoEquivalent("the answers to several questions are one text, the `transcript`")
            }
            (StepOutputForm::Set(values), "output", keys) => {
                let (key, used) = match keys {
                    [key, ..] if values.contains_key(*key) => (*key, 1),
                    _ => ("", 0),
                };
                match values.get(key) {
                    Some(Some(source)) => NameReplacement::Value {
                        source: source.clone(),
                        used: before + used,
                    },
                    _ => NameReplacement::NoEquivalent("the value that the `set` step computes cannot be inserted"),
                }
            }
            (StepOutputForm::Parallel(members), "outputs", [member, rest @ ..])
                if members.iter().any(|one| one == member) =>
            {
                self.replace_step_part(member, "output", rest, place, before + 1)
            }
            (StepOutputForm::Parallel(members), "outputs", []) => {
                let items: Vec<String> = members
                    .iter()
                    .filter_map(|old| match self.replace_output(old, place, 0) {
                        NameReplacement::Path { text, .. } => Some(format!("{}: {text}", quote_string(old))),
                        _ => None,
                    })
                    .collect();
                required_path(format!("{{{}}}", items.join(", ")), before)
            }
            (StepOutputForm::Parallel(_), "errors", _) => required_path("{}".to_owned(), before),
            (StepOutputForm::Parallel(_), _, _) => NameReplacement::NoEquivalent("the group has no such member"),
            (StepOutputForm::Each { keyed: true, .. }, "outputs", [_, ..]) => {
                NameReplacement::NoEquivalent("outputs are a list under `items`, and their keys are under `keys`")
            }
            (StepOutputForm::Each { collect, .. }, "outputs", _) => {
                match self.replace_output_key(name, "items", place, before) {
                    // Failed parts are `null` in the list.
                    NameReplacement::Path { text, used, .. } if *collect && place == ExpressionPosition::Prompt => {
                        required_path(format!("({text} | select | list)"), used)
                    }
                    other => other,
                }
            }
            (StepOutputForm::Each { .. }, "errors", _) => self.replace_output_key(name, "failed", place, before),
            (StepOutputForm::NoOutput, _, _) => {
                NameReplacement::NoEquivalent("the step has no output in this language")
            }
            _ => self.replace_output(name, place, before),
        }
    }
}

/// Creates a replacement whose value must exist.
fn required_path(text: String, used: usize) -> NameReplacement {
    NameReplacement::Path {
        text,
        used,
        soft: false,
    }
}

/// Renders `map.key`, or `map["key"]` for a key that is not an identifier.
pub(super) fn member_expression(map: &str, key: &str) -> String {
    if is_word(key) {
        format!("{map}.{key}")
    } else {
        format!("{map}[{}]", quote_string(key))
    }
}

/// Returns whether the text is an ASCII identifier.
pub(super) fn is_word(text: &str) -> bool {
    ensemble_language::names::is_ascii_identifier(text)
}

/// Renders the text as a string literal that both languages accept.
pub(super) fn quote_string(text: &str) -> String {
    if text.chars().all(|c| !c.is_control() && !matches!(c, '\'' | '\\')) {
        return format!("'{text}'");
    }
    serde_json::Value::from(text).to_string()
}
