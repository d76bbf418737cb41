//! Values that a template assigns to variables: a loop could make them deeper or larger without end.
//!
//! MiniJinja prints, compares and drops values recursively. Values of the run are at most as deep as JSON may be, and
//! the syntax of a template is bounded, so only assigned values could be deeper. A namespace is the only value that
//! could contain itself. So each assigned value passes a filter, which the template itself does not show.
//!
//! **Invariant:** no value of a template contains itself, and none is deeper than the stack on which it is rendered allows.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::render_check;
use super::scan::AssignedValue;
use super::view;
use crate::source::Span;

/// The maximum nesting depth of an assigned value.
const DEPTH_LIMIT: usize = 64;
/// The maximum number of values in an assigned value.
const VALUE_LIMIT: usize = 200_000;
/// The maximum number of bytes of all texts in an assigned value.
const TEXT_LIMIT: usize = super::MAX_BYTES;

/// The filter of `{% set name = … %}`.
pub(super) const VARIABLE_FILTER: &str = "__kept";
/// The filter of `{% set namespace.name = … %}`.
pub(super) const MEMBER_FILTER: &str = "__kept_in_namespace";

/// A template text in which every assigned value passes a filter, with the positions of the inserted filters.
#[derive(Debug, Default)]
pub(super) struct FilteredTemplate {
    pub(super) text: String,
    /// The places in the new text, each with the number of bytes that are new there.
    insertions: Vec<(usize, usize)>,
}

impl FilteredTemplate {
    /// Inserts the filters around the assigned values.
    pub(super) fn new(text: &str, assigned: &[AssignedValue]) -> Self {
        let mut filtered = Self::default();
        let mut at = 0;
        for AssignedValue { value, is_member } in assigned {
            // What begins with a minus ends the tag.
            let end = value.start + text[value.start..value.end].trim_end().len();
            filtered.text.push_str(&text[at..value.start]);
            filtered.insert_text("(");
            filtered.text.push_str(&text[value.start..end]);
            filtered.insert_text(")|");
            filtered.insert_text(if *is_member { MEMBER_FILTER } else { VARIABLE_FILTER });
            filtered.insert_text(" ");
            at = end;
        }
        filtered.text.push_str(&text[at..]);
        filtered
    }

    /// Appends a text that is not in the original, and records its position.
    fn insert_text(&mut self, new: &str) {
        self.insertions.push((self.text.len(), new.len()));
        self.text.push_str(new);
    }

    /// Converts a span of the filtered text to the span in the original text.
    pub(super) fn original_span(&self, span: Span) -> Span {
        let before = |at: usize| {
            let new = self.insertions.iter().take_while(|(place, _)| *place < at);
            at - new.map(|(place, length)| (*length).min(at - place)).sum::<usize>()
        };
        Span::new(before(span.start), before(span.end))
    }
}

/// Checks the value of a variable, and returns the value unchanged.
pub(super) fn check_variable_value(_: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    check_assigned_value(&value, false)?;
    Ok(value)
}

/// Checks the value of a member of a namespace, and returns the value unchanged.
pub(super) fn check_member_value(_: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    check_assigned_value(&value, true)?;
    Ok(value)
}

/// Checks the depth and size of a value without recursion. A member of a namespace must not contain a namespace.
fn check_assigned_value(value: &Value, is_member: bool) -> Result<(), Error> {
    render_check::fail_if_render_stopped()?;
    let mut open = vec![(value.clone(), 0)];
    let (mut values, mut bytes) = (0, 0);
    while let Some((value, depth)) = open.pop() {
        values += 1;
        bytes += value.as_str().map_or(0, str::len);
        if values > VALUE_LIMIT || bytes > TEXT_LIMIT {
            return Err(invalid_operation_error("the value of a variable is too large"));
        }
        if depth > DEPTH_LIMIT {
            return Err(invalid_operation_error("the value of a variable is nested too deeply"));
        }
        if is_namespace(&value) {
            match is_member {
                true => return Err(invalid_operation_error("a namespace cannot be in a namespace")),
                // It contains no other one, and its members were checked.
                false => continue,
            }
        }
        if !view::is_run_value(&value) {
            push_child_values(&value, depth + 1, &mut open);
        }
    }
    Ok(())
}

/// Pushes the items, or the keys and values, of a collection with this depth.
fn push_child_values(value: &Value, depth: usize, open: &mut Vec<(Value, usize)>) {
    let is_map = match value.kind() {
        ValueKind::Map => true,
        ValueKind::Seq | ValueKind::Iterable => false,
        _ => return,
    };
    for part in value.try_iter().into_iter().flatten().take(VALUE_LIMIT + 1) {
        if is_map {
            open.push((value.get_item(&part).unwrap_or_default(), depth));
        }
        open.push((part, depth));
    }
}

/// Returns whether the value is a namespace of MiniJinja.
fn is_namespace(value: &Value) -> bool {
    let object = value.as_object();
    object.is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

/// Creates an error of the engine with this reason.
fn invalid_operation_error(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_behind_a_filter_is_that_of_the_original() {
        let text = "{% set a = 1 %}{% set n.b = x %}{{ y }}";
        let at = |part: &str| {
            let start = text.find(part).expect("is there");
            Span::new(start, start + part.len())
        };
        let assigned = [("1", false), ("x", true)].map(|(part, is_member)| AssignedValue {
            value: Span::new(at(part).start - 1, at(part).end + 1),
            is_member,
        });
        let filtered = FilteredTemplate::new(text, &assigned);
        assert_eq!(
            filtered.text,
            "{% set a =( 1)|__kept  %}{% set n.b =( x)|__kept_in_namespace  %}{{ y }}"
        );
        for part in ["x", "y", "set a", "1"] {
            let start = filtered.text.find(part).expect("is there");
            assert_eq!(
                filtered.original_span(Span::new(start, start + part.len())),
                at(part),
                "{part}"
            );
        }
    }
}
