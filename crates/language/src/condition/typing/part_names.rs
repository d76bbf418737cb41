//! The variables that the expressions of parts have beside those of conditions.

use crate::condition::expression::tree::ConditionVariable;

/// The variables that an expression has beside those of conditions: for `for_each`, the item and `part`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartVariables<'a> {
    /// The name of the item; `None`: the expression belongs to no part.
    pub item: Option<&'a str>,
    /// Whether there is an `output`.
    pub has_output: bool,
}

impl<'a> PartVariables<'a> {
    /// The variable of a part that holds `index`, `key` and `count`.
    pub const PART: &'static str = "part";

    /// The variables of a condition: an output, and no part.
    pub const NONE: PartVariables<'static> = PartVariables {
        item: None,
        has_output: true,
    };

    /// The variables of an expression of the ensemble or of the list of items: neither an output nor a part.
    pub const NO_OUTPUT: PartVariables<'static> = PartVariables {
        item: None,
        has_output: false,
    };

    /// Returns the variables of the expression for the key of a part.
    pub fn for_key(item: &'a str) -> Self {
        Self {
            item: Some(item),
            has_output: false,
        }
    }

    /// Returns the variables of an expression about the output of a part.
    pub fn for_output(item: &'a str) -> Self {
        Self {
            item: Some(item),
            has_output: true,
        }
    }

    /// Returns the variable with this name, if only parts have the variable.
    pub(crate) fn find_part_variable(self, name: &str) -> Option<ConditionVariable> {
        match self.item? {
            item if item == name => Some(ConditionVariable::Item),
            _ => (name == Self::PART).then_some(ConditionVariable::Part),
        }
    }

    /// Returns the names of the variables that only parts have.
    pub(crate) fn list_names(self) -> impl Iterator<Item = &'a str> {
        let part = self.item.map(|_| Self::PART);
        self.item.into_iter().chain(part)
    }
}
