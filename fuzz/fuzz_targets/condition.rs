//! A condition: compiled, evaluated on a small snapshot, and asked what it read.
#![no_main]

use std::sync::{Arc, LazyLock};

use ensemble_language::condition::{Condition, Counts, Facts, History, Keyed, Outputs, Verdict};
use ensemble_language::data::Context;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

struct Few;

impl History for Few {
    fn len(&self) -> usize {
        3
    }
    fn field(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        self.fields().contains(&name).then(|| {
            Arc::new(match name {
                "agent_name" => json!("writer"),
                "output_data" => json!({"score": at, "tags": ["a", null, 2.5]}),
                _ => json!(at),
            })
        })
    }
    fn fields(&self) -> &'static [&'static str] {
        &["turn_number", "agent_name", "output_data", "success"]
    }
}

impl Counts for Few {
    fn count(&self, agent: &str) -> Option<u64> {
        (agent == "writer").then_some(2)
    }
    fn names(&self) -> Vec<Arc<str>> {
        vec!["writer".into()]
    }
}

impl Outputs for Few {
    fn output(&self, agent: &str) -> Option<Arc<Value>> {
        (agent == "writer").then(|| Arc::new(json!({"score": 0.5})))
    }
    fn agents(&self) -> Vec<Arc<str>> {
        vec!["writer".into()]
    }
}

static FACTS: LazyLock<Facts> = LazyLock::new(|| {
    let values = json!({
        "k": 1, "f": 2.5, "t": "text", "l": [1, [2], {"x": null}], "m": {"a": {"b": "é"}}, "n": null, "big": i64::MAX,
        "long": "long ".repeat(40),
    });
    let context: Context = values
        .as_object()
        .expect("an object")
        .iter()
        .map(|(key, value)| (Arc::from(key.as_str()), Arc::new(value.clone())))
        .collect();
    Facts {
        context: Arc::new(context),
        output: Some(Arc::new(json!({"score": 0.5, "items": [3, 2, 1], "done": false}))),
        turn_count: 7,
        history: Arc::new(Few),
        executions: Arc::new(Few),
        input: "the input".into(),
        inputs: Arc::default(),
        outputs: Arc::new(Few),
        part: None,
    }
});

fuzz_target!(|text: &str| {
    let reading = Condition::read(text);
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
    condition.reads(&FACTS);
    let reading = reading.expect("what compiles can be read");
    let said = match reading.verdict() {
        Verdict::Always | Verdict::Plain(true) => Some(Some(true)),
        Verdict::Never | Verdict::Plain(false) => Some(Some(false)),
        Verdict::Fails(_) => Some(None),
        Verdict::Open => None,
    };
    match (said, &answer) {
        (Some(None), Ok(answer)) => panic!("{answer}, though it was said to fail"),
        (Some(Some(said)), Ok(answer)) => assert_eq!(said, *answer),
        _ => {}
    }
    for read in reading.keys_read(Keyed::Context).into_iter().chain(reading.keys_read(Keyed::Output)) {
        assert!(text.get(read.span.start..read.span.end).is_some(), "{read:?}");
    }
    assert_eq!(reading.agents_read(), condition.agents_read());
});
