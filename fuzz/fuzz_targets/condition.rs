//! A condition: compiled, evaluated on a small snapshot, and asked what it read.
#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "`fuzz_target` writes the file that `RUST_LIBFUZZER_DEBUG_PATH` names"
)]

use std::sync::{Arc, LazyLock};

use ensemble_language::condition::{
    Condition, ConditionHistory, ConditionOutputs, ConditionSnapshot, ExecutionCounts, KeyedVariable, StaticResult,
};
use ensemble_language::data::RunContext;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

struct FewExecutions;

impl ConditionHistory for FewExecutions {
    fn len(&self) -> usize {
        3
    }
    fn field_value(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        self.field_names().contains(&name).then(|| {
            Arc::new(match name {
                "agent_name" => json!("writer"),
                "output_data" => json!({"score": at, "tags": ["a", null, 2.5]}),
                _ => json!(at),
            })
        })
    }
    fn field_names(&self) -> &'static [&'static str] {
        &["turn_number", "agent_name", "output_data", "success"]
    }
}

impl ExecutionCounts for FewExecutions {
    fn execution_count(&self, agent: &str) -> Option<u64> {
        (agent == "writer").then_some(2)
    }
    fn agent_names(&self) -> Vec<Arc<str>> {
        vec!["writer".into()]
    }
}

impl ConditionOutputs for FewExecutions {
    fn latest_output(&self, agent: &str) -> Option<Arc<Value>> {
        (agent == "writer").then(|| Arc::new(json!({"score": 0.5})))
    }
    fn agents_with_output(&self) -> Vec<Arc<str>> {
        vec!["writer".into()]
    }
}

static FACTS: LazyLock<ConditionSnapshot> = LazyLock::new(|| {
    let values = json!({
        "k": 1, "f": 2.5, "t": "text", "l": [1, [2], {"x": null}], "m": {"a": {"b": "é"}}, "n": null, "big": i64::MAX,
        "long": "long ".repeat(40),
    });
    let context: RunContext = values
        .as_object()
        .expect("an object")
        .iter()
        .map(|(key, value)| (Arc::from(key.as_str()), Arc::new(value.clone())))
        .collect();
    ConditionSnapshot {
        context: Arc::new(context),
        output: Some(Arc::new(json!({"score": 0.5, "items": [3, 2, 1], "done": false}))),
        turn_count: 7,
        history: Arc::new(FewExecutions),
        executions: Arc::new(FewExecutions),
        input: "the input".into(),
        inputs: Arc::default(),
        outputs: Arc::new(FewExecutions),
        part: None,
    }
});

fuzz_target!(|text: &str| {
    let reading = Condition::parse(text);
    let condition = match Condition::compile(text) {
        Ok(condition) => condition,
        Err(error) => {
            assert!(text.get(error.span.start..error.span.end).is_some(), "{error:?}");
            assert_eq!(reading.err(), Some(error));
            return;
        }
    };
    let answer = condition.evaluate(&FACTS);
    assert_eq!(answer, condition.evaluate(&FACTS));
    if let Err(error) = &answer {
        assert!(text.get(error.span.start..error.span.end).is_some(), "{error:?}");
    }
    condition.list_reads(&FACTS);
    let reading = reading.expect("what compiles can be read");
    let said = match reading.static_result() {
        StaticResult::AlwaysTrue | StaticResult::WrittenLiteral(true) => Some(Some(true)),
        StaticResult::AlwaysFalse | StaticResult::WrittenLiteral(false) => Some(Some(false)),
        StaticResult::AlwaysFails(_) => Some(None),
        StaticResult::DependsOnValues => None,
    };
    match (said, &answer) {
        (Some(None), Ok(answer)) => panic!("{answer}, though it was said to fail"),
        (Some(Some(said)), Ok(answer)) => assert_eq!(said, *answer),
        _ => {}
    }
    for read in reading
        .list_literal_key_reads(KeyedVariable::Context)
        .into_iter()
        .chain(reading.list_literal_key_reads(KeyedVariable::Output))
    {
        assert!(text.get(read.span.start..read.span.end).is_some(), "{read:?}");
    }
    assert_eq!(reading.list_named_agents(), condition.list_named_agents());
});
