//! Where a text is being typed: the place in the tree, also if the text does not parse at the moment.
//!
//! A mark is put into the text where the cursor is, and the text is read. If it cannot be read, it is tried as a key, then
//! with the brackets closed that are open on the line, then without what follows the line, then with the brackets closed that
//! an earlier line has opened.

use ensemble_language::loader::YamlDocument;
use ensemble_language::loader::document::{YamlContent, YamlNode};
use ensemble_language::source::Route;

use super::document_tree;

/// The character that marks the cursor in the parsed text. No name contains this character, and YAML permits it everywhere.
const CURSOR_MARK: char = '\u{e000}';

/// A possible position of the cursor in the tree.
pub(super) struct PossibleTreeCursor {
    /// The tree of the text with the mark.
    pub(super) document: YamlDocument,
    /// The map, the list or the value: for a key, the map that it is in.
    pub(super) route: Route,
    pub(super) what: TypedTextKind,
}

/// The kind of text that is being typed.
pub(super) enum TypedTextKind {
    /// A key of the map at the route; the other keys of the map.
    Key { others: Vec<String> },
    /// The value at the route, with the text before the cursor.
    Value { before: String },
}

/// Returns the positions in the tree that an offset can have, the most probable first. Returns none in a comment.
pub(super) fn list_possible_cursors(text: &str, offset: usize) -> impl Iterator<Item = PossibleTreeCursor> {
    let offset = text.floor_char_boundary(offset);
    let line = document_tree::find_line_span(text, offset);
    let (before, after) = text.split_at(offset);
    let close = closing_quotes_and_brackets(&text[line.start..offset]);
    // What follows on the line is left out: it belongs to something else.
    let cut = |mark: &str, end: &str| format!("{before}{mark}{end}\n");
    let joined = |mark: &str, end: &str| format!("{before}{mark}{end}{}", &text[line.end..]);
    let (value, key) = (CURSOR_MARK.to_string(), format!("{CURSOR_MARK}: "));
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let is_alone = text[line.start..offset].trim_start().chars().all(is_word);
    let ends = text[offset..line.end].trim().is_empty();
    let mut tries: Vec<String> = vec![format!("{before}{value}{after}")];
    if ends {
        // A word on a line of its own is the beginning of a key.
        tries.insert(usize::from(!is_alone), format!("{before}{key}{after}"));
    }
    tries.extend([
        joined(&value, &close),
        joined(&key, &close),
        cut(&value, &close),
        cut(&key, &close),
    ]);
    // Brackets that are open since an earlier line.
    if let Some(close) = closing_brackets_of_earlier_line(text, line.start, offset) {
        tries.extend([cut(&value, &close), cut(&key, &close)]);
    }
    // A list of maps is being continued.
    tries.push(cut(&format!("- {CURSOR_MARK}"), &close));
    tries
        .into_iter()
        .filter_map(move |text| parse_with_cursor_mark(&text, offset))
}

/// Parses a text with a mark, and returns the position of the mark in the tree.
fn parse_with_cursor_mark(text: &str, offset: usize) -> Option<PossibleTreeCursor> {
    let document = document_tree::parse_tolerantly(text, Some(offset))?;
    let (route, what) = find_cursor_mark(document.root(), &Route::root())?;
    Some(PossibleTreeCursor { document, route, what })
}

/// Returns the quotes and brackets that close those that are open at the end of the text.
fn closing_quotes_and_brackets(text: &str) -> String {
    let mut open: Vec<char> = Vec::new();
    let mut quote = None;
    let mut is_comment = false;
    let mut last = ' ';
    for c in text.chars() {
        match (quote, c) {
            (_, '\n') if is_comment => is_comment = false,
            _ if is_comment => {}
            (Some(mark), _) if c == mark && last != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if !last.is_alphanumeric() => quote = Some(c),
            (None, '[') => open.push(']'),
            (None, '{') => open.push('}'),
            (None, ']' | '}') => drop(open.pop()),
            (None, '#') if last.is_whitespace() => is_comment = true,
            _ => {}
        }
        last = c;
    }
    quote.into_iter().chain(open.into_iter().rev()).collect()
}

/// Returns the closing brackets for those that one of the 50 lines before and the line itself have opened. Returns `None`
/// if no bracket is open.
fn closing_brackets_of_earlier_line(text: &str, line: usize, offset: usize) -> Option<String> {
    const MOST_LINES: usize = 50;
    let mut starts = text[..line].rmatch_indices('\n').map(|(at, _)| at + 1);
    // The first one is the start of the line itself.
    starts.next()?;
    let starts = starts.chain([0]).take(MOST_LINES);
    let is_opening = |start: &usize| {
        let end = text[*start..].find('\n').map_or(text.len(), |length| start + length);
        let close = closing_quotes_and_brackets(&text[*start..end]);
        !close.is_empty() && close.ends_with([']', '}'])
    };
    let mut opening = starts
        .filter(is_opening)
        .map(|start| closing_quotes_and_brackets(&text[start..offset]));
    opening.find(|close| close.ends_with([']', '}']))
}

/// Returns the route of the mark, and the kind of text that contains the mark.
fn find_cursor_mark(node: &YamlNode, route: &Route) -> Option<(Route, TypedTextKind)> {
    match &node.content {
        YamlContent::Scalar(scalar) => {
            let before = scalar.text.split_once(CURSOR_MARK)?.0.to_owned();
            Some((route.clone(), TypedTextKind::Value { before }))
        }
        YamlContent::Sequence(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(at, item)| find_cursor_mark(item, &route.with_index(at)))
        }
        YamlContent::Mapping(entries) => {
            if entries.iter().any(|entry| entry.key.contains(CURSOR_MARK)) {
                let other_entries = entries.iter().filter(|entry| !entry.key.contains(CURSOR_MARK));
                let other_keys = other_entries.map(|entry| entry.key.to_string()).collect();
                return Some((route.clone(), TypedTextKind::Key { others: other_keys }));
            }
            entries
                .iter()
                .find_map(|entry| find_cursor_mark(&entry.value, &route.with_key(entry.key.clone())))
        }
    }
}
