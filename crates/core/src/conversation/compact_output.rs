//! An output as the history keeps it.

use std::sync::{Arc, Weak};

use serde::{Serialize, Serializer};
use serde_json::Value;

/// Largest number of values of an output that is stored as a value. Outputs with more values are stored as text.
/// In memory each value takes 72 bytes, and a list takes more, so a list of numbers takes many times the memory of its text.
const MAX_VALUES_IN_MEMORY: usize = 2_000;

/// An output: a value, or the text of a value with many parts.
#[derive(Debug, Clone)]
pub(super) enum CompactOutput {
    /// The value.
    Value(Arc<Value>),
    /// The JSON text of the value, and the value for as long as somebody else has it.
    Text(Arc<str>, Weak<Value>),
}

impl CompactOutput {
    /// Creates the stored form of the output that takes less memory.
    pub(super) fn from_output(output: &Arc<Value>) -> Self {
        match exceeds_value_limit(output, &mut 0) {
            true => Self::Text(output.to_string().into(), Arc::downgrade(output)),
            false => Self::Value(output.clone()),
        }
    }

    /// Returns whether the output is stored as text because it has very many values.
    pub(super) fn is_stored_as_text(&self) -> bool {
        matches!(self, Self::Text(..))
    }

    /// Returns the output. Parsing a stored text takes time in proportion to its length.
    pub(super) fn to_value(&self) -> Arc<Value> {
        match self {
            Self::Value(value) => value.clone(),
            Self::Text(text, value) => value
                .upgrade()
                .unwrap_or_else(|| Arc::new(serde_json::from_str(text).expect("the text was written from a value"))),
        }
    }
}

/// Returns whether the value contains more than [`MOST_VALUES`] values. `seen` is the number of values counted so far.
fn exceeds_value_limit(value: &Value, seen: &mut usize) -> bool {
    *seen += 1;
    *seen > MAX_VALUES_IN_MEMORY
        || match value {
            Value::Array(items) => items.iter().any(|item| exceeds_value_limit(item, seen)),
            Value::Object(map) => map.values().any(|item| exceeds_value_limit(item, seen)),
            _ => false,
        }
}

impl PartialEq for CompactOutput {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one, _), Self::Text(other, _)) => one == other,
            _ => self.to_value() == other.to_value(),
        }
    }
}

impl Serialize for CompactOutput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Not the text itself, because the serializer may indent.
        self.to_value().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use serde_json::json;

    use super::*;
    use crate::conversation::{ConversationState, Event, ExecutionEnd, ExecutionFinished, ExecutionStarted, Record};
    use crate::random_conversations::run_started_event;
    use crate::resolver::{NextDecision, decide_next_step};
    use ensemble_language::loader::load_ensemble;
    use ensemble_language::plan::Plan;
    use ensemble_language::source::SourceText;

    /// Returns a state in which the agent `a` has put out these values, one in each turn.
    fn after(outputs: Vec<Arc<Value>>) -> ConversationState {
        let count = outputs.len();
        let text = format!(
            "name: e\nagents: [{{name: a, script: x, conversation: {{max_turns: {count}, trigger: every_turn}}}}]\n"
        );
        let loaded = load_ensemble(&SourceText::new("a.yaml", text.as_str()));
        let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:?}", loaded.findings));
        let plan = Arc::new(Plan::build(Arc::new(ensemble)).expect("a plan"));
        let mut state = ConversationState::new(plan.clone());
        let apply = |state: &mut ConversationState, event: Event| {
            let seq = state.next_seq();
            let at = DateTime::<Utc>::UNIX_EPOCH;
            state.apply_record(&Record { seq, at, event }).expect("a legal event");
        };
        apply(&mut state, run_started_event());
        for (turn, output) in (1..).zip(outputs) {
            let NextDecision::StartTurn(start) = decide_next_step(&plan, &state) else {
                panic!("turn {turn} begins");
            };
            apply(&mut state, Event::TurnStarted(start));
            let begun = ExecutionStarted {
                turn,
                agent: "a".into(),
                execution: turn,
                attempt: 1,
            };
            apply(&mut state, Event::ExecutionStarted(begun));
            let finished = ExecutionFinished {
                answer: None,
                turn,
                agent: "a".into(),
                execution: turn,
                attempt: 1,
                end: ExecutionEnd::Succeeded(output),
                execution_time: 0.0,
                usage: None,
                stderr: String::new(),
                warnings: Vec::new(),
                exchange: Vec::new(),
                reused: false,
                sandboxes: Box::default(),
            };
            apply(&mut state, Event::ExecutionFinished(finished));
            let NextDecision::FinishTurn(finished) = decide_next_step(&plan, &state) else {
                panic!("turn {turn} ends");
            };
            apply(&mut state, Event::TurnFinished(finished));
        }
        state
    }

    #[test]
    fn only_the_latest_large_output_is_in_memory_as_a_value() {
        let large = |n: u32| Arc::new(json!({"rows": (0..3_000).map(|at| at * n).collect::<Vec<_>>()}));
        let outputs = vec![large(1), large(2), large(3)];
        let held: Vec<Weak<Value>> = outputs.iter().map(Arc::downgrade).collect();
        let state = after(outputs);
        let is_held: Vec<bool> = held.iter().map(|output| output.upgrade().is_some()).collect();
        assert_eq!(is_held, [false, false, true]);
        let rows = |entry: &Value| entry["rows"][2_999].clone();
        let told: Vec<Value> = state
            .list_executions()
            .map(|entry| rows(&entry.output_data()))
            .collect();
        assert_eq!(told, [2_999, 5_998, 8_997]);
        let context = state.context();
        let keys: Vec<&str> = context.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["rows", "a"], "the keys keep their order");
        assert_eq!(rows(context.get("a").expect("an output")), 8_997);
    }

    #[test]
    fn a_large_output_is_read_again_as_it_was() {
        let rows: Vec<Value> = (0..1_000)
            .map(|n| json!([n, f64::from(n) / 3.0, u64::MAX - n as u64, -1]))
            .collect();
        let large = Arc::new(json!({"z": rows, "a": "ü\u{1f30a}\u{0}", "e": 1e300}));
        let kept = CompactOutput::from_output(&large);
        assert!(matches!(kept, CompactOutput::Text(..)));
        assert!(
            Arc::ptr_eq(&kept.to_value(), &large),
            "it is shared while somebody has it"
        );
        let written = serde_json::to_string(&kept).expect("JSON");
        assert_eq!(written, large.to_string());
        assert_eq!(serde_json::to_value(&kept).expect("JSON"), *large);
        let expected = Value::clone(&large);
        drop(large);
        assert_eq!(*kept.to_value(), expected);
        assert_eq!(
            kept.to_value().to_string(),
            expected.to_string(),
            "keys keep their order"
        );
        assert_eq!(kept, CompactOutput::Value(Arc::new(expected)));
    }

    #[test]
    fn an_output_of_few_values_is_shared_however_long_its_text_is() {
        let text = Arc::new(json!({"response": "long ".repeat(100_000)}));
        let kept = CompactOutput::from_output(&text);
        assert!(Arc::ptr_eq(&kept.to_value(), &text));
        assert!(matches!(kept, CompactOutput::Value(_)));
    }
}
