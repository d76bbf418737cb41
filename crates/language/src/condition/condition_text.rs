//! The condition of a dependency, as the file has it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{CompileError, Condition, ParsedCondition, ValueExpression};

/// The text of a condition with its parsed form. Two conditions are equal if their texts are equal.
#[derive(Clone)]
pub struct ConditionText {
    text: Arc<str>,
    reading: Option<Arc<ParsedCondition>>,
}

impl ConditionText {
    /// Parses the text.
    ///
    /// # Errors
    /// The text is not a condition.
    pub fn parse(text: &str) -> Result<Self, CompileError> {
        let reading = Condition::parse(text)?;
        Ok(Self {
            text: reading.text.clone(),
            reading: Some(Arc::new(reading)),
        })
    }

    /// Parses the text of an expression that belongs to no dependency, so that `output` is unknown.
    ///
    /// # Errors
    /// The text is not such an expression.
    pub fn parse_without_output(text: &str) -> Result<Self, CompileError> {
        let reading = ValueExpression::parse(text)?;
        Ok(Self {
            text: reading.text.clone(),
            reading: Some(Arc::new(reading)),
        })
    }

    /// Returns the text as the user wrote it.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the parsed text. Returns `None` if the text is not a condition.
    pub fn parsed_condition(&self) -> Option<&Arc<ParsedCondition>> {
        self.reading.as_ref()
    }
}

/// Keeps a text that is not a condition; compiling it reports the error.
impl From<&str> for ConditionText {
    fn from(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|_| Self {
            text: text.into(),
            reading: None,
        })
    }
}

impl From<String> for ConditionText {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Deref for ConditionText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for ConditionText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for ConditionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Display for ConditionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
