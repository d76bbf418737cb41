//! Hand-written combinators that read typed values from the tree and report all problems.
//!
//! A [`Cursor`] has a node and the path to it; the path is converted to a [`Route`] only for a finding. Every reader
//! returns `None` after it has reported a finding. So a caller reads all fields first and then creates the value.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::codes;
use super::document::{Content, Node, ScalarValue};
use super::findings::Findings;
use super::retyped;
use super::words::{one_of, quoted};
use crate::diagnostic::{Code, Finding, Near, nearest};
use crate::names;
use crate::source::{At, Route, Step};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The longest time that can be set: about thirty years, which every clock can add to the current time.
const MAX_SECONDS: f64 = 1e9;

/// A node and the path to it.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) node: &'a Node,
    up: Option<(&'a Cursor<'a>, StepRef<'a>)>,
}

#[derive(Clone, Copy)]
pub(super) enum StepRef<'a> {
    Key(&'a Arc<str>),
    Index(usize),
}

impl<'a> Cursor<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Self { node, up: None }
    }

    pub(super) fn child(&'a self, node: &'a Node, step: StepRef<'a>) -> Self {
        Self {
            node,
            up: Some((self, step)),
        }
    }

    /// The value under a key of this map.
    pub(super) fn below(&'a self, node: &'a Node, key: &'a Arc<str>) -> Self {
        self.child(node, StepRef::Key(key))
    }

    /// The path from the root of the document.
    pub(super) fn route(&self) -> Route {
        let mut steps = Vec::new();
        let mut cursor = self;
        while let Some((up, step)) = cursor.up {
            steps.push(match step {
                StepRef::Key(key) => Step::Key(key.clone()),
                StepRef::Index(index) => Step::Index(index),
            });
            cursor = up;
        }
        steps.reverse();
        Route(steps)
    }

    /// The value at this place.
    pub(super) fn value(&self) -> At {
        self.route().value()
    }

    /// The key of this value.
    pub(super) fn key(&self) -> At {
        self.route().as_key()
    }

    /// The items of a list; other values are reported.
    pub(super) fn items(&'a self, what: &str, findings: &mut Findings) -> Option<Vec<Cursor<'a>>> {
        let Content::Sequence(items) = &self.node.content else {
            wrong_type(self, what, findings);
            return None;
        };
        let cursors = items.iter().enumerate();
        Some(cursors.map(|(at, node)| self.child(node, StepRef::Index(at))).collect())
    }

    /// The entries of a map with any keys; other values are reported.
    pub(super) fn entries(&'a self, what: &str, findings: &mut Findings) -> Option<Vec<(&'a Arc<str>, Cursor<'a>)>> {
        let Content::Mapping(entries) = &self.node.content else {
            wrong_type(self, what, findings);
            return None;
        };
        let cursors = entries.iter();
        Some(
            cursors
                .map(|entry| (&entry.key, self.child(&entry.value, StepRef::Key(&entry.key))))
                .collect(),
        )
    }
}

/// Reports that another kind of value was expected.
pub(super) fn wrong_type(at: &Cursor<'_>, expected: &str, findings: &mut Findings) {
    let message = format!("expected {expected}, found {}", found(at.node));
    let mut finding = Finding::error(codes::WRONG_TYPE, at.value(), message);
    finding.fix = retyped::find_fix(at.node, &at.route(), expected);
    findings.push(match &at.node.content {
        Content::Scalar(scalar) if scalar.value == ScalarValue::Null => {
            finding.help("write a value, or remove the key")
        }
        Content::Scalar(scalar) if scalar.value != ScalarValue::Text && expected.contains("string") => {
            finding.help(format!("quote the value: '{}'", scalar.text))
        }
        Content::Mapping(_) if expected.contains("string") && at.node.span.end - at.node.span.start < 80 => {
            finding.help("quote a template such as `{{ name }}`, or a string that contains `: `")
        }
        _ => finding,
    });
}

/// A description of a node for messages.
pub(super) fn found(node: &Node) -> String {
    match &node.content {
        Content::Sequence(_) => "a list".to_owned(),
        Content::Mapping(_) => "a map".to_owned(),
        Content::Scalar(scalar) => match scalar.value {
            ScalarValue::Null => "nothing".to_owned(),
            ScalarValue::Bool(value) => format!("the Boolean {value}"),
            ScalarValue::Int(_) | ScalarValue::Unsigned(_) => format!("the integer {}", scalar.text),
            ScalarValue::Float(_) => format!("the number {}", scalar.text),
            ScalarValue::Text => format!("the string {}", quoted(&scalar.text)),
        },
    }
}

