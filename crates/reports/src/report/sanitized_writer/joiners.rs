//! The invisible joiners and variation selectors that some scripts and emoji need.

/// Returns whether the hidden character belongs to the character before it, as in emoji, Persian or Indic words. Only one hidden character
/// is allowed after each character, so that a sequence cannot hide data.
pub(super) fn is_needed_joiner(character: char, before: Option<char>) -> bool {
    let Some(before) = before else {
        return false;
    };
    match character {
        '\u{200c}' => is_joining_script(before),
        '\u{200d}' => is_joining_script(before) || is_emoji(before),
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(before) || matches!(before, '#' | '*' | '0'..='9'),
        // The form of a Chinese or Japanese character.
        '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e01ef}' => {
            matches!(before, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
        }
        _ => false,
    }
}

/// Returns whether the letter belongs to a script with joined letters: Arabic, Syriac or scripts of India and its neighbours.
fn is_joining_script(letter: char) -> bool {
    matches!(letter, '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{df4}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}'
        | '\u{17b6}'..='\u{17ff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}

/// Returns whether the character is an emoji, a skin tone, or a sign that becomes a coloured emoji.
fn is_emoji(character: char) -> bool {
    matches!(character, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}' | '\u{2460}'..='\u{24ff}' | '\u{25a0}'..='\u{27bf}' | '\u{2900}'..='\u{297f}'
        | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::super::filter::escape_text;

    #[test]
    fn joiners_pass_where_a_script_or_an_emoji_needs_them_and_nowhere_else() {
        for kept in [
            "👩\u{200d}🚀",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "葛\u{e0100}",
        ] {
            assert_eq!(escape_text(kept), kept);
        }
        for (text, shown) in [
            ("a\u{200d}b", "a\\u{200d}b"),
            ("\u{200c}", "\\u{200c}"),
            ("ی\u{200c}\u{200c}", "ی\u{200c}\\u{200c}"),
            ("a\u{fe0f}", "a\\u{fe0f}"),
            ("🚀\u{fe0f}\u{fe0e}", "🚀\u{fe0f}\u{fe0e}"),
            ("🚀\u{e0100}\u{e0041}", "🚀\\u{e0100}\\u{e0041}"),
        ] {
            assert_eq!(escape_text(text), shown);
        }
    }
}
