use std::io::Write;
use std::sync::{Arc, Mutex};

use anstyle::Style;

use super::*;

/// What passes of these pieces, each written on its own.
fn passed(pieces: &[&str], spelling: EscapeStyle, is_ci: bool) -> String {
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);
    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("a lock").write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (kept, stream) = (Kept::default(), SanitizedStream::new(is_ci));
    for piece in pieces {
        let mut door = SanitizedWriter::new(kept.clone(), &stream, spelling);
        door.write_all(piece.as_bytes()).expect("memory");
    }
    let bytes = kept.0.lock().expect("a lock").clone();
    String::from_utf8(bytes).expect("text")
}

#[test]
fn only_styles_of_our_own_pass() {
    const BOLD: TrustedStyle = TrustedStyle::new(Style::new().bold());
    let ours = format!("{BOLD}a{BOLD:#}");
    let theirs = "\u{1b}[1mb\u{1b}[0m\u{1b}]0;t\u{7}\u{9b}2J\u{1b}[9;1m";
    let shown = passed(&[&ours, theirs], EscapeStyle::Text, false);
    assert_eq!(
        shown,
        "\u{1b}[1ma\u{1b}[0m\\u{1b}[1mb\\u{1b}[0m\\u{1b}]0;t\\u{7}\\u{9b}2J\\u{1b}[9;1m"
    );
    // A number that is ours does not make a command of a style.
    let mark = BOLD.to_string().replace("1m", "");
    let shown = passed(&[&format!("{mark}2J")], EscapeStyle::Text, false);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert_eq!(escape_text(&ours), ours, "styles stay until the door");
    assert_eq!(escape_text("\u{1b}[1m\r\n\r"), "\\u{1b}[1m\n\\u{d}");
}

#[test]
fn pieces_pass_as_the_whole_would() {
    for (text, shown) in [
        ("a\r\nb\rc\u{1b}[2J\u{202e}é🦀\t", "a\nb\\u{d}c\\u{1b}[2J\\u{202e}é🦀\t"),
        (
            "  ::error::x\n a::b\n##[group]##vso[t] # [x] ## [y]",
            "  :\\:error::x\n a::b\n##\\[group]##vso\\[t] # [x] ## [y]",
        ),
        ("\u{85}::x\n\t::y", "\\u{85}:\\:x\n\t:\\:y"),
    ] {
        assert_eq!(passed(&[text], EscapeStyle::Text, true), shown);
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(passed(&pieces, EscapeStyle::Text, true), shown, "in pieces");
    }
    assert_eq!(passed(&["::x ##[y"], EscapeStyle::Text, false), "::x ##[y", "no CI");
    assert_eq!(passed(&["::x \u{1b}"], EscapeStyle::Commands, true), "::x \\u{1b}");
}

#[test]
fn each_format_is_spelt_out_in_its_own_way() {
    let text = "\u{202e}\u{e0041}\u{9b}##[x]\n::y\n";
    for (spelling, shown) in [
        (EscapeStyle::Text, "\\u{202e}\\u{e0041}\\u{9b}##\\[x]\n:\\:y\n"),
        (
            EscapeStyle::Json,
            "\\u202e\\udb40\\udc41\\u009b##\\u005bx]\n:\\u003ay\n",
        ),
        (EscapeStyle::Xml, "&#x202e;&#xe0041;&#x9b;##&#x5b;x]\n:&#x3a;y\n"),
        (EscapeStyle::Exact, "\u{202e}\u{e0041}\u{9b}##\\[x]\n:\\:y\n"),
    ] {
        assert_eq!(passed(&[text], spelling, true), shown);
    }
    let bold = TrustedStyle::new(Style::new().bold());
    let text = format!("{bold}k{bold:#}\u{1b}[1m\r\n");
    assert_eq!(passed(&[&text], EscapeStyle::Exact, false), "k\u{1b}[1m\r\n");
}

#[test]
fn a_character_may_arrive_in_pieces_and_what_is_no_text_is_replaced() {
    let (kept, stream) = (Arc::new(Mutex::new(Vec::new())), SanitizedStream::default());
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("a lock").write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut door = SanitizedWriter::new(Shared(kept.clone()), &stream, EscapeStyle::Text);
    for piece in [&b"a\xc2"[..], &b"\x9b"[..], &b"b\xff\x9bc"[..]] {
        door.write_all(piece).expect("memory");
    }
    assert_eq!(*kept.lock().expect("a lock"), "a\\u{9b}b\u{fffd}\u{fffd}c".as_bytes());
}