/// A string.
pub(super) fn text(at: &Cursor<'_>, findings: &mut Findings) -> Option<String> {
    shared_text(at, findings).map(|text| text.to_string())
}

/// A string that is shared with the tree.
pub(super) fn shared_text(at: &Cursor<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let text = at.node.text();
    if text.is_none() {
        wrong_type(at, "a string", findings);
    }
    text.cloned()
}

/// A string that is not empty.
pub(super) fn filled_text(at: &Cursor<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let text = shared_text(at, findings)?;
    if !text.trim().is_empty() {
        return Some(text);
    }
    empty(at, "this string is empty", findings);
    None
}

/// Reports an empty value.
pub(super) fn empty(at: &Cursor<'_>, message: &str, findings: &mut Findings) {
    findings.push(Finding::error(codes::EMPTY, at.value(), message));
}

/// The name of an ensemble or an agent, or a `state_key`.
pub(super) fn name(at: &Cursor<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let name = shared_text(at, findings)?;
    if names::is_name(&name) {
        return Some(name);
    }
    let message = format!("{} is not a valid name", quoted(&name));
    let finding = Finding::error(codes::BAD_NAME, at.value(), message).help(names::NAME_RULE);
    findings.push(match names::find_near_name(&name) {
        Some(near) => {
            let change = RouteEdit::WriteText(at.value(), near.clone());
            finding.with_fix(RouteFix::not_safe(format!("write `{near}`"), change))
        }
        None => finding,
    });
    None
}

/// `true` or `false`.
pub(super) fn flag(at: &Cursor<'_>, findings: &mut Findings) -> Option<bool> {
    match &at.node.content {
        Content::Scalar(scalar) => match scalar.value {
            ScalarValue::Bool(value) => return Some(value),
            _ => wrong_type(at, "true or false", findings),
        },
        _ => wrong_type(at, "true or false", findings),
    }
    None
}

/// An integer of at least 1.
pub(super) fn count(at: &Cursor<'_>, findings: &mut Findings) -> Option<NonZeroU32> {
    let value = whole(at, findings)?;
    let count = u32::try_from(value).ok().and_then(NonZeroU32::new);
    if count.is_none() {
        out_of_range(at, &format!("an integer of at most {}", u32::MAX), findings);
    }
    count
}

/// An integer of at least 0.
pub(super) fn count_or_none(at: &Cursor<'_>, findings: &mut Findings) -> Option<u32> {
    match &at.node.content {
        Content::Scalar(scalar) if scalar.value == ScalarValue::Int(0) => Some(0),
        _ => count(at, findings).map(NonZeroU32::get),
    }
}

/// An integer of at least 1, of any size.
pub(super) fn whole(at: &Cursor<'_>, findings: &mut Findings) -> Option<u64> {
    const EXPECTED: &str = "an integer of at least 1";
    let Content::Scalar(scalar) = &at.node.content else {
        wrong_type(at, EXPECTED, findings);
        return None;
    };
    match scalar.value {
        ScalarValue::Int(value) if value >= 1 => return Some(value.unsigned_abs()),
        ScalarValue::Unsigned(value) => return Some(value),
        ScalarValue::Int(_) => out_of_range(at, EXPECTED, findings),
        _ => wrong_type(at, EXPECTED, findings),
    }
    None
}

/// Reports a number that is too small or too large.
pub(super) fn out_of_range(at: &Cursor<'_>, expected: &str, findings: &mut Findings) {
    let message = format!("expected {expected}, found {}", found(at.node));
    findings.push(Finding::error(codes::OUT_OF_RANGE, at.value(), message));
}

/// A number within limits, including the limits.
pub(super) fn number_within(at: &Cursor<'_>, low: f64, high: f64, findings: &mut Findings) -> Option<f64> {
    let value = number(at, "a number", findings)?;
    if (low..=high).contains(&value) {
        return Some(value);
    }
    out_of_range(at, &format!("a number from {low} to {high}"), findings);
    None
}

/// An amount of money: a number of at least 0.
pub(super) fn amount(at: &Cursor<'_>, findings: &mut Findings) -> Option<f64> {
    number_within(at, 0.0, 1e9, findings)
}

