//! The trusted styles of the program.
//!
//! A style is written with a random number of this process. [`super::SanitizedWriter`] accepts only styles with this number, and removes
//! the number. Texts from other sources cannot contain a style that the writer accepts.

use std::fmt::{Display, Formatter, Result};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The start of every trusted style, with a random number that other texts cannot know.
static TRUSTED_STYLE_MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{1b}[{};", RandomState::new().hash_one("style")));

/// A style of the program, which sanitizing keeps. `{STYLE}` starts the style, and `{STYLE:#}` ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedStyle(anstyle::Style);

impl TrustedStyle {
    /// Wraps the style.
    pub const fn new(style: anstyle::Style) -> Self {
        Self(style)
    }
}

impl Display for TrustedStyle {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let plain = match f.alternate() {
            true => self.0.render_reset().to_string(),
            false => self.0.render().to_string(),
        };
        // A rendered style is a row of escape sequences.
        for sequence in plain.split('\u{1b}').skip(1) {
            f.write_str(&TRUSTED_STYLE_MARK)?;
            f.write_str(sequence.strip_prefix('[').unwrap_or(sequence))?;
        }
        Ok(())
    }
}

/// Marks all styles in the text as trusted. The caller ensures that no other text contains a style.
pub(crate) fn mark_trusted_styles(text: &str) -> String {
    text.replace("\u{1b}[", &TRUSTED_STYLE_MARK)
}

/// Finds a trusted style at the start of the text. Returns the marked sequence, and the sequence without its mark.
pub(super) fn find_trusted_style(text: &str) -> Option<(&str, &str)> {
    let after_mark = text.strip_prefix(TRUSTED_STYLE_MARK.as_str())?;
    let mut bytes = after_mark.bytes();
    let end = bytes.position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':'))?;
    let style = after_mark[end..].starts_with('m').then(|| &after_mark[..=end])?;
    Some((&text[..TRUSTED_STYLE_MARK.len() + style.len()], style))
}
