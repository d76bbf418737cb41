//! Hand-written combinators that read typed values from the tree and report all problems.
//!
//! A [`NodeCursor`] has a node and the path to it; the path is converted to a [`Route`] only for a finding. Every reader
//! returns `None` after it has reported a finding. So a caller reads all fields first and then creates the value.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::codes;
use super::document::{ScalarValue, YamlContent, YamlNode};
use super::findings::LimitedFindingList;
use super::key_messages::{format_choices, quote_excerpt};
use super::type_fixes;
use crate::diagnostic::{Finding, FindingCode, SimilarWord, find_nearest_word};
use crate::names;
use crate::source::{Route, RouteLocation, RouteStep};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The longest time that can be set: about thirty years, which every clock can add to the current time.
const MAX_SECONDS: f64 = 1e9;

/// A node of the tree with its path from the root.
#[derive(Clone, Copy)]
pub(super) struct NodeCursor<'a> {
    pub(super) node: &'a YamlNode,
    parent: Option<(&'a NodeCursor<'a>, CursorStep<'a>)>,
}

/// A step from a node to its child: a key or an index.
#[derive(Clone, Copy)]
pub(super) enum CursorStep<'a> {
    Key(&'a Arc<str>),
    Index(usize),
}

impl<'a> NodeCursor<'a> {
    /// Creates the cursor of the root node.
    pub(super) fn from_root(node: &'a YamlNode) -> Self {
        Self { node, parent: None }
    }

    /// Returns the cursor of a child of this node.
    pub(super) fn child_at(&'a self, node: &'a YamlNode, step: CursorStep<'a>) -> Self {
        Self {
            node,
            parent: Some((self, step)),
        }
    }

    /// Returns the cursor of a value under a key of this map.
    pub(super) fn child_under_key(&'a self, node: &'a YamlNode, key: &'a Arc<str>) -> Self {
        self.child_at(node, CursorStep::Key(key))
    }

    /// Returns the route from the root of the document.
    pub(super) fn route(&self) -> Route {
        let mut steps = Vec::new();
        let mut cursor = self;
        while let Some((up, step)) = cursor.parent {
            steps.push(match step {
                CursorStep::Key(key) => RouteStep::Key(key.clone()),
                CursorStep::Index(index) => RouteStep::Index(index),
            });
            cursor = up;
        }
        steps.reverse();
        Route(steps)
    }

    /// Returns the location of this value.
    pub(super) fn value_location(&self) -> RouteLocation {
        self.route().into_value_location()
    }

    /// Returns the location of the key of this value.
    pub(super) fn key_location(&self) -> RouteLocation {
        self.route().into_key_location()
    }

    /// Returns the items of a list. Reports other values; `what` is the expected type in the message.
    pub(super) fn require_items(
        &'a self,
        what: &str,
        findings: &mut LimitedFindingList,
    ) -> Option<Vec<NodeCursor<'a>>> {
        let YamlContent::Sequence(items) = &self.node.content else {
            report_wrong_type(self, what, findings);
            return None;
        };
        let cursors = items.iter().enumerate();
        Some(
            cursors
                .map(|(at, node)| self.child_at(node, CursorStep::Index(at)))
                .collect(),
        )
    }

    /// Returns the entries of a map with any keys. Reports other values; `what` is the expected type in the message.
    pub(super) fn require_entries(
        &'a self,
        what: &str,
        findings: &mut LimitedFindingList,
    ) -> Option<Vec<(&'a Arc<str>, NodeCursor<'a>)>> {
        let YamlContent::Mapping(entries) = &self.node.content else {
            report_wrong_type(self, what, findings);
            return None;
        };
        let cursors = entries.iter();
        Some(
            cursors
                .map(|entry| (&entry.key, self.child_at(&entry.value, CursorStep::Key(&entry.key))))
                .collect(),
        )
    }
}

