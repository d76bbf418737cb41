//! What types say of an expression and of a template, held against what they give.
#![no_main]

use std::sync::{Arc, LazyLock};

use ensemble_language::condition::{Counts, Expression, Facts, Fields, History, Known, Mistake, Outputs, Type};
use ensemble_language::template::{Scope, Template, misfits};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

struct Nobody;

impl History for Nobody {
    fn len(&self) -> usize {
        0
    }
    fn field(&self, _: usize, _: &str) -> Option<Arc<Value>> {
        None
    }
    fn fields(&self) -> &'static [&'static str] {
        &["agent_name"]
    }
}

impl Counts for Nobody {
    fn count(&self, _: &str) -> Option<u64> {
        None
    }
    fn names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

impl Outputs for Nobody {
    fn output(&self, agent: &str) -> Option<Arc<Value>> {
        (agent == "x").then(|| Arc::new(OUTPUT.clone()))
    }
    fn agents(&self) -> Vec<Arc<str>> {
        vec!["x".into()]
    }
}

static OUTPUT: LazyLock<Value> = LazyLock::new(|| {
    json!({"n": 2, "f": 0.5, "t": "a", "l": [1, 2], "m": {"a": {"b": "é"}}, "y": true, "o": null, "e": []})
});

static FACTS: LazyLock<Facts> = LazyLock::new(|| Facts {
    context: Arc::default(),
    output: None,
    turn_count: 7,
    history: Arc::new(Nobody),
    executions: Arc::new(Nobody),
    input: "the input".into(),
    inputs: Arc::default(),
    outputs: Arc::new(Nobody),
    part: None,
});

static KNOWN: LazyLock<Known> = LazyLock::new(|| Known {
    turn_count: Type::count(20),
    input: Type::text(),
    outputs: Type::map(Fields::exactly([("x".to_owned(), Type::of_value(&OUTPUT))])),
    ..Known::default()
});

fuzz_target!(|text: &str| {
    if let (Ok(reading), Ok(expression)) = (Expression::read(text), Expression::compile(text)) {
        let value = expression.evaluate(&FACTS);
        let of = reading.value(&KNOWN);
        if let Ok(value) = &value {
            assert!(of.admits(value), "{value} is not {of}");
        }
        for misfit in reading.misfits(&KNOWN) {
            assert!(text.get(misfit.span.start..misfit.span.end).is_some(), "{misfit:?}");
        }
    }
    let of = Type::of_value(&OUTPUT);
    let variables = |name: &str| (name == "x").then_some(&of);
    for misfit in misfits(text, &variables) {
        assert!(text.get(misfit.span.start..misfit.span.end).is_some(), "{misfit:?}");
    }
    // An expression alone has no part that is not rendered, unless an operator leaves one out.
    let is_plain = !["{", "}", "if", "and", "or", "macro", "is", "|"].iter().any(|word| text.contains(word));
    let alone = format!("{{{{ {text} }}}}");
    let fails = misfits(&alone, &variables).iter().any(|misfit| misfit.mistake == Mistake::Fails);
    if is_plain && fails {
        let scope = Scope {
            listens_to: Arc::new(["x".into()]),
            dependencies: vec![("x".into(), Arc::new(OUTPUT.clone()))],
            ..Scope::default()
        };
        let rendered = Template::compile(&alone).map(|template| template.render(&scope));
        assert!(!matches!(rendered, Ok(Ok(_))), "{alone} was said to fail, and gave {rendered:?}");
    }
});
