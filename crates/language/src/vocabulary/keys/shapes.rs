//! Shapes that several keys share, as JSON Schemas.

/// A string.
pub(super) const TEXT: &str = r#"{"type": "string"}"#;

/// A string that is not blank.
pub(super) const FILLED: &str = r#"{"type": "string", "pattern": "\\S"}"#;

/// An integer of at least 1.
pub(super) const COUNT: &str = r#"{"type": "integer", "minimum": 1, "maximum": 4294967295}"#;

/// An integer of at least 0.
pub(super) const COUNT_OR_ZERO: &str = r#"{"type": "integer", "minimum": 0, "maximum": 4294967295}"#;

/// An integer of at least 1, of any size.
pub(super) const WHOLE: &str = r#"{"type": "integer", "minimum": 1}"#;

/// `true` or `false`.
pub(super) const FLAG: &str = r#"{"type": "boolean"}"#;

/// A time greater than 0.
pub(super) const SECONDS: &str = r#"{"type": "number", "exclusiveMinimum": 0, "maximum": 1000000000.0}"#;

/// A time of at least 0.
pub(super) const DELAY: &str = r#"{"type": "number", "minimum": 0, "maximum": 1000000000.0}"#;

/// An amount of money.
pub(super) const AMOUNT: &str = r#"{"type": "number", "minimum": 0, "maximum": 1000000000}"#;

/// A number from 0 to 1.
pub(super) const SHARE: &str = r#"{"type": "number", "minimum": 0, "maximum": 1}"#;

/// A map with any keys.
pub(super) const MAP: &str = r#"{"type": "object"}"#;

/// Any value.
pub(super) const ANY: &str = r#"{}"#;

/// A list of strings that are not blank.
pub(super) const FILLED_LIST: &str = r#"{"type": "array", "items": {"type": "string", "pattern": "\\S"}}"#;

/// A list of strings.
pub(super) const TEXTS: &str = r#"{"type": "array", "items": {"type": "string"}}"#;

/// A JSON Schema.
pub(super) const SCHEMA: &str = r#"{"type": ["object", "boolean"]}"#;

/// The name of an ensemble or an agent.
pub(super) const NAME: &str = r#"{"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$"}"#;

/// The name of an environment variable.
pub(super) const VARIABLE: &str = r#"{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}"#;

/// An expression.
pub(super) const EXPRESSION: &str = r#"{"type": ["string", "number", "boolean"], "pattern": "\\S"}"#;

/// A string with at least one character that is not blank.
pub(super) const FILLED_TEST: &str = r#"{"type": "string", "minLength": 1, "pattern": "\\S"}"#;

/// The permission of a tool of an external agent.
pub(super) const PERMISSION: &str = r#"{"enum": ["allow", "ask", "deny"], "enumDescriptions": ["Without a question.",
    "The operator is asked each time.", "Never."]}"#;

/// Variables of an environment.
pub(super) const ENVIRONMENT: &str = r##"{"oneOf": [
    {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}, {"type": "object", "propertyNames": {"pattern": "^[^=\\u0000]+$"}, "additionalProperties": {"oneOf":
    [{"type": "string"}, {"$ref": "#/$defs/setting"}]}}]}"##;

/// A sandbox, or whether there is one.
pub(super) const SANDBOX: &str = r##"{"oneOf": [{"type": "boolean"}, {"$ref": "#/$defs/sandbox"}]}"##;

/// Model profiles by name.
pub(super) const PROFILES: &str =
    r##"{"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/profile"}}"##;
