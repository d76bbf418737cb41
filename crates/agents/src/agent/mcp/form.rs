//! The fields of a question of a server: what is asked for each, and the value of an answer.

use serde_json::{Value, json};

use crate::agent::output::schema::OutputSchema;
use ensemble_core::operator::escape_hidden;

/// Field of a form in a question of a server.
pub(crate) struct FormField {
    name: String,
    schema: Value,
    kind: FormFieldKind,
    is_required: bool,
}

/// Kind of values that a field accepts.
enum FormFieldKind {
    Text,
    Number,
    Boolean,
    /// One of these values, each with its title.
    One(Vec<(String, String)>),
    /// Any number of these values, each with its title.
    Several(Vec<(String, String)>),
}

/// Result of parsing an answer: a value, an empty field, or the reason for the refusal.
#[derive(Debug, PartialEq)]
pub(crate) enum FieldAnswer {
    /// The value.
    Value(Value),
    /// The field is left out.
    Nothing,
    /// The answer is not allowed; the text says why.
    Refused(String),
}

impl FormField {
    /// Creates a field with this JSON Schema.
    pub(crate) fn new(name: &str, schema: Value, is_required: bool) -> Self {
        let kind = match schema["type"].as_str() {
            Some("array") => FormFieldKind::Several(list_enum_options(&schema["items"])),
            Some("boolean") => FormFieldKind::Boolean,
            Some("number" | "integer") => FormFieldKind::Number,
            _ => match list_enum_options(&schema) {
                options if options.is_empty() => FormFieldKind::Text,
                options => FormFieldKind::One(options),
            },
        };
        Self {
            name: name.to_owned(),
            schema,
            kind,
            is_required,
        }
    }

    /// Returns the name of the field.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Renders the question for this field.
    pub(crate) fn field_question_text(&self) -> String {
        let word = |key: &str| self.schema[key].as_str().map(escape_hidden);
        let mut about: Vec<String> = [word("title"), word("description")].into_iter().flatten().collect();
        about.push(self.expected_value_text());
        format!("{}: {}", escape_hidden(&self.name), about.join("; "))
    }

    /// Describes the expected values, such as "a whole number, optional".
    fn expected_value_text(&self) -> String {
        let mut expected = match (&self.kind, self.schema["type"].as_str()) {
            (FormFieldKind::Number, Some("integer")) => "a whole number".to_owned(),
            (FormFieldKind::Number, _) => "a number".to_owned(),
            (FormFieldKind::Boolean, _) => "yes or no".to_owned(),
            (FormFieldKind::One(_), _) => "one of these".to_owned(),
            (FormFieldKind::Several(options), _) => {
                let titles: Vec<String> = options.iter().map(|(_, title)| escape_hidden(title)).collect();
                format!("any of these, separated by commas: {}", titles.join(", "))
            }
            (FormFieldKind::Text, _) => match self.schema["format"].as_str() {
                Some(format) => format!("a text in the format `{}`", escape_hidden(format)),
                None => "a text".to_owned(),
            },
        };
        if !self.is_required {
            expected.push_str(", optional");
        }
        expected
    }

    /// Lists the answers to choose from. Returns an empty list if every text is allowed.
    pub(crate) fn list_choices(&self) -> Vec<String> {
        match &self.kind {
            FormFieldKind::Boolean => vec!["yes".to_owned(), "no".to_owned()],
            FormFieldKind::One(options) => options.iter().map(|(_, title)| escape_hidden(title)).collect(),
            _ => Vec::new(),
        }
    }

    /// Describes the meaning of an empty answer.
    pub(crate) fn default_answer_text(&self) -> Option<String> {
        match (&self.schema["default"], self.is_required) {
            (Value::Null, true) => None,
            (Value::Null, false) => Some("left out".to_owned()),
            (Value::Bool(value), _) => Some(if *value { "yes" } else { "no" }.to_owned()),
            (Value::String(text), _) => Some(escape_hidden(text)),
            (value, _) => Some(escape_hidden(&value.to_string())),
        }
    }

    /// Parses an answer as a value of the field.
    pub(crate) fn parse_field_answer(&self, answer: &str) -> FieldAnswer {
        let answer = answer.trim();
        if answer.is_empty() {
            return match (&self.schema["default"], self.is_required) {
                (Value::Null, true) => FieldAnswer::Refused("an answer is required".to_owned()),
                (Value::Null, false) => FieldAnswer::Nothing,
                (default, _) => FieldAnswer::Value(default.clone()),
            };
        }
        let value = match &self.kind {
            FormFieldKind::Text => Some(json!(answer)),
            FormFieldKind::Number => serde_json::from_str(answer).ok().filter(Value::is_number),
            FormFieldKind::Boolean => match answer.to_lowercase().as_str() {
                "yes" | "y" | "true" | "1" => Some(json!(true)),
                "no" | "n" | "false" | "2" => Some(json!(false)),
                _ => None,
            },
            FormFieldKind::One(options) => find_option(answer, options).map(Value::from),
            FormFieldKind::Several(options) => {
                let choices = answer.split(',').map(|one| find_option(one.trim(), options));
                choices.collect::<Option<Vec<&str>>>().map(|chosen| json!(chosen))
            }
        };
        let Some(value) = value else {
            return FieldAnswer::Refused(format!(
                "`{}` is not {}",
                escape_hidden(answer),
                self.expected_value_text()
            ));
        };
        let errors = match OutputSchema::compile_with_formats(&self.schema) {
            Ok(schema) => schema.list_value_errors(&value),
            Err(_) => Vec::new(),
        };
        match errors.is_empty() {
            true => FieldAnswer::Value(value),
            false => FieldAnswer::Refused(escape_hidden(&errors.join("; "))),
        }
    }
}

