//! The escaping of HTML: every text from outside is passed through [`escape_html`].

/// Escapes text for HTML content and attributes.
pub(super) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            // This includes carriage returns, and characters that change the text direction.
            c if c.is_control() || is_text_direction_control(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns whether the character changes the direction of text.
fn is_text_direction_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Renders a text with its line breaks. Long lines are wrapped, and a long text scrolls.
pub(super) fn render_text_block(text: &str, class: &str) -> String {
    let text = text.replace("\r\n", "\n");
    // A scrolling block can be reached with the keyboard.
    format!(
        "<pre class=\"{class}\" tabindex=\"0\">{}</pre>\n",
        escape_html(text.trim_end())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        let table = [
            (
                "<script>alert('x')</script>",
                "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;",
            ),
            ("\" onload=\"x", "&quot; onload=&quot;x"),
            ("a & b", "a &amp; b"),
            ("\u{1b}[31m\u{0}", "\u{fffd}[31m\u{fffd}"),
            ("\u{202e}txt.exe", "\u{fffd}txt.exe"),
            ("ä\n\tß", "ä\n\tß"),
        ];
        for (text, expected) in table {
            assert_eq!(escape_html(text), expected);
        }
    }
}
