//! The explanation of every code: its meaning, and a wrong and a right example.
//!
//! Each explanation is in a separate file; tests run the examples.

use super::codes;
use crate::diagnostic::{FindingCode, find_similar_word};

/// Returns the known code with this name, in upper or lower case.
pub fn find_code(code: &str) -> Option<FindingCode> {
    let known_codes = codes::ALL.iter().map(|(code, _)| *code);
    known_codes.into_iter().find(|known| known.0.eq_ignore_ascii_case(code))
}

/// Returns the known code that is most similar to this one.
pub fn find_nearest_code(code: &str) -> Option<&'static str> {
    find_similar_word(code, codes::ALL.iter().map(|(code, _)| code.0))
}

/// Returns the meaning of the code, in Markdown.
pub fn explain_code(code: FindingCode) -> &'static str {
    let entry = codes::EXPLANATIONS.iter().find(|(known, _)| *known == code);
    entry.map_or("", |(_, text)| text)
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