/// Reports that another type of value was expected, with a fix if the meaning is clear.
pub(super) fn report_wrong_type(at: &NodeCursor<'_>, expected: &str, findings: &mut LimitedFindingList) {
    let message = format!("expected {expected}, found {}", describe_node(at.node));
    let mut finding = Finding::new_error(codes::WRONG_TYPE, at.value_location(), message);
    finding.fix = type_fixes::find_type_fix(at.node, &at.route(), expected);
    findings.push(match &at.node.content {
        YamlContent::Scalar(scalar) if scalar.value == ScalarValue::Null => {
            finding.with_help("write a value, or remove the key")
        }
        YamlContent::Scalar(scalar) if scalar.value != ScalarValue::Text && expected.contains("string") => {
            finding.with_help(format!("quote the value: '{}'", scalar.text))
        }
        YamlContent::Mapping(_) if expected.contains("string") && at.node.span.end - at.node.span.start < 80 => {
            finding.with_help("quote a template such as `{{ name }}`, or a string that contains `: `")
        }
        _ => finding,
    });
}

/// Returns a description of a node for messages.
pub(super) fn describe_node(node: &YamlNode) -> String {
    match &node.content {
        YamlContent::Sequence(_) => "a list".to_owned(),
        YamlContent::Mapping(_) => "a map".to_owned(),
        YamlContent::Scalar(scalar) => match scalar.value {
            ScalarValue::Null => "nothing".to_owned(),
            ScalarValue::Bool(value) => format!("the Boolean {value}"),
            ScalarValue::Int(_) | ScalarValue::Unsigned(_) => format!("the integer {}", scalar.text),
            ScalarValue::Float(_) => format!("the number {}", scalar.text),
            ScalarValue::Text => format!("the string {}", quote_excerpt(&scalar.text)),
        },
    }
}

