//! The parser's complaints in words that help, and a guard for texts on which it would choke.

use super::codes;
use super::document::MAX_NODES;
use crate::diagnostic::Finding;
use crate::source::{At, Span};

const TAB: &str = "a tab stands where YAML wants spaces";

/// What to look for in the parser's message, what it means, and what to do.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "unprintable",
        "a character that YAML does not allow",
        "write it as an escape in double quotes",
    ),
    ("tab", TAB, "indent with spaces; YAML does not take tabs"),
    (
        "unknown anchor",
        "this alias names an anchor that is not defined before it",
        "define it with `&name`, or put a text that starts with `*` in quotes",
    ),
    (
        "mapping values are not allowed",
        "a colon is not expected here",
        "put a text that holds `: ` in quotes, write a space after a colon, and check the indentation",
    ),
    (
        "did not find expected key",
        "a key is expected here",
        "check the indentation: the keys of one map stand in one column, and the lines of a text below `|` are indented",
    ),
    (
        "did not find expected '-' indicator",
        "an item of the list is expected here",
        "items start with `- `, all in one column",
    ),
    (
        "simple key expect",
        "a key without its colon",
        "write `key: value`; check that the line is not meant to be part of a text",
    ),
    (
        "found unexpected end of stream",
        "the closing quote of this text is missing",
        "add it, or write the text below `|`",
    ),
    (
        "unexpected document indicator",
        "the closing quote of this text is missing",
        "add it, or write the text below `|`",
    ),
    (
        "invalid trailing content",
        "something follows the closing quote",
        "put the whole text in quotes; inside double quotes write \\\" for a quote, inside single ones ''",
    ),
    (
        "invalid indentation in quoted scalar",
        "the closing quote of this text is missing",
        "add it; if it is there, indent the text's lines further, or write the text below `|`",
    ),
    (
        "invalid indentation",
        "this line is indented less than what it belongs to",
        "indent it further",
    ),
    (
        "wrongly indented line in block scalar",
        "this line is indented less than the text it belongs to",
        "indent it further",
    ),
    (
        "expected ',' or ']'",
        "a comma or `]` is expected here",
        "separate the items with commas and close the list",
    ),
    (
        "expected ',' or '}'",
        "a comma or `}` is expected here",
        "separate the keys with commas and close the map; put a template such as `{{ name }}` in quotes",
    ),
    (
        "unexpected character",
        "a text cannot start with this character",
        "put the text in quotes",
    ),
    (
        "unknown escape character",
        "an unknown escape in a text in double quotes",
        "write \\\\ for a backslash, or use single quotes",
    ),
    (
        "hexadecimal",
        "an escape that is not a hexadecimal number",
        "write \\\\ for a backslash, or use single quotes",
    ),
    (
        "Unicode character escape",
        "an escape that is no character",
        "write the character itself",
    ),
    (
        "misplaced bracket",
        "a closing bracket without an opening one",
        "put the text in quotes, or remove it",
    ),
    (
        "block sequence entries are not allowed",
        "an item of a list is not expected here",
        "start the list on a line of its own",
    ),
    (
        "is only valid inside a block",
        "`- ` does not belong between brackets",
        "separate the items with commas, or write the list without brackets",
    ),
    (
        "comment intercepting",
        "a comment cuts this text in two",
        "put the text in quotes, or move the comment",
    ),
    ("byte order mark", "a byte order mark inside the text", "remove it"),
    (
        "recursion limit",
        "lists and maps are nested too deeply",
        "flatten the file",
    ),
    (
        "did not find expected node content",
        "a value is expected here",
        "put the text in quotes",
    ),
    (
        "plain scalar cannot start",
        "a lone `-` between brackets",
        "put it in quotes",
    ),
    (
        "scanning an anchor",
        "an anchor or alias without a name",
        "put a text that starts with `&` or `*` in quotes",
    ),
    (
        "scanning a block scalar",
        "something follows `|` or `>` on its line",
        "start the text on the next line",
    ),
    (
        " tag",
        "this tag is not well formed",
        "put a text that starts with `!` in quotes",
    ),
    (
        " directive",
        "this directive is not well formed",
        "put a text that starts with `%` in quotes",
    ),
    (
        "<document start>",
        "something follows where the document has ended",
        "a file holds one map; check the indentation",
    ),
    (
        "unexpected end of plain scalar",
        "a text or a closing bracket is expected here",
        "close what is open",
    ),
];

/// The parser's complaint as a finding.
pub(super) fn explain(text: &str, at: usize, info: &str) -> Finding {
    let known = KNOWN.iter().find(|(needle, ..)| info.contains(needle));
    let code = match known {
        Some(("unknown anchor", ..)) => codes::ALIAS,
        Some(("recursion limit", ..)) => codes::TOO_BIG,
        _ => codes::SYNTAX,
    };
    let at = place(
        text,
        if known.is_some_and(|known| known.1 == TAB) {
            tab(text, at)
        } else {
            at
        },
    );
    match known {
        Some((_, message, help)) => Finding::error(code, at, *message).help(*help),
        None => Finding::error(code, at, format!("this is not YAML: {info}")),
    }
}

/// The tab that indents the line at `at`, or the next that does; the parser names where it noticed.
fn tab(text: &str, at: usize) -> usize {
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

/// One character at `at`; at the end of the text, the end of its last line with words on it.
fn place(text: &str, at: usize) -> At {
    let at = if at >= text.len() { text.trim_end().len() } else { at };
    let width = text[at..]
        .chars()
        .next()
        .filter(|c| *c != '\n' && *c != '\r')
        .map_or(0, char::len_utf8);
    At::source(Span::new(at, at + width))
}

/// Refuses a text between brackets that has more parts than a document may have values.
///
/// The parser keeps all parts of an outermost bracket until it closes, before it hands out the first of
/// them; without this guard a few megabytes of commas would cost gigabytes.
pub(super) fn check_flow(text: &str, base: usize) -> Result<(), Box<Finding>> {
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
    let message = format!("the file holds more than {MAX_NODES} values");
    Err(Box::new(Finding::error(
        codes::TOO_BIG,
        At::source(Span::new(base, base)),
        message,
    )))
}
