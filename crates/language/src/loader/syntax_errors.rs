//! Converts the parser's errors to understandable messages, and rejects texts that the parser cannot handle.

use super::codes;
use super::document::MAX_NODES;
use crate::diagnostic::Finding;
use crate::source::{RouteLocation, Span};

const TAB: &str = "a tab is used for indentation";

/// A part of the parser's message, its meaning, and the help text.
const KNOWN_PARSER_ERRORS: &[(&str, &str, &str)] = &[
    (
        "unprintable",
        "a character that YAML does not allow",
        "write the character as an escape sequence in double quotes",
    ),
    ("tab", TAB, "indent with spaces; YAML does not allow tabs"),
    (
        "unknown anchor",
        "the anchor of this alias is not defined before it",
        "define the anchor with `&name`, or quote a string that starts with `*`",
    ),
    (
        "mapping values are not allowed",
        "unexpected colon",
        "quote a string that contains `: `, write a space after the colon of a key, and check the indentation",
    ),
    (
        "did not find expected key",
        "expected a key",
        "check the indentation: all keys of a map must start in the same column, and the lines of a string below `|` must be indented",
    ),
    (
        "did not find expected '-' indicator",
        "expected an item of the list",
        "every item must start with `- ` in the same column",
    ),
    (
        "simple key expect",
        "expected `:` after the key",
        "write `key: value`, or quote the string that this line is part of",
    ),
    (
        "found unexpected end of stream",
        "the closing quote of this string is missing",
        "add the quote, or write the string below `|`",
    ),
    (
        "unexpected document indicator",
        "the closing quote of this string is missing",
        "add the quote, or write the string below `|`",
    ),
    (
        "invalid trailing content",
        "unexpected content after the closing quote",
        "quote the whole string; write a quote as \\\" inside double quotes and as '' inside single quotes",
    ),
    (
        "invalid indentation in quoted scalar",
        "the closing quote of this string is missing",
        "add the quote; if the quote exists, indent the lines of the string further, or write the string below `|`",
    ),
    (
        "invalid indentation",
        "this line is not indented enough",
        "indent the line further",
    ),
    (
        "wrongly indented line in block scalar",
        "this line is indented less than the string that it is part of",
        "indent the line further",
    ),
    (
        "expected ',' or ']'",
        "expected a comma or `]`",
        "separate the items with commas and close the list",
    ),
    (
        "expected ',' or '}'",
        "expected a comma or `}`",
        "separate the keys with commas and close the map; quote a template such as `{{ name }}`",
    ),
    (
        "unexpected character",
        "a string without quotes cannot start with this character",
        "quote the string",
    ),
    (
        "unknown escape character",
        "unknown escape sequence in a double-quoted string",
        "write \\\\ for a backslash, or use single quotes",
    ),
    (
        "hexadecimal",
        "the escape sequence is not a hexadecimal number",
        "write \\\\ for a backslash, or use single quotes",
    ),
    (
        "Unicode character escape",
        "the escape sequence is not a character",
        "write the character itself",
    ),
    (
        "misplaced bracket",
        "a closing bracket has no opening bracket",
        "quote the string, or remove the bracket",
    ),
    (
        "block sequence entries are not allowed",
        "unexpected item of a list",
        "start the list on a new line",
    ),
    (
        "is only valid inside a block",
        "`- ` is not allowed between brackets",
        "separate the items with commas, or write the list without brackets",
    ),
    (
        "comment intercepting",
        "a comment interrupts this string",
        "quote the string, or move the comment",
    ),
    ("byte order mark", "a byte order mark is inside the file", "remove it"),
    (
        "recursion limit",
        "lists and maps are nested too deeply",
        "reduce the nesting of the file",
    ),
    (
        "did not find expected node content",
        "expected a value",
        "quote the string",
    ),
    (
        "plain scalar cannot start",
        "a single `-` between brackets",
        "quote the value",
    ),
    (
        "scanning an anchor",
        "the anchor or alias has no name",
        "quote a string that starts with `&` or `*`",
    ),
    (
        "scanning a block scalar",
        "unexpected content after `|` or `>`",
        "start the string on the next line",
    ),
    (
        " tag",
        "the syntax of this tag is not valid",
        "quote a string that starts with `!`",
    ),
    (
        " directive",
        "the syntax of this directive is not valid",
        "quote a string that starts with `%`",
    ),
    (
        "<document start>",
        "unexpected content after the end of the document",
        "a file must contain one map; check the indentation",
    ),
    (
        "unexpected end of plain scalar",
        "expected a string or a closing bracket",
        "close the open bracket or quote",
    ),
];

/// Builds the finding for an error of the parser; `info` is the message of the parser.
pub(super) fn syntax_error_finding(text: &str, at: usize, info: &str) -> Finding {
    let known_error = KNOWN_PARSER_ERRORS.iter().find(|(needle, ..)| info.contains(needle));
    let code = match known_error {
        Some(("unknown anchor", ..)) => codes::ALIAS,
        Some(("recursion limit", ..)) => codes::TOO_BIG,
        _ => codes::SYNTAX,
    };
    let at = char_location(
        text,
        if known_error.is_some_and(|known| known.1 == TAB) {
            find_indenting_tab(text, at)
        } else {
            at
        },
    );
    match known_error {
        Some((_, message, help)) => Finding::new_error(code, at, *message).with_help(*help),
        None => Finding::new_error(code, at, format!("this is not valid YAML: {info}")),
    }
}

/// Returns the position of the tab that indents the line at `at`, or of the next such tab. The parser reports a later position.
fn find_indenting_tab(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    let mut start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    for line in text[start..].split_inclusive('\n') {
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..blanks].find('\t') {
            return start + tab;
        }
        start += line.len();
    }
    at
}

/// Returns the location of the character at `at`. At the end of the text, returns the end of the last line that is not blank.
fn char_location(text: &str, at: usize) -> RouteLocation {
    let at = if at >= text.len() { text.trim_end().len() } else { at };
    let width = text[at..]
        .chars()
        .next()
        .filter(|c| *c != '\n' && *c != '\r')
        .map_or(0, char::len_utf8);
    RouteLocation::from_source_span(Span::new(at, at + width))
}

/// Checks that brackets do not contain more parts than the permitted number of values.
///
/// The parser stores all parts of an outermost bracket before it returns the first of them. Without this check a few
/// megabytes of commas would need gigabytes of memory.
pub(super) fn check_bracketed_part_count(text: &str, base: usize) -> Result<(), Box<Finding>> {
    let limit = 2 * MAX_NODES as usize;
    let part = |byte: &u8| {
        matches!(
            byte,
            b',' | b'[' | b']' | b'{' | b'}' | b':' | b'"' | b'\'' | b'&' | b'*' | b'!' | b'-' | b'?'
        )
    };
    if text.len() <= limit || text.bytes().filter(|byte| part(byte)).count() <= limit {
        return Ok(());
    }
    let message = format!("the file contains more than {MAX_NODES} values");
    Err(Box::new(Finding::new_error(
        codes::TOO_BIG,
        RouteLocation::from_source_span(Span::new(base, base)),
        message,
    )))
}
