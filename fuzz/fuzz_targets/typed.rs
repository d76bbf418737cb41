//! What types say of an expression and of a template, held against what they give.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::sync::{Arc, LazyLock};

use ensemble_language::condition::{
    ConditionHistory, ConditionOutputs, ConditionSnapshot, ExecutionCounts, MapFields, TypeProblemKind,
    ValueExpression, ValueType, VariableTypes,
};
use ensemble_language::template::{Template, TemplateScope, find_type_problems};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

struct NoExecutions;

impl ConditionHistory for NoExecutions {
    fn len(&self) -> usize {
        0
    }
    fn field_value(&self, _: usize, _: &str) -> Option<Arc<Value>> {
        None
    }
    fn field_names(&self) -> &'static [&'static str] {
        &["agent_name"]
    }
}

impl ExecutionCounts for NoExecutions {
    fn execution_count(&self, _: &str) -> Option<u64> {
        None
    }
    fn agent_names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

impl ConditionOutputs for NoExecutions {
    fn latest_output(&self, agent: &str) -> Option<Arc<Value>> {
        (agent == "x").then(|| Arc::new(OUTPUT.clone()))
    }
    fn agents_with_output(&self) -> Vec<Arc<str>> {
        vec!["x".into()]
    }
}

static OUTPUT: LazyLock<Value> = LazyLock::new(
    || json!({"n": 2, "f": 0.5, "t": "a", "l": [1, 2], "m": {"a": {"b": "é"}}, "y": true, "o": null, "e": []}),
);

static FACTS: LazyLock<ConditionSnapshot> = LazyLock::new(|| ConditionSnapshot {
    context: Arc::default(),
    output: None,
    turn_count: 7,
    history: Arc::new(NoExecutions),
    executions: Arc::new(NoExecutions),
    input: "the input".into(),
    inputs: Arc::default(),
    outputs: Arc::new(NoExecutions),
    part: None,
});

fn variable_types() -> VariableTypes {
    VariableTypes {
        turn_count: ValueType::number_up_to(20),
        input: ValueType::any_text(),
        outputs: ValueType::map_with_fields(MapFields::with_exact_keys([(
            "x".to_owned(),
            ValueType::exact_value_type(&OUTPUT),
        )]))
        .into(),
        ..VariableTypes::default()
    }
}

fuzz_target!(|text: &str| {
    if let (Ok(reading), Ok(expression)) = (ValueExpression::parse(text), ValueExpression::compile(text)) {
        let known = variable_types();
        let value = expression.evaluate(&FACTS);
        let of = reading.infer_type(&known);
        if let Ok(value) = &value {
            assert!(of.contains_value(value), "{value} is not {of}");
        }
        for misfit in reading.find_type_problems(&known) {
            assert!(text.get(misfit.span.start..misfit.span.end).is_some(), "{misfit:?}");
        }
    }
    let of = ValueType::exact_value_type(&OUTPUT);
    let variables = |name: &str| (name == "x").then_some(&of);
    for misfit in find_type_problems(text, &variables) {
        assert!(text.get(misfit.span.start..misfit.span.end).is_some(), "{misfit:?}");
    }
    // An expression alone has no part that is not rendered, unless an operator leaves one out.
    let is_plain = !["{", "}", "if", "and", "or", "macro", "is", "|"]
        .iter()
        .any(|word| text.contains(word));
    let alone = format!("{{{{ {text} }}}}");
    let fails = find_type_problems(&alone, &variables)
        .iter()
        .any(|misfit| misfit.kind == TypeProblemKind::Fails);
    if is_plain && fails {
        let scope = TemplateScope {
            listens_to: Arc::new(["x".into()]),
            dependencies: vec![("x".into(), Arc::new(OUTPUT.clone()))],
            ..TemplateScope::default()
        };
        let rendered = Template::compile(&alone).map(|template| template.render(&scope));
        assert!(
            !matches!(rendered, Ok(Ok(_))),
            "{alone} was said to fail, and gave {rendered:?}"
        );
    }
});
