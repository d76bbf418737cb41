//! Characters that are not written into a file as they are.

use ensemble_language::shown::is_hidden;

/// Whether the character would steer the terminal on which the file is shown, or is hidden there. Joiners and variants, which
/// emoji and some scripts need, are not among them.
pub(super) fn is_odd(c: char) -> bool {
    let is_joiner = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
    is_hidden(c) && !is_joiner || matches!(c, '\u{fffe}' | '\u{ffff}')
}