/// Decodes a string.
pub(super) fn decode_text(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<String> {
    decode_shared_text(at, findings).map(|text| text.to_string())
}

/// Decodes a string that is shared with the tree.
pub(super) fn decode_shared_text(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Arc<str>> {
    let text = at.node.string_text();
    if text.is_none() {
        report_wrong_type(at, "a string", findings);
    }
    text.cloned()
}

/// Decodes a string that is not blank.
pub(super) fn decode_nonblank_text(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Arc<str>> {
    let text = decode_shared_text(at, findings)?;
    if !text.trim().is_empty() {
        return Some(text);
    }
    report_empty(at, "this string is empty", findings);
    None
}

/// Reports an empty value.
pub(super) fn report_empty(at: &NodeCursor<'_>, message: &str, findings: &mut LimitedFindingList) {
    findings.push(Finding::new_error(codes::EMPTY, at.value_location(), message));
}

/// Decodes the name of an ensemble or an agent, or a `state_key`.
pub(super) fn decode_name(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Arc<str>> {
    let name = decode_shared_text(at, findings)?;
    if names::is_name(&name) {
        return Some(name);
    }
    let message = format!("{} is not a valid name", quote_excerpt(&name));
    let finding = Finding::new_error(codes::BAD_NAME, at.value_location(), message).with_help(names::NAME_RULE);
    findings.push(match names::correct_blanks_in_name(&name) {
        Some(near_name) => {
            let change = RouteEdit::WriteText(at.value_location(), near_name.clone());
            finding.with_fix(RouteFix::new_unsafe(format!("write `{near_name}`"), change))
        }
        None => finding,
    });
    None
}

/// Decodes `true` or `false`.
pub(super) fn decode_bool(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<bool> {
    match &at.node.content {
        YamlContent::Scalar(scalar) => match scalar.value {
            ScalarValue::Bool(value) => return Some(value),
            _ => report_wrong_type(at, "true or false", findings),
        },
        _ => report_wrong_type(at, "true or false", findings),
    }
    None
}

/// Decodes an integer of at least 1 that fits into 32 bits.
pub(super) fn decode_count(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<NonZeroU32> {
    let value = decode_positive_integer(at, findings)?;
    let count = u32::try_from(value).ok().and_then(NonZeroU32::new);
    if count.is_none() {
        report_out_of_range(at, &format!("an integer of at most {}", u32::MAX), findings);
    }
    count
}

/// Decodes an integer of at least 0 that fits into 32 bits.
pub(super) fn decode_count_or_zero(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<u32> {
    match &at.node.content {
        YamlContent::Scalar(scalar) if scalar.value == ScalarValue::Int(0) => Some(0),
        _ => decode_count(at, findings).map(NonZeroU32::get),
    }
}

/// Decodes an integer of at least 1 that fits into 64 bits.
pub(super) fn decode_positive_integer(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<u64> {
    const EXPECTED: &str = "an integer of at least 1";
    let YamlContent::Scalar(scalar) = &at.node.content else {
        report_wrong_type(at, EXPECTED, findings);
        return None;
    };
    match scalar.value {
        ScalarValue::Int(value) if value >= 1 => return Some(value.unsigned_abs()),
        ScalarValue::Unsigned(value) => return Some(value),
        ScalarValue::Int(_) => report_out_of_range(at, EXPECTED, findings),
        _ => report_wrong_type(at, EXPECTED, findings),
    }
    None
}

/// Reports a number that is too small or too large; `expected` describes the range.
pub(super) fn report_out_of_range(at: &NodeCursor<'_>, expected: &str, findings: &mut LimitedFindingList) {
    let message = format!("expected {expected}, found {}", describe_node(at.node));
    findings.push(Finding::new_error(codes::OUT_OF_RANGE, at.value_location(), message));
}

/// Decodes a number from `low` to `high`, both included.
pub(super) fn decode_number_within(
    at: &NodeCursor<'_>,
    low: f64,
    high: f64,
    findings: &mut LimitedFindingList,
) -> Option<f64> {
    let value = decode_number(at, "a number", findings)?;
    if (low..=high).contains(&value) {
        return Some(value);
    }
    report_out_of_range(at, &format!("a number from {low} to {high}"), findings);
    None
}

/// Decodes an amount of money: a number of at least 0.
pub(super) fn decode_money_amount(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<f64> {
    decode_number_within(at, 0.0, 1e9, findings)
}

/// Decodes an integer or a float as a float.
fn decode_number(at: &NodeCursor<'_>, expected: &str, findings: &mut LimitedFindingList) -> Option<f64> {
    if let YamlContent::Scalar(scalar) = &at.node.content {
        match scalar.value {
            ScalarValue::Int(value) => return Some(value as f64),
            ScalarValue::Unsigned(value) => return Some(value as f64),
            ScalarValue::Float(value) => return Some(value),
            _ => {}
        }
    }
    report_wrong_type(at, expected, findings);
    None
}

/// Decodes a number of seconds greater than 0.
pub(super) fn decode_seconds(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Duration> {
    let value = decode_number(at, "a number of seconds greater than 0", findings)?;
    if value > 0.0 {
        return duration_from_seconds(at, value, findings);
    }
    report_out_of_range(at, "a number of seconds greater than 0", findings);
    None
}

/// Decodes a number of seconds of at least 0.
pub(super) fn decode_delay(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Duration> {
    let value = decode_number(at, "a number of seconds", findings)?;
    if value >= 0.0 {
        return duration_from_seconds(at, value, findings);
    }
    report_out_of_range(at, "a number of seconds of at least 0", findings);
    None
}

/// Converts seconds to a duration of at least one nanosecond, unless it is 0. Reports a duration that is too long.
fn duration_from_seconds(at: &NodeCursor<'_>, seconds: f64, findings: &mut LimitedFindingList) -> Option<Duration> {
    let duration = (seconds <= MAX_SECONDS)
        .then(|| Duration::try_from_secs_f64(seconds).ok())
        .flatten();
    // Less than a nanosecond is treated as 0.
    let duration = duration.map(|time| {
        if seconds > 0.0 {
            time.max(Duration::from_nanos(1))
        } else {
            time
        }
    });
    if duration.is_none() {
        report_out_of_range(at, &format!("at most {MAX_SECONDS} seconds"), findings);
    }
    duration
}

/// Decodes one of several words to its value. Reports other values with a similar word.
pub(super) fn decode_word_value<T: Copy>(
    at: &NodeCursor<'_>,
    words: &[(&str, T)],
    findings: &mut LimitedFindingList,
) -> Option<T> {
    let names = || words.iter().map(|(word, _)| *word);
    let Some(text) = at.node.string_text() else {
        report_wrong_type(at, &format_choices(names()), findings);
        return None;
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| **text == **word) {
        return Some(*value);
    }
    let message = format!("expected {}, found {}", format_choices(names()), describe_node(at.node));
    let finding = Finding::new_error(codes::NOT_A_CHOICE, at.value_location(), message);
    findings.push(with_suggestion(finding, find_nearest_word(text, names())));
    None
}

/// Adds the help `did you mean …?` if there is a probable correction.
pub(super) fn with_suggestion(finding: Finding, guess: Option<SimilarWord<'_>>) -> Finding {
    match guess {
        Some(guess) => finding.with_near_word_fix(&guess),
        None => finding,
    }
}

/// Reports that the value at `second` repeats the value at `first`.
pub(super) fn report_repetition(
    code: FindingCode,
    second: RouteLocation,
    message: String,
    first: RouteLocation,
    findings: &mut LimitedFindingList,
) {
    findings.push(Finding::new_error(code, second, message).with_related(first, "first here"));
}

/// Decodes a list. Returns `None` if one of its items is wrong. `what`: the expected type in the message.
pub(super) fn decode_list<T>(
    at: &NodeCursor<'_>,
    what: &str,
    findings: &mut LimitedFindingList,
    mut reader: impl FnMut(&NodeCursor<'_>, &mut LimitedFindingList) -> Option<T>,
) -> Option<Vec<T>> {
    let items = at.require_items(what, findings)?;
    let read: Vec<Option<T>> = items.iter().map(|item| reader(item, findings)).collect();
    read.into_iter().collect()
}

/// Decodes a list with at least one item. `rule`: the message about an empty list.
pub(super) fn decode_nonempty_list<T>(
    at: &NodeCursor<'_>,
    what: &str,
    rule: &str,
    findings: &mut LimitedFindingList,
    reader: impl FnMut(&NodeCursor<'_>, &mut LimitedFindingList) -> Option<T>,
) -> Option<Vec<T>> {
    let read = decode_list(at, what, findings, reader)?;
    if read.is_empty() {
        report_empty(at, rule, findings);
        return None;
    }
    Some(read)
}

/// Decodes a map with any keys. Returns `None` if one of its values is wrong. `what`: the expected type in the message.
pub(super) fn decode_map<T>(
    at: &NodeCursor<'_>,
    what: &str,
    findings: &mut LimitedFindingList,
    mut reader: impl FnMut(&Arc<str>, &NodeCursor<'_>, &mut LimitedFindingList) -> Option<T>,
) -> Option<Vec<(Arc<str>, T)>> {
    let entries = at.require_entries(what, findings)?;
    let read: Vec<_> = entries
        .iter()
        .map(|(key, entry)| Some(((*key).clone(), reader(key, entry, findings)?)))
        .collect();
    read.into_iter().collect()
}

/// Decodes a list of strings that are not blank.
pub(super) fn decode_nonblank_texts(
    at: &NodeCursor<'_>,
    what: &str,
    findings: &mut LimitedFindingList,
) -> Option<Vec<String>> {
    decode_list(at, what, findings, |item, findings| {
        Some(decode_nonblank_text(item, findings)?.to_string())
    })
}
