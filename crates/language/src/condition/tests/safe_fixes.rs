//! Safe fixes of conditions: they write another spelling, and never guess.

use proptest::prelude::*;

use super::*;
use crate::check::check_ensemble;
use crate::fix::{TextFindings, fix_text};
use crate::loader::{load_ensemble, locate_findings};
use crate::source::SourceText;

/// Returns the condition after all safe fixes of an ensemble.
fn fixed_condition(condition: &str) -> String {
    let quoted = condition.replace('\'', "''");
    let text = format!(
        "name: e\nagents:\n  - {{name: writer, script: x}}\n  - name: b\n    script: y\n    dependencies:\n      - agent_name: \
         writer\n        condition: '{quoted}'\n"
    );
    let fixed = fix_text(&SourceText::new("e.yaml", text), false, |source| {
        let loaded = load_ensemble(source);
        let more = loaded.ensemble.as_ref().map(check_ensemble).unwrap_or_default();
        let findings = [loaded.findings.clone(), more].concat();
        TextFindings {
            is_yaml: loaded.document.is_some(),
            is_whole: loaded.ensemble.is_some(),
            findings: locate_findings(loaded.source(), loaded.document.as_ref(), &findings),
        }
    });
    let last = fixed.source.text().lines().last().unwrap_or_default().trim().to_owned();
    let value = last
        .strip_prefix("condition: '")
        .and_then(|rest| rest.strip_suffix('\''));
    value.unwrap_or_else(|| panic!("{last}")).replace("''", "'")
}

#[test]
fn a_guess_is_never_a_safe_fix() {
    for guess in [
        "output.state is done",
        "execution.writer > 1",
        "run_count > 3",
        "trun_count < 3",
        "contxt.count == 3",
        "output.score > 3 adn output.ok",
        "lenn(history) > 1",
        "output.text == nome",
    ] {
        assert!(Condition::compile(guess).is_err(), "{guess}");
        assert_eq!(fixed_condition(guess), guess);
    }
    for (other, own) in [
        ("output.score === 8", "output.score == 8"),
        (
            "output.score > 3 AND turn_count < 2",
            "output.score > 3 and turn_count < 2",
        ),
        ("output.error is null", "output.error is None"),
        ("output.score = 8", "output.score == 8"),
    ] {
        assert_eq!(fixed_condition(other), own);
    }
}

const WORDS: [&str; 36] = [
    "output.score",
    "output.state",
    "execution",
    "executions.writer",
    "run_count",
    "turn_count",
    "context",
    "done",
    "is",
    "not",
    "None",
    "null",
    "nil",
    "and",
    "AND",
    "or",
    "||",
    "==",
    "===",
    "=",
    "!=",
    "<>",
    "<",
    "=<",
    "=>",
    "in",
    "1",
    "8",
    "'yes'",
    "true",
    "TRUE",
    "False",
    "(",
    ")",
    "len(history)",
    "history[-1].success",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A safe fix leaves the value of every condition that could be evaluated before.
    #[test]
    fn a_safe_fix_leaves_every_value(words in prop::collection::vec(0..WORDS.len(), 1..7)) {
        let text = words.iter().map(|at| WORDS[*at]).collect::<Vec<_>>().join(" ");
        let fixed = fixed_condition(&text);
        if let Ok(before) = Condition::compile(&text) {
            let after = Condition::compile(&fixed).expect("it could be compiled before");
            prop_assert_eq!(before.evaluate(&facts()).ok(), after.evaluate(&facts()).ok(), "{} => {}", text, fixed);
        }
        // The words are those of the text, perhaps in another spelling.
        let count = |text: &str| text.split_whitespace().count();
        prop_assert_eq!(count(&text), count(&fixed));
        for (word, other) in text.split_whitespace().zip(fixed.split_whitespace()) {
            let is_name = word.starts_with(|first: char| first.is_lowercase()) && !["null", "nil"].contains(&word);
            prop_assert!(!is_name || word == other, "{} => {}", text, fixed);
        }
    }
}