/// Lists the values of an enum with their titles, from `enum`, `oneOf` or `anyOf`.
fn list_enum_options(schema: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(values) = schema["enum"].as_array() {
        let titled = |(at, value): (usize, &Value)| {
            let value = text(value)?;
            Some((value.clone(), text(&schema["enumNames"][at]).unwrap_or(value)))
        };
        return values.iter().enumerate().filter_map(titled).collect();
    }
    let titled = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    let option = |one: &Value| {
        let value = text(&one["const"])?;
        Some((value.clone(), text(&one["title"]).unwrap_or(value)))
    };
    titled.into_iter().flatten().filter_map(option).collect()
}

/// Finds the value of the option with this title, value or number. Titles have precedence, because they were shown.
fn find_option<'o>(answer: &str, options: &'o [(String, String)]) -> Option<&'o str> {
    let exact = |text: &str| escape_hidden(text).trim() == answer;
    let same = |text: &str| escape_hidden(text).trim().to_lowercase() == answer.to_lowercase();
    let by_title = |is_chosen: &dyn Fn(&str) -> bool| options.iter().find(|(_, title)| is_chosen(title));
    let by_value = || options.iter().find(|(value, _)| same(value));
    let matching_option = by_title(&exact).or_else(|| by_title(&same)).or_else(by_value);
    let numbered = || {
        answer
            .parse::<usize>()
            .ok()?
            .checked_sub(1)
            .and_then(|at| options.get(at))
    };
    matching_option.or_else(numbered).map(|(value, _)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_values_of_the_fields() {
        let value = |value: Value| Some(FieldAnswer::Value(value));
        let colours = json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]});
        let sizes =
            json!({"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]});
        let several = json!({"type": "array", "maxItems": 2, "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}, {"const": "c", "title": "C"}]}});
        // A title that is the value of another choice means its own choice.
        let crossed = json!({"enum": ["keep", "b", "c"], "enumNames": ["delete", "keep", "KEEP"]});
        // `None`: it is refused.
        let table = [
            (json!({"type": "string"}), true, " Ada ", value(json!("Ada"))),
            (json!({"type": "string"}), true, "12", value(json!("12"))),
            (json!({"type": "string"}), true, " ", None),
            (json!({"type": "string"}), false, "", Some(FieldAnswer::Nothing)),
            (
                json!({"type": "string", "default": "Bob"}),
                true,
                "",
                value(json!("Bob")),
            ),
            (json!({"type": "string", "minLength": 3}), true, "ab", None),
            (json!({"type": "string", "format": "email"}), true, "ada", None),
            (
                json!({"type": "string", "format": "email"}),
                true,
                "a@b.org",
                value(json!("a@b.org")),
            ),
            (json!({"type": "integer"}), true, "7", value(json!(7))),
            (json!({"type": "integer"}), true, "7.5", None),
            (json!({"type": "integer", "maximum": 5}), true, "7", None),
            (json!({"type": "number"}), true, "7.5", value(json!(7.5))),
            (json!({"type": "number"}), true, "many", None),
            (json!({"type": "boolean"}), true, "Yes", value(json!(true))),
            (json!({"type": "boolean"}), true, "2", value(json!(false))),
            (json!({"type": "boolean"}), true, "maybe", None),
            (
                json!({"type": "boolean", "default": true}),
                false,
                "",
                value(json!(true)),
            ),
            (colours.clone(), true, "green", value(json!("g"))),
            (colours.clone(), true, "r", value(json!("r"))),
            (colours.clone(), true, "2", value(json!("g"))),
            (colours, true, "blue", None),
            (crossed.clone(), true, "keep", value(json!("b"))),
            (crossed.clone(), true, "KEEP", value(json!("c"))),
            (crossed, true, "1", value(json!("keep"))),
            (sizes, true, "large", value(json!("l"))),
            (several.clone(), true, "a, C", value(json!(["a", "c"]))),
            (several.clone(), true, "a, d", None),
            (several, true, "a, b, c", None),
        ];
        for (schema, is_required, answer, expected) in table {
            let filled = FormField::new("f", schema.clone(), is_required).parse_field_answer(answer);
            match expected {
                Some(expected) => assert_eq!(filled, expected, "{schema} {answer}"),
                None => assert!(
                    matches!(filled, FieldAnswer::Refused(_)),
                    "{schema} {answer}: {filled:?}"
                ),
            }
        }
    }

    #[test]
    fn a_field_says_what_it_expects() {
        let field = FormField::new(
            "age\u{1b}",
            json!({"type": "integer", "title": "Age", "default": 3}),
            false,
        );
        assert_eq!(field.field_question_text(), "age\\u{1b}: Age; a whole number, optional");
        assert_eq!(field.default_answer_text().as_deref(), Some("3"));
        let choice = FormField::new("c", json!({"enum": ["a", "b"]}), true);
        assert_eq!(
            (choice.list_choices(), choice.default_answer_text()),
            (vec!["a".to_owned(), "b".to_owned()], None)
        );
    }
}
