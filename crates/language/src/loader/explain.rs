//! The explanation of every code: its meaning, and a wrong and a right example.
//!
//! Each explanation is in a separate file; tests run the examples.

use super::codes;
use crate::diagnostic::{Code, did_you_mean};

/// The code with this name, in upper or lower case.
pub fn find(code: &str) -> Option<Code> {
    let known = codes::ALL.iter().map(|(code, _)| *code);
    known.into_iter().find(|known| known.0.eq_ignore_ascii_case(code))
}

/// The known code that is most similar to this one.
pub fn nearest(code: &str) -> Option<&'static str> {
    did_you_mean(code, codes::ALL.iter().map(|(code, _)| code.0))
}

/// The meaning of the code, in Markdown.
pub fn explanation(code: Code) -> &'static str {
    let found = codes::EXPLANATIONS.iter().find(|(known, _)| *known == code);
    found.map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained() {
        for (code, text) in codes::EXPLANATIONS {
            assert!(
                text.contains("\nWrong:\n\n```yaml\n") && text.contains("\nRight:\n\n```yaml\n"),
                "{}",
                code.0
            );
        }
    }
}
