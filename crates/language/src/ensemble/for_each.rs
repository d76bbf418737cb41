//! `for_each`: one execution of an agent that has a part for each item of a list.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde_json::Value;

/// `for_each`: the agent runs once for each item of a list; all these runs are the parts of one execution.
#[derive(Debug, Clone, PartialEq)]
pub struct ForEachSpec {
    /// The items.
    pub items: ForEachItems,
    /// `as`: the name of the item in templates, expressions and scripts.
    pub item_name: Arc<str>,
    /// The expression that names a part; `None`: its position in the list, from 0.
    pub key: Option<String>,
    /// Maximum number of parts that run in parallel.
    pub max_parallel: NonZeroU32,
    /// Maximum number of items; with more items, the execution fails before its first part.
    pub max_items: u32,
    /// What the failure of a part means.
    pub on_error: PartFailureMode,
    /// With `on_error: collect`: how many parts must succeed.
    pub at_least: RequiredPartCount,
    /// What the outputs of the parts come to, beside their list.
    pub combine: PartCombination,
}

impl ForEachSpec {
    /// The default of `as`.
    pub const ITEM: &str = "item";
    /// The default of `max_parallel`.
    pub const MAX_PARALLEL: NonZeroU32 = NonZeroU32::new(8).expect("is not 0");
    /// The default of `max_items`.
    pub const MAX_ITEMS: u32 = 100;
    /// The keys that the output of every such execution has.
    pub const OUTPUT_KEYS: [&str; 4] = ["items", "keys", "failed", "count"];

    /// Returns the keys that the output of an execution has with this combination.
    pub fn output_keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        let combined: &[&str] = match &self.combine {
            PartCombination::List => &[],
            PartCombination::Best(_) => &["best"],
            PartCombination::First(_) => &["first"],
            PartCombination::Majority { .. } => &["answer", "votes", "agreed"],
        };
        Self::OUTPUT_KEYS.into_iter().chain(combined.iter().copied())
    }
}

/// The items of `for_each`.
#[derive(Debug, Clone, PartialEq)]
pub enum ForEachItems {
    /// `in: expression`: evaluated at the start of the turn; gives a list, or a map whose entries are the items.
    Expression(String),
    /// `in: […]`.
    List(Vec<Value>),
    /// `times: n`: the numbers from 0 to n - 1.
    Times(u32),
}

/// `for_each.on_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartFailureMode {
    /// The first failed part stops the others and fails the execution.
    #[default]
    Fail,
    /// The other parts continue; the execution succeeds if `at_least` parts succeed.
    Collect,
}

/// `for_each.at_least`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredPartCount {
    /// So many parts.
    Parts(u32),
    /// So many of a hundred parts, from 0 to 100.
    Percent(u8),
}

impl Default for RequiredPartCount {
    fn default() -> Self {
        Self::Parts(1)
    }
}

impl RequiredPartCount {
    /// Returns the number of parts of `count` that must succeed; never more than there are.
    pub fn required_part_count(self, count: usize) -> usize {
        match self {
            Self::Parts(parts) => (parts as usize).min(count),
            Self::Percent(percent) => (count * usize::from(percent)).div_ceil(100),
        }
    }
}

/// `for_each.combine`: an expression reads the item under its name, `part`, and the part's `output`.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum PartCombination {
    /// Only the list of the outputs.
    #[default]
    List,
    /// `best`: the output with the highest value of the expression, a number or a text.
    Best(String),
    /// `first`: the first output in the list for which the expression is true.
    First(String),
    /// `answer`, `votes`, `agreed`: the value of the expression that most parts have.
    Majority {
        /// The expression whose values are counted.
        answer: String,
        /// How many parts must have the answer; `None`: more than half of all parts.
        quorum: Option<NonZeroU32>,
    },
}

impl PartCombination {
    /// Returns the key of `combine` with an expression, and the expression.
    pub fn keyed_expression(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::List => None,
            Self::Best(text) => Some(("best", text)),
            Self::First(text) => Some(("first", text)),
            Self::Majority { answer, .. } => Some(("majority", answer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_parts_is_rounded_up() {
        let table = [
            (RequiredPartCount::Parts(1), 12, 1),
            (RequiredPartCount::Parts(20), 12, 12),
            (RequiredPartCount::Percent(80), 12, 10),
            (RequiredPartCount::Percent(100), 12, 12),
            (RequiredPartCount::Percent(0), 12, 0),
            (RequiredPartCount::Percent(1), 12, 1),
            (RequiredPartCount::Parts(1), 0, 0),
        ];
        for (at_least, count, expected) in table {
            assert_eq!(at_least.required_part_count(count), expected, "{at_least:?} of {count}");
        }
    }
}
