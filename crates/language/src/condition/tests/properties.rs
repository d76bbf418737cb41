//! Whatever the text: no panic, and every place lies within it.

use proptest::prelude::*;

use super::*;

/// Whatever the text: no panic, and every place lies within it.
fn survives(text: &str) {
    let facts = facts();
    let span = match Condition::compile(text) {
        Err(error) => error.span,
        Ok(condition) => {
            for read in condition.reads(&facts) {
                assert!(text.contains(&read.expression));
            }
            condition.agents_read();
            match condition.evaluate(&facts) {
                Ok(answer) => {
                    holds_its_word(text, answer);
                    return;
                }
                Err(error) => {
                    assert!(
                        !error.message.contains("past a limit of the sandbox"),
                        "{text}: {}",
                        error.message
                    );
                    error.span
                }
            }
        }
    };
    assert!(text.get(span.start..span.end).is_some(), "{text:?} {span:?}");
}

/// What is said of a condition before a run is true of its answer.
fn holds_its_word(text: &str, answer: bool) {
    let verdict = Condition::read(text).expect("what compiles can be read").verdict();
    match verdict {
        Verdict::Open => {}
        Verdict::Plain(said) => assert_eq!(said, answer, "{text}"),
        Verdict::Always => assert!(answer, "{text}"),
        Verdict::Never => assert!(!answer, "{text}"),
        Verdict::Fails(why) => panic!("{text} has an answer, and {why}"),
    }
}

const WORDS: &[&str] = &[
    "context",
    "output",
    "turn_count",
    "history",
    "executions",
    "input",
    ".",
    "?.",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "#{",
    ",",
    ":",
    "and",
    "or",
    "not",
    "in",
    "is",
    "if",
    "else",
    "None",
    "True",
    "()",
    "&&",
    "||",
    "!",
    "==",
    "!=",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "??",
    "1",
    "0",
    "2.5",
    "-1",
    "'a'",
    "\"score\"",
    "tags",
    "nested",
    "len",
    "get",
    "keys",
    ".get(",
    ".len()",
    "min(",
    "replace(",
    "split(",
    "round(",
    "str(",
    "9223372036854775807",
    "=",
    ";",
    "//",
    "**",
    "let",
    "for",
    "x",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,80}") {
        survives(&text);
    }

    #[test]
    fn no_row_of_words_makes_it_panic(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..30), tight in any::<bool>()) {
        survives(&words.join(if tight { "" } else { " " }));
    }

    #[test]
    fn what_is_well_formed_is_taken(text in well_formed()) {
        prop_assert!(Condition::compile(&text).is_ok(), "{}", text);
        survives(&text);
    }
}

/// Expressions that the grammar must accept.
fn well_formed() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "1",
        "0",
        "2.5",
        "-3",
        "'a'",
        "''",
        "None",
        "True",
        "()",
        "[]",
        "{}",
        "context",
        "output.score",
        "history[-1]",
        "turn_count",
        "context.nested.deep",
        "context.tags",
        "executions.writer",
        "input",
        "context.missing",
        "context?.user?.name",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 40, 3, |inner| {
        let binary = proptest::sample::select(vec![
            "and", "or", "&&", "||", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "-", "*", "/", "%", "??",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, operator, b)| format!("({a}) {operator} ({b})")),
            inner.clone().prop_map(|a| format!("not ({a})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            inner.clone().prop_map(|a| format!("({a}) is not None")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}).get({b}, 1)")),
            inner.clone().prop_map(|a| format!("({a})?.name")),
            inner.clone().prop_map(|a| format!("len({a})")),
            inner.clone().prop_map(|a| format!("str({a})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("[{a}, {b}, {{'k': {c}}}]")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a}) < ({b}) < ({c})")),
        ]
    })
}
