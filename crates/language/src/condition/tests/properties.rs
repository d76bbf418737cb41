//! Whatever the text: no panic, and every place lies within it.

use proptest::prelude::*;

use super::*;

/// Whatever the text: no panic, and every place lies within it.
fn survives(text: &str) {
    typing::fits(text);
    let facts = facts();
    let span = match Condition::compile(text) {
        Err(error) => error.span,
        Ok(condition) => {
            for read in condition.list_reads(&facts) {
                assert!(text.contains(&read.expression));
            }
            condition.list_named_agents();
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
    let verdict = Condition::parse(text)
        .expect("what compiles can be read")
        .static_result();
    match verdict {
        StaticResult::DependsOnValues => {}
        StaticResult::WrittenLiteral(said) => assert_eq!(said, answer, "{text}"),
        StaticResult::AlwaysTrue => assert!(answer, "{text}"),
        StaticResult::AlwaysFalse => assert!(!answer, "{text}"),
        StaticResult::AlwaysFails(why) => panic!("{text} has an answer, and {why}"),
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
    "[x for x in",
    "any(x for x in",
    "[y for x in context.nested for y in",
    "tags[-1:]",
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
    fn the_truth_is_that_of_the_model(model in model()) {
        let text = model.text();
        let condition = Condition::compile(&text).expect("is well formed");
        prop_assert_eq!(condition.evaluate(&facts()).map_err(drop), model.truth(), "{}", text);
        survives(&text);
    }

    #[test]
    fn what_is_well_formed_is_taken(text in well_formed()) {
        prop_assert!(Condition::compile(&text).is_ok(), "{}", text);
        survives(&text);
    }
}

/// A condition of `and`, `or`, `not` and conditionals, and what it gives according to a few lines of their own.
#[derive(Debug, Clone)]
enum Model {
    Leaf(&'static str),
    Not(Box<Model>),
    And(Box<Model>, Box<Model>),
    Or(Box<Model>, Box<Model>),
    If(Box<Model>, Box<Model>, Box<Model>),
}

/// The leaves, and their truth; `None`: a text that reads false.
const LEAVES: &[(&str, Option<bool>)] = &[
    ("True", Some(true)),
    ("False", Some(false)),
    ("context.missing", Some(false)),
    ("context.zero", Some(false)),
    ("context.empty", Some(false)),
    ("context.tags", Some(true)),
    ("context.said_yes", Some(true)),
    ("context.said_no", None),
    ("context.said_off", None),
];

impl Model {
    fn text(&self) -> String {
        match self {
            Self::Leaf(leaf) => (*leaf).to_owned(),
            Self::Not(one) => format!("(not {})", one.text()),
            Self::And(one, other) => format!("({} and {})", one.text(), other.text()),
            Self::Or(one, other) => format!("({} || {})", one.text(), other.text()),
            Self::If(asked, then, otherwise) => {
                format!("({} if {} else {})", then.text(), asked.text(), otherwise.text())
            }
        }
    }

    /// Returns the truth of the value, or `Err` if any truth that is asked for on the way is that of a text that reads
    /// false.
    fn truth(&self) -> Result<bool, ()> {
        match self {
            Self::Leaf(leaf) => LEAVES
                .iter()
                .find(|(text, _)| text == leaf)
                .and_then(|(_, truth)| *truth)
                .ok_or(()),
            Self::Not(one) => Ok(!one.truth()?),
            Self::And(one, other) => Ok(one.truth()? && other.truth()?),
            Self::Or(one, other) => Ok(one.truth()? || other.truth()?),
            Self::If(asked, then, otherwise) => {
                if asked.truth()? {
                    then.truth()
                } else {
                    otherwise.truth()
                }
            }
        }
    }
}

fn model() -> impl Strategy<Value = Model> {
    let leaves: Vec<&str> = LEAVES.iter().map(|(text, _)| *text).collect();
    let leaf = proptest::sample::select(leaves).prop_map(Model::Leaf);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let inner = move || inner.clone().prop_map(Box::new);
        prop_oneof![
            inner().prop_map(Model::Not),
            (inner(), inner()).prop_map(|(a, b)| Model::And(a, b)),
            (inner(), inner()).prop_map(|(a, b)| Model::Or(a, b)),
            (inner(), inner(), inner()).prop_map(|(a, b, c)| Model::If(a, b, c)),
        ]
    })
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
        "context.said_no",
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
