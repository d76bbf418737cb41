//! What the names in templates of Conductor stand for, and what is written for them here.

use std::collections::HashMap;

/// Step of a workflow, as templates read its output.
#[derive(Debug)]
pub(super) struct TemplateStep {
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
pub(super) enum PathReplacement {
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
pub(super) struct WorkflowTemplateNames {
    pub(super) steps: HashMap<String, TemplateStep>,
    pub(super) name: String,
    pub(super) description: String,
}

impl WorkflowTemplateNames {
    /// Returns the replacement of a name with keys in this position.
    pub(super) fn find_path_replacement(
        &self,
        root: &str,
        keys: &[&str],
        place: ExpressionPosition<'_>,
    ) -> PathReplacement {
        match (root, keys) {
            ("workflow", ["input", name, ..]) => required_path_replacement(render_member_access("inputs", name), 2),
            ("workflow", ["input"]) => required_path_replacement("inputs".to_owned(), 1),
            ("workflow", ["name", ..]) => required_path_replacement(quote_string_literal(&self.name), 1),
            ("workflow", ["description", ..]) => required_path_replacement(quote_string_literal(&self.description), 1),
            ("workflow", _) => PathReplacement::NoEquivalent("an ensemble does not know the path of its file"),
            ("context", ["iteration", ..]) => required_path_replacement("turn_count".to_owned(), 1),
            ("context", _) => PathReplacement::NoEquivalent("only `context.iteration` has an equivalent"),
            ("_index", _) => required_path_replacement("part.index".to_owned(), 0),
            ("_key", _) => required_path_replacement("part.key".to_owned(), 0),
            ("output", _) => match place {
                ExpressionPosition::Condition(source) => match self.steps.get(source) {
                    Some(_) => self.replace_step_member(source, "output", keys, place, 0),
                    None => PathReplacement::Unknown,
                },
                _ => PathReplacement::Unknown,
            },
            (_, _) if !self.steps.contains_key(root) => PathReplacement::Unknown,
            (_, [part @ ("output" | "outputs" | "errors" | "choice"), rest @ ..]) => {
                self.replace_step_member(root, part, rest, place, 1)
            }
            _ => self.replace_step_name(root, place),
        }
    }

    /// Returns the replacement of a step name without keys, as in `{% if step is defined %}`.
    fn replace_step_name(&self, root: &str, place: ExpressionPosition<'_>) -> PathReplacement {
        match self.steps.get(root).map(|step| &step.reads) {
            Some(StepOutputForm::Parallel(members)) => match members.last() {
                Some(last) => self.replace_step_output(last, place, 0),
                None => PathReplacement::Unknown,
            },
            Some(_) => self.replace_step_output(root, place, 0),
            None => PathReplacement::Unknown,
        }
    }

    /// Returns the replacement of the whole output of a step. `used` is the number of replaced keys.
    fn replace_step_output(&self, step: &str, place: ExpressionPosition<'_>, used: usize) -> PathReplacement {
        let new = self.steps.get(step).map_or(step, |step| step.new.as_str());
        match place {
            ExpressionPosition::Condition(source) if source == step => {
                required_path_replacement("output".to_owned(), used)
            }
            ExpressionPosition::Prompt => required_path_replacement(render_member_access("context", new), used),
            _ => PathReplacement::Path {
                text: render_member_access("outputs", new),
                used,
                soft: true,
            },
        }
    }

    /// Returns the replacement of a key of the output of a step.
    fn replace_step_output_key(
        &self,
        step: &str,
        key: &str,
        place: ExpressionPosition<'_>,
        used: usize,
    ) -> PathReplacement {
        match self.replace_step_output(step, place, used) {
            PathReplacement::Path { text, soft: true, .. } => PathReplacement::Path {
                text: format!("{text}?.{key}"),
                used,
                soft: true,
            },
            PathReplacement::Path { text, .. } => required_path_replacement(format!("{text}.{key}"), used),
            other => other,
        }
    }