fn number(at: &Cursor<'_>, expected: &str, findings: &mut Findings) -> Option<f64> {
    if let Content::Scalar(scalar) = &at.node.content {
        match scalar.value {
            ScalarValue::Int(value) => return Some(value as f64),
            ScalarValue::Unsigned(value) => return Some(value as f64),
            ScalarValue::Float(value) => return Some(value),
            _ => {}
        }
    }
    wrong_type(at, expected, findings);
    None
}

/// A duration greater than 0.
pub(super) fn seconds(at: &Cursor<'_>, findings: &mut Findings) -> Option<Duration> {
    let value = number(at, "a number of seconds greater than 0", findings)?;
    if value > 0.0 {
        return duration(at, value, findings);
    }
    out_of_range(at, "a number of seconds greater than 0", findings);
    None
}

/// A duration, which may be 0.
pub(super) fn delay(at: &Cursor<'_>, findings: &mut Findings) -> Option<Duration> {
    let value = number(at, "a number of seconds", findings)?;
    if value >= 0.0 {
        return duration(at, value, findings);
    }
    out_of_range(at, "a number of seconds of at least 0", findings);
    None
}

fn duration(at: &Cursor<'_>, seconds: f64, findings: &mut Findings) -> Option<Duration> {
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
        out_of_range(at, &format!("at most {MAX_SECONDS} seconds"), findings);
    }
    duration
}

/// Decodes one of several words.
pub(super) fn word<T: Copy>(at: &Cursor<'_>, words: &[(&str, T)], findings: &mut Findings) -> Option<T> {
    let names = || words.iter().map(|(word, _)| *word);
    let Some(text) = at.node.text() else {
        wrong_type(at, &one_of(names()), findings);
        return None;
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| **text == **word) {
        return Some(*value);
    }
    let message = format!("expected {}, found {}", one_of(names()), found(at.node));
    let finding = Finding::error(codes::NOT_A_CHOICE, at.value(), message);
    findings.push(with_guess(finding, nearest(text, names())));
    None
}

/// Adds "did you mean" if there is a probable correction.
pub(super) fn with_guess(finding: Finding, guess: Option<Near<'_>>) -> Finding {
    match guess {
        Some(guess) => finding.meant(&guess),
        None => finding,
    }
}

/// Reports that `second` repeats `first`.
pub(super) fn twice(code: Code, second: At, message: String, first: At, findings: &mut Findings) {
    findings.push(Finding::error(code, second, message).also(first, "first here"));
}

/// Reads a list. Returns `None` if one of its items is wrong.
pub(super) fn list_of<T>(
    at: &Cursor<'_>,
    what: &str,
    findings: &mut Findings,
    mut reader: impl FnMut(&Cursor<'_>, &mut Findings) -> Option<T>,
) -> Option<Vec<T>> {
    let items = at.items(what, findings)?;
    let read: Vec<Option<T>> = items.iter().map(|item| reader(item, findings)).collect();
    read.into_iter().collect()
}

/// Reads a list with at least one item; `rule` is the message about an empty one.
pub(super) fn filled_list_of<T>(
    at: &Cursor<'_>,
    what: &str,
    rule: &str,
    findings: &mut Findings,
    reader: impl FnMut(&Cursor<'_>, &mut Findings) -> Option<T>,
) -> Option<Vec<T>> {
    let read = list_of(at, what, findings, reader)?;
    if read.is_empty() {
        empty(at, rule, findings);
        return None;
    }
    Some(read)
}

/// Reads a map with any keys. Returns `None` if one of its values is wrong.
pub(super) fn map_of<T>(
    at: &Cursor<'_>,
    what: &str,
    findings: &mut Findings,
    mut reader: impl FnMut(&Arc<str>, &Cursor<'_>, &mut Findings) -> Option<T>,
) -> Option<Vec<(Arc<str>, T)>> {
    let entries = at.entries(what, findings)?;
    let read: Vec<_> = entries
        .iter()
        .map(|(key, entry)| Some(((*key).clone(), reader(key, entry, findings)?)))
        .collect();
    read.into_iter().collect()
}

/// Reads a list of strings that are not blank.
pub(super) fn filled_texts(at: &Cursor<'_>, what: &str, findings: &mut Findings) -> Option<Vec<String>> {
    list_of(at, what, findings, |item, findings| {
        Some(filled_text(item, findings)?.to_string())
    })
}
