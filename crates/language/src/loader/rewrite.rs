//! Another value in the place of one that is written in a text, with as few edits as possible, so that comments and
//! formatting stay.
//!
//! Only what differs is edited. Where a list or a map has to be written anew, it must contain no comment, anchor, alias
//! or tag; otherwise there is no edit.

use serde_json::{Number, Value};

use super::align::Style;
use super::document::{Content, Document, Node, Scalar, ScalarValue};
use super::{edits, scalar};
use crate::fix::{Change, Fix, Mend};
use crate::source::{At, Route, Source, Span};

/// The edits that make the value at the route this one; `None` if they cannot be made with certainty.
pub(crate) fn rewrite(source: &Source, document: &Document, route: &Route, value: &Value) -> Option<Fix> {
    let node = document.get(route)?;
    if !edits::is_written_at(document, route) {
        return None;
    }
    let text = source.text();
    let mut changes = Some(Vec::new());
    change(text, node, route, value, &mut changes);
    let mended = |changes| edits::fix(source, Some(document), &mend(changes));
    changes.and_then(mended).or_else(|| {
        let whole = anew(text, node, value)?;
        mended(vec![whole])
    })
}

fn mend(changes: Vec<Change>) -> Mend {
    Mend {
        changes,
        ..Mend::certain("write what happened", Change::RemoveLines(Span::default()))
    }
}

/// The value as JSON.
pub(crate) fn json(node: &Node) -> Option<Value> {
    Some(match &node.content {
        Content::Scalar(scalar) => scalar_json(scalar)?,
        Content::Sequence(items) => items.iter().map(|item| json(item)).collect::<Option<Vec<_>>>()?.into(),
        Content::Mapping(entries) => {
            let entries = entries
                .iter()
                .map(|entry| Some((entry.key.to_string(), json(&entry.value)?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
    })
}

fn scalar_json(scalar: &Scalar) -> Option<Value> {
    Some(match scalar.value {
        ScalarValue::Null => Value::Null,
        ScalarValue::Bool(value) => value.into(),
        ScalarValue::Int(value) => value.into(),
        ScalarValue::Unsigned(value) => value.into(),
        ScalarValue::Float(value) => Value::Number(Number::from_f64(value)?),
        ScalarValue::Text => (*scalar.text).into(),
    })
}

/// Adds the changes that make the node this value; afterwards `None` if there are none for a part of it.
fn change(text: &str, node: &Node, route: &Route, value: &Value, changes: &mut Option<Vec<Change>>) {
    if json(node).as_ref() == Some(value) {
        return;
    }
    match (&node.content, value) {
        (Content::Mapping(entries), Value::Object(new))
            if new.keys().all(|key| entries.iter().any(|entry| *entry.key == **key)) =>
        {
            for entry in entries {
                let route = route.key(entry.key.clone());
                match new.get(&*entry.key) {
                    Some(value) => change(text, &entry.value, &route, value, changes),
                    None => add(changes, Some(Change::Remove(route))),
                }
            }
        }
        (Content::Sequence(items), Value::Array(new)) if new.len() == items.len() || is_block_list(text, node, new) => {
            for (at, item) in items.iter().enumerate() {
                let route = route.index(at);
                match new.get(at) {
                    Some(value) => change(text, item, &route, value, changes),
                    None => add(changes, Some(Change::Remove(route))),
                }
            }
            let more: Vec<String> = new.iter().skip(items.len()).map(flow).collect();
            if !more.is_empty() {
                add(changes, Some(Change::Append(route.clone(), more)));
            }
        }
        (Content::Scalar(scalar), Value::String(new))
            if scalar.value == ScalarValue::Text && block_header(text, node).is_none() =>
        {
            let is_short = !new.contains(['\n', '\r', '\t']);
            let quoted = || anew(text, node, value);
            let spelt = || Change::Text(route.clone().value(), new.clone());
            add(changes, if is_short { Some(spelt()) } else { quoted() });
        }
        _ => add(changes, anew(text, node, value)),
    }
}

fn add(changes: &mut Option<Vec<Change>>, one: Option<Change>) {
    match (changes.as_mut(), one) {
        (Some(list), Some(one)) => list.push(one),
        _ => *changes = None,
    }
}

/// Whether this is a list with an item on each line, which keeps at least one item.
fn is_block_list(text: &str, node: &Node, new: &[Value]) -> bool {
    !edits::is_flow(text, node) && !new.is_empty()
}

/// The value in the place of the whole node, if nothing is lost by that.
fn anew(text: &str, node: &Node, value: &Value) -> Option<Change> {
    let end = end_of(text, node);
    let start = block_header(text, node).unwrap_or(node.span.start);
    if start < node.span.start && text[start..node.span.start].contains('#') {
        return None;
    }
    let span = Span::new(start, end.max(start));
    let is_list = !matches!(node.content, Content::Scalar(_));
    if span.start == span.end || is_list && edits::has_mark(text.get(span.start..span.end)?) {
        return None;
    }
    Some(Change::Yaml(At::source(span), flow(value)))
}

/// Where the `|` or `>` of a string stands that is written on lines of its own, which are the bytes of the node.
pub(crate) fn block_header(text: &str, node: &Node) -> Option<usize> {
    let Content::Scalar(scalar) = &node.content else {
        return None;
    };
    let before = text.get(..node.span.start)?;
    (scalar.style == Style::Block).then(|| before.rfind(['|', '>']))?
}

/// The end of what is written of the node.
pub(crate) fn end_of(text: &str, node: &Node) -> usize {
    let trimmed = |span: Span| span.start + text[span.start..span.end].trim_end().len();
    let is_flow = edits::is_flow(text, node);
    match &node.content {
        Content::Sequence(items) if !is_flow => items.iter().map(|item| end_of(text, item)).max(),
        Content::Mapping(entries) if !is_flow => {
            let ends = entries
                .iter()
                .map(|entry| end_of(text, &entry.value).max(entry.key_span.end));
            ends.max()
        }
        _ => None,
    }
    .unwrap_or_else(|| trimmed(node.span))
}

/// The value as YAML on one line.
pub fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => spelt(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", spelt(key), flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The string without quotes, if it means itself everywhere; otherwise as in JSON, which YAML reads.
fn spelt(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ' | '\'');
    let is_plain = text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(is_word)
        && !text.ends_with(' ')
        && scalar::plain(text) == ScalarValue::Text;
    match is_plain {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}
