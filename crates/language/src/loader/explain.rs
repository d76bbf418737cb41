//! The explanation of every code: its meaning, and a wrong and a right example.
//!
//! Each explanation is in a separate file; tests run the examples.

use super::codes;
use crate::diagnostic::{Code, did_you_mean};

macro_rules! explanations {
    ($($code:literal)*) => {
        const EXPLANATIONS: &[(&str, &str)] =
            &[$(($code, include_str!(concat!("explanations/", $code, ".md")))),*];
    };
}

explanations! {
    "E001" "E002" "E003" "E004" "E005" "E006" "E007" "E008"
    "E010" "E011" "E013" "E014" "E015" "E016" "E017" "E018" "E019"
    "E020" "E021" "E022" "E023" "E024" "E025" "E026" "E027" "E028" "E029"
    "E030" "E031" "E032" "E033" "E034" "E035" "E036" "E037" "E038" "E039" "E040" "E041" "E042" "E043" "E044" "E045" "E046" "E047" "E048" "E049" "E050" "E051" "E057" "E060" "E061" "E065" "E066" "E067" "E070" "E071" "E073" "E076" "E078" "E079" "E080" "E081" "E082" "E083" "E086" "E090" "E091" "E092" "E093"
    "W001" "W002" "W003" "W004"
    "W010" "W011" "W012" "W013" "W014" "W015" "W016" "W017" "W018" "W019" "W020" "W021" "W022" "W023" "W024" "W025" "W026" "W030" "W034" "W036" "W039" "W040" "W041" "W042" "W043" "W044" "W045" "W046" "W047" "W048" "W049" "W050" "W053" "W060"
    "H001" "H002" "H003"
    "H010" "H011" "H012" "H013" "H014" "H020"
}

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
    let found = EXPLANATIONS.iter().find(|(known, _)| *known == code.0);
    found.map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained() {
        let explained: Vec<&str> = EXPLANATIONS.iter().map(|(code, _)| *code).collect();
        let codes: Vec<&str> = codes::ALL.iter().map(|(code, _)| code.0).collect();
        assert_eq!(explained, codes);
        for (code, text) in EXPLANATIONS {
            assert!(
                text.contains("\nWrong:\n\n```yaml\n") && text.contains("\nRight:\n\n```yaml\n"),
                "{code}"
            );
        }
    }
}