    /// Returns the replacement of a member of a step, by the form of its output. `before` is the number of keys replaced already.
    fn replace_step_member(
        &self,
        name: &str,
        part: &str,
        keys: &[&str],
        place: ExpressionPosition<'_>,
        before: usize,
    ) -> PathReplacement {
        let Some(step) = self.steps.get(name) else {
            return PathReplacement::Unknown;
        };
        match (&step.reads, part, keys) {
            (StepOutputForm::Model { raw: true }, "output", ["result", ..]) => {
                self.replace_step_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Script { .. }, "output", ["stdout", ..]) => {
                self.replace_step_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Script { .. }, "output", ["exit_code", ..]) => match place {
                ExpressionPosition::Condition(source) if source == name => {
                    required_path_replacement(super::EXIT_CODE_EXPRESSION.to_owned(), before + 1)
                }
                _ => PathReplacement::NoEquivalent("the exit code of a script is not a part of its output"),
            },
            (StepOutputForm::Script { .. }, "output", ["stderr", ..]) => {
                PathReplacement::NoEquivalent("the standard error of a script is not a part of its output")
            }
            (StepOutputForm::Gate, "choice", _) => self.replace_step_output_key(name, "response", place, before),
            (StepOutputForm::Gate, "output", ["selected" | "value" | "choice", ..]) => {
                self.replace_step_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Gate, "output", ["additional_input", field, ..]) => {
                let question_key = format!("{name}\u{0}{field}");
                if self.steps.contains_key(&question_key) {
                    self.replace_step_output_key(&question_key, "response", place, before + 2)
                } else {
                    PathReplacement::NoEquivalent("no option of the gate asks for this")
                }
            }
            (StepOutputForm::Questions, "output", ["transcript", ..]) => {
                self.replace_step_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Questions, "output", ["answered_any", ..]) => {
                self.replace_step_output_key(name, "response", place, before + 1)
            }
            (StepOutputForm::Questions, "output", [_, ..]) => {
                PathReplacement::NoEquivalent("the answers to several questions are one text, the `transcript`")
            }
            (StepOutputForm::Set(values), "output", keys) => {
                let (key, used) = match keys {
                    [key, ..] if values.contains_key(*key) => (*key, 1),
                    _ => ("", 0),
                };
                match values.get(key) {
                    Some(Some(source)) => PathReplacement::Value {
                        source: source.clone(),
                        used: before + used,
                    },
                    _ => PathReplacement::NoEquivalent("the value that the `set` step computes cannot be inserted"),
                }
            }
            (StepOutputForm::Parallel(members), "outputs", [member, rest @ ..])
                if members.iter().any(|one| one == member) =>
            {
                self.replace_step_member(member, "output", rest, place, before + 1)
            }
            (StepOutputForm::Parallel(members), "outputs", []) => {
                let items: Vec<String> = members
                    .iter()
                    .filter_map(|old| match self.replace_step_output(old, place, 0) {
                        PathReplacement::Path { text, .. } => Some(format!("{}: {text}", quote_string_literal(old))),
                        _ => None,
                    })
                    .collect();
                required_path_replacement(format!("{{{}}}", items.join(", ")), before)
            }
            (StepOutputForm::Parallel(_), "errors", _) => required_path_replacement("{}".to_owned(), before),
            (StepOutputForm::Parallel(_), _, _) => PathReplacement::NoEquivalent("the group has no such member"),
            (StepOutputForm::Each { keyed: true, .. }, "outputs", [_, ..]) => {
                PathReplacement::NoEquivalent("outputs are a list under `items`, and their keys are under `keys`")
            }
            (StepOutputForm::Each { collect, .. }, "outputs", _) => {
                match self.replace_step_output_key(name, "items", place, before) {
                    // Failed parts are `null` in the list.
                    PathReplacement::Path { text, used, .. } if *collect && place == ExpressionPosition::Prompt => {
                        required_path_replacement(format!("({text} | select | list)"), used)
                    }
                    other => other,
                }
            }
            (StepOutputForm::Each { .. }, "errors", _) => self.replace_step_output_key(name, "failed", place, before),
            (StepOutputForm::NoOutput, _, _) => {
                PathReplacement::NoEquivalent("the step has no output in this language")
            }
            _ => self.replace_step_output(name, place, before),
        }
    }
}

/// Creates a replacement whose value must exist.
fn required_path_replacement(text: String, used: usize) -> PathReplacement {
    PathReplacement::Path {
        text,
        used,
        soft: false,
    }
}

/// Renders `map.key`, or `map["key"]` for a key that is not an identifier.
pub(super) fn render_member_access(map: &str, key: &str) -> String {
    if is_identifier(key) {
        format!("{map}.{key}")
    } else {
        format!("{map}[{}]", quote_string_literal(key))
    }
}

/// Returns whether the text is an ASCII identifier.
pub(super) fn is_identifier(text: &str) -> bool {
    ensemble_language::names::is_ascii_identifier(text)
}

/// Renders the text as a string literal that both languages accept.
pub(super) fn quote_string_literal(text: &str) -> String {
    if text.chars().all(|c| !c.is_control() && !matches!(c, '\'' | '\\')) {
        return format!("'{text}'");
    }
    serde_json::Value::from(text).to_string()
}
