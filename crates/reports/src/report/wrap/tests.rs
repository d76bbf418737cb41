use super::super::format::DIM;
use super::*;

fn narrow(columns: u16) -> LineWidth {
    LineWidth::for_terminal(Some(columns))
}

#[test]
fn a_line_is_at_most_80_columns_and_never_a_sliver() {
    let table = [
        (None, 80),
        (Some(200), 80),
        (Some(60), 60),
        (Some(3), 20),
        (Some(0), 20),
    ];
    for (columns, width) in table {
        assert_eq!(LineWidth::for_terminal(columns), LineWidth(Some(width)), "{columns:?}");
    }
}

#[test]
fn texts_are_broken_between_words_and_what_is_preformatted_is_not() {
    let table = [
        ("one two three four five", "  one two three four\n  five\n"),
        ("a  b", "  a  b\n"),
        ("", ""),
        ("one\n\ntwo", "  one\n\n  two\n"),
        // Later rows stand under the text of a list.
        ("- one two three four five", "  - one two three\n    four five\n"),
        ("10. one two three four", "  10. one two three\n      four\n"),
        // A word that is too long stays whole: it may be a path or an address.
        (
            "see https://example.org/a/b/c now",
            "  see\n  https://example.org/a/b/c\n  now\n",
        ),
        // Preformatted.
        (
            "    let x = 1; // a long comment",
            "      let x = 1; // a long comment\n",
        ),
        ("\tindented by a tab, and long", "  \tindented by a tab, and long\n"),
        ("| a table | with | cells |", "  | a table | with | cells |\n"),
        (
            "```\nfn a_long_line_of_code(with: u8) {}\n\n~~~ is not its end of it\n```\nand then words again",
            "  ```\n  fn a_long_line_of_code(with: u8) {}\n\n  ~~~ is not its end of it\n  ```\n  and then words\n  again\n",
        ),
        // Signs of two columns, between which a row may end; a closing sign begins none.
        ("漢字漢字漢字漢字漢字漢字", "  漢字漢字漢字漢字漢\n  字漢字\n"),
        ("漢字漢字漢字漢字漢。字", "  漢字漢字漢字漢字\n  漢。字\n"),
        // An accent of its own takes no column.
        (
            "e\u{301}e\u{301}e\u{301}e\u{301} eight more here",
            "  e\u{301}e\u{301}e\u{301}e\u{301} eight more\n  here\n",
        ),
        // Nor do colours.
        (
            &format!("{DIM}key:{DIM:#} one two three four"),
            &format!("  {DIM}key:{DIM:#} one two three\n    four\n"),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(narrow(20).wrap_block(text, 2), expected, "{text:?}");
    }
}

#[test]
fn a_question_leaves_no_row_to_the_terminal() {
    let text = "  may `x` be called with a\u{a0}b-0123456789-0123456789-0123456789?\n  1  yes\n";
    assert_eq!(
        narrow(20).wrap_question(text),
        "  may `x` be called\n    with\n    a\u{a0}b-0123456789-0\n    123456789-012345\n    6789?\n  1  yes\n"
    );
    assert_eq!(LineWidth::UNLIMITED.wrap_question(text), text);
}

#[test]
fn our_own_sentences_hang_by_two() {
    let text = "  never never ran: condition false\nend\n";
    assert_eq!(
        narrow(20).wrap_sentences(text),
        "  never never ran:\n    condition false\nend\n"
    );
    assert_eq!(narrow(20).wrap_sentences("\n  a"), "\n  a");
}

#[test]
fn what_is_piped_is_not_wrapped() {
    let long = "word ".repeat(40);
    assert_eq!(LineWidth::UNLIMITED.wrap_sentences(&long), long);
    assert_eq!(LineWidth::UNLIMITED.wrap_block("a\n\nb", 4), "    a\n    \n    b\n");
    let mut out = String::new();
    TextWrapper::new(LineWidth::UNLIMITED, 0).push_text(&long, &mut out);
    assert_eq!(out, long, "nothing is kept back");
}

#[test]
fn a_beginning_is_not_wider_than_asked() {
    let table = [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("漢字漢字", 6, "漢字…"),
        ("漢", 1, "…"),
    ];
    for (text, most, expected) in table {
        assert_eq!(truncate_to_width(text, most), expected);
    }
}

proptest::proptest! {
    /// However a text is cut into pieces, the same comes out; and no row is too long unless it is one word.
    #[test]
    fn pieces_do_not_matter(text in "[a-e漢。\\- `|\n]{0,80}", at in 0usize..80) {
        let mut whole = String::new();
        let mut wrapper = TextWrapper::new(narrow(20), 4);
        wrapper.push_text(&text, &mut whole);
        wrapper.close_line(&mut whole);
        let cut = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
        let mut pieces = String::new();
        let mut wrapper = TextWrapper::new(narrow(20), 4);
        wrapper.push_text(&text[..cut], &mut pieces);
        wrapper.push_text(&text[cut..], &mut pieces);
        wrapper.close_line(&mut pieces);
        proptest::prop_assert_eq!(&whole, &pieces);
        if !text.contains(['`', '|']) && !text.starts_with(' ') && !text.contains("\n ") {
            let words = |text: &str| text.split_whitespace().collect::<String>();
            proptest::prop_assert_eq!(words(&whole), words(&text));
            for row in whole.lines().filter(|row| row.trim().contains(' ')) {
                proptest::prop_assert!(row.width() <= 20, "{row:?}");
            }
        }
    }
}
