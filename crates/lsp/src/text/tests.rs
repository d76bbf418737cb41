//! Positions and edits.

use lsp_types::{Position, Range, TextDocumentContentChangeEvent};
use proptest::prelude::*;

use super::{ColumnEncoding, EditorText};

fn edit(range: Option<Range>, text: &str) -> TextDocumentContentChangeEvent {
    TextDocumentContentChangeEvent {
        range,
        range_length: None,
        text: text.to_owned(),
    }
}

#[test]
fn columns_are_counted_in_the_units_of_the_encoding() {
    let text = "aé→𝄞z\r\nb\rc\n";
    for (offset, utf16, utf8) in [
        (0, (0, 0), (0, 0)),
        (1, (0, 1), (0, 1)),
        (3, (0, 2), (0, 3)),
        (6, (0, 3), (0, 6)),
        (10, (0, 5), (0, 10)),
        (11, (0, 6), (0, 11)),
        (13, (1, 0), (1, 0)),
        (15, (2, 0), (2, 0)),
        (17, (3, 0), (3, 0)),
    ] {
        for (encoding, (line, column)) in [(ColumnEncoding::Utf16, utf16), (ColumnEncoding::Utf8, utf8)] {
            let text = EditorText::new(text, encoding);
            let position = Position::new(line, column);
            assert_eq!(text.position_at(offset), position, "{encoding:?} {offset}");
            assert_eq!(text.offset_at(position), offset, "{encoding:?} {offset}");
        }
    }
}

#[test]
fn positions_beyond_a_line_or_inside_a_character_have_an_offset() {
    let text = EditorText::new("a𝄞\r\nb", ColumnEncoding::Utf16);
    for (line, column, offset) in [(0, 2, 1), (0, 3, 5), (0, 9, 5), (1, 9, 8), (7, 0, 8)] {
        assert_eq!(text.offset_at(Position::new(line, column)), offset, "{line}:{column}");
    }
    assert_eq!(text.position_at(99), Position::new(1, 1));
}

fn any_text() -> impl Strategy<Value = String> {
    "[a\u{e9}\u{1d11e}\u{2192} \\-\n\r:{]{0,40}"
}

proptest! {
    #[test]
    fn an_edit_replaces_the_bytes_between_its_positions(
        before in any_text(),
        new in any_text(),
        at in (0u32..6, 0u32..12, 0u32..6, 0u32..12),
        is_wide in any::<bool>(),
    ) {
        let encoding = if is_wide { ColumnEncoding::Utf16 } else { ColumnEncoding::Utf8 };
        let text = EditorText::new(before.as_str(), encoding);
        let range = Range::new(Position::new(at.0, at.1), Position::new(at.2, at.3));
        let span = text.span_for_range(range);
        let changed = text.with_change(&edit(Some(range), &new));
        let expected = format!("{}{new}{}", &before[..span.start], &before[span.end..]);
        prop_assert_eq!(&**changed.content(), expected.as_str());
        // It has the lines of a text that was opened so.
        let opened = EditorText::new(expected.as_str(), encoding);
        prop_assert_eq!(&changed.lines, &opened.lines);
        for (offset, c) in expected.char_indices() {
            // The middle of a line end belongs to the line before it.
            if c != '\n' {
                prop_assert_eq!(changed.offset_at(changed.position_at(offset)), offset);
            }
        }
    }
}
