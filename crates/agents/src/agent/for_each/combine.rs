//! What the outputs of the parts come to, and which parts can still change it.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::list::{compile_expression, list_failure};
use crate::agent::build_error::RunnerBuildError;
use ensemble_core::runner::ExecutionPart;
use ensemble_language::condition::{
    Condition, ConditionSnapshot, EvaluationNote, PartValues, PartVariables, ValueExpression,
};
use ensemble_language::data::ExecutionFailure;
use ensemble_language::ensemble::{ForEachSpec, PartCombination};

/// Compiled `combine` of a `for_each`: how the outputs of the parts become one output.
pub(super) enum PartCombiner {
    List,
    Best(ValueExpression),
    First(Condition),
    Majority {
        answer: ValueExpression,
        quorum: Option<usize>,
    },
}

/// Value of a part for the combination: not known yet, excluded, or a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PartCombineValue {
    /// It has not ended.
    Open,
    /// It failed, or was stopped.
    Excluded,
    /// It succeeded; with the value of the expression.
    Value(Value),
}

impl PartCombiner {
    /// Compiles the expressions of `combine`.
    pub(super) fn compile_spec(spec: &ForEachSpec) -> Result<Self, RunnerBuildError> {
        let names = PartVariables::for_output(&spec.item_name);
        Ok(match &spec.combine {
            PartCombination::List => Self::List,
            PartCombination::Best(text) => Self::Best(compile_expression("combine.best", text, names)?),
            PartCombination::First(text) => {
                let condition = Condition::compile_part_condition(text, &spec.item_name);
                Self::First(condition.map_err(|error| RunnerBuildError::Expression {
                    key: "combine.first".to_owned(),
                    message: error.message,
                })?)
            }
            PartCombination::Majority { answer, quorum } => Self::Majority {
                answer: compile_expression("combine.majority", answer, names)?,
                quorum: quorum.map(|quorum| quorum.get() as usize),
            },
        })
    }

    /// Evaluates the combine expression for the output of a part. Adds keys that were not found to `notes`.
    ///
    /// # Errors
    /// It has none, or one that cannot be combined: a failure of the part.
    pub(super) fn evaluate_part_output(
        &self,
        facts: &ConditionSnapshot,
        part: &ExecutionPart,
        output: &Arc<Value>,
        notes: &mut Vec<EvaluationNote>,
    ) -> Result<PartCombineValue, ExecutionFailure> {
        let facts = || ConditionSnapshot {
            output: Some(output.clone()),
            part: Some(PartValues {
                item: part.item.clone(),
                part: part.variable.clone(),
            }),
            ..facts.clone()
        };
        let mut evaluate = |expression: &ValueExpression| {
            let (value, found) = expression.evaluate_with_notes(&facts());
            notes.extend(found);
            value
        };
        let value = match self {
            Self::List => Ok(Value::Null),
            Self::Best(expression) => match evaluate(expression) {
                Ok(value @ (Value::Number(_) | Value::String(_))) => Ok(value),
                Ok(other) => {
                    let message = format!("`combine.best` evaluates to {other}; expected a number or a text");
                    return Err(list_failure(message));
                }
                Err(error) => Err(("best", error)),
            },
            Self::Majority { answer, .. } => evaluate(answer).map_err(|error| ("majority", error)),
            Self::First(condition) => {
                let (is_it, found) = condition.evaluate_with_notes(&facts());
                notes.extend(found);
                is_it.map(Value::Bool).map_err(|error| ("first", error))
            }
        };
        match value {
            Ok(value) => Ok(PartCombineValue::Value(value)),
            Err((key, error)) => Err(list_failure(format!("`combine.{key}`: {}", error.message))),
        }
    }

    /// Counts the parts at the start of the list that can still change the result.
    pub(super) fn count_relevant_parts(&self, table: &[PartCombineValue]) -> usize {
        match self {
            Self::List | Self::Best(_) => table.len(),
            Self::First(_) => find_first_true(table).unwrap_or(table.len()),
            Self::Majority { quorum, .. } if is_vote_decided(table, *quorum) => 0,
            Self::Majority { .. } => table.len(),
        }
    }

    /// Adds the keys of the combination, such as `best` and its part, to the output of the execution. `outputs` has one value per part.
    pub(super) fn add_result_keys(
        &self,
        output: &mut Map<String, Value>,
        table: &[PartCombineValue],
        outputs: &[Value],
    ) {
        match self {
            Self::List => {}
            Self::Best(_) => {
                let best = find_best(table).map_or(Value::Null, |at| outputs[at].clone());
                output.insert("best".to_owned(), best);
            }
            Self::First(_) => {
                output.insert(
                    "first".to_owned(),
                    find_first_true(table).map_or(Value::Null, |at| outputs[at].clone()),
                );
            }
            Self::Majority { quorum, .. } => {
                let votes = count_votes(table);
                let leader = votes.first();
                let agreed = leader.is_some_and(|(_, count)| *count >= needed_votes(table, *quorum));
                output.insert(
                    "answer".to_owned(),
                    leader.map_or(Value::Null, |(answer, _)| (*answer).clone()),
                );
                let votes = votes
                    .iter()
                    .map(|(answer, count)| json!({"answer": answer, "count": count}));
                output.insert("votes".to_owned(), votes.collect());
                output.insert("agreed".to_owned(), agreed.into());
            }
        }
    }
}

/// Finds the index of the first part whose value is true.
fn find_first_true(table: &[PartCombineValue]) -> Option<usize> {
    table
        .iter()
        .position(|judged| *judged == PartCombineValue::Value(Value::Bool(true)))
}

/// Finds the index of the highest value, and of equal values the first. Numbers sort before texts.
fn find_best(table: &[PartCombineValue]) -> Option<usize> {
    let mut best: Option<(usize, &Value)> = None;
    for (at, judged) in table.iter().enumerate() {
        let PartCombineValue::Value(value) = judged else {
            continue;
        };
        if best.is_none_or(|(_, highest)| compare_values(value, highest) == Ordering::Greater) {
            best = Some((at, value));
        }
    }
    best.map(|(at, _)| at)
}

/// Compares two numbers or texts. A text is greater than a number.
fn compare_values(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::String(_), _) => Ordering::Greater,
        (_, Value::String(_)) => Ordering::Less,
        _ => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
        },
    }
}

/// Counts equal answers. Sorts by count, highest first, then by the position of the first such answer.
fn count_votes(table: &[PartCombineValue]) -> Vec<(&Value, usize)> {
    let mut votes: Vec<(&Value, usize)> = Vec::new();
    for judged in table {
        let PartCombineValue::Value(answer) = judged else {
            continue;
        };
        match votes.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, count)) => *count += 1,
            None => votes.push((answer, 1)),
        }
    }
    votes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    votes
}

/// Returns the number of parts that must agree: the quorum, or more than half.
fn needed_votes(table: &[PartCombineValue], quorum: Option<usize>) -> usize {
    quorum.unwrap_or(table.len() / 2 + 1)
}

/// Returns whether the open parts can no longer change the answer and `agreed`. They can still change the counts.
fn is_vote_decided(table: &[PartCombineValue], quorum: Option<usize>) -> bool {
    let is_open = |judged: &&PartCombineValue| **judged == PartCombineValue::Open;
    let open = table.iter().filter(is_open).count();
    let votes = count_votes(table);
    let needed = needed_votes(table, quorum);
    let Some((answer, leading)) = votes.first() else {
        return open == 0;
    };
    let agreement = *leading >= needed || leading + open < needed;
    let place = |answer: &Value| {
        table
            .iter()
            .position(|judged| matches!(judged, PartCombineValue::Value(value) if value == answer))
    };
    let (leader_place, first_open) = (
        place(answer),
        table.iter().position(|judged| *judged == PartCombineValue::Open),
    );
    // Of two equal counts the answer that is first in the list wins, and an open part may come before it.
    let wins_tie = |other: Option<usize>| {
        let first = [other, first_open].into_iter().flatten().min();
        first < leader_place
    };
    let can_win = |count: usize, other: Option<usize>| match (count + open).cmp(leading) {
        Ordering::Less => false,
        Ordering::Equal => open > 0 && wins_tie(other),
        Ordering::Greater => true,
    };
    let others = votes[1..].iter();
    agreement && !can_win(0, None) && !others.into_iter().any(|(other, count)| can_win(*count, place(other)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(values: &[i64]) -> Vec<PartCombineValue> {
        let judged = values.iter().map(|value| match value {
            -1 => PartCombineValue::Open,
            -2 => PartCombineValue::Excluded,
            value => PartCombineValue::Value((*value).into()),
        });
        judged.collect()
    }

    fn majority(quorum: Option<usize>) -> PartCombiner {
        PartCombiner::Majority {
            answer: compile_expression("combine.majority", "output", PartVariables::for_output("item"))
                .expect("an expression"),
            quorum,
        }
    }

    fn combined(combiner: &PartCombiner, table: &[PartCombineValue]) -> Map<String, Value> {
        let outputs: Vec<Value> = (0..table.len()).map(|at| json!({"at": at})).collect();
        let mut output = Map::new();
        combiner.add_result_keys(&mut output, table, &outputs);
        output
    }

    #[test]
    fn the_highest_value_and_of_equal_ones_the_first() {
        let table = |values: &[Value]| -> Vec<PartCombineValue> {
            values.iter().cloned().map(PartCombineValue::Value).collect()
        };
        let cases: [(&[Value], Option<usize>); 6] = [
            (&[], None),
            (&[json!(1), json!(3), json!(3.0)], Some(1)),
            (&[json!(-1), json!(-1.5)], Some(0)),
            (&[json!("a"), json!("c"), json!("b")], Some(1)),
            (&[json!(9), json!("a")], Some(1)),
            (&[json!(i64::MAX), json!(i64::MAX - 1)], Some(0)),
        ];
        for (values, expected) in cases {
            assert_eq!(find_best(&table(values)), expected, "{values:?}");
        }
    }

    #[test]
    fn a_vote_names_the_answer_the_counts_and_whether_enough_agree() {
        let cases = [
            (None, vec![1, 2, 2, 1, 3], json!([1, false])),
            (None, vec![1, 2, 2], json!([2, true])),
            (Some(2), vec![1, 2, 2, 1], json!([1, true])),
            (Some(3), vec![1, 2, 2, -2], json!([2, false])),
            (None, vec![1, 1, -2, -2], json!([1, false])),
            (None, vec![-2, -2], json!([null, false])),
            (None, vec![], json!([null, false])),
        ];
        for (quorum, values, expected) in cases {
            let output = combined(&majority(quorum), &table(&values));
            assert_eq!(json!([output["answer"], output["agreed"]]), expected, "{values:?}");
        }
        let output = combined(&majority(None), &table(&[5, 7, 7]));
        assert_eq!(
            output["votes"],
            json!([{"answer": 7, "count": 2}, {"answer": 5, "count": 1}])
        );
    }

    #[test]
    fn the_first_is_the_first_in_the_list_however_late_it_came() {
        let first = PartCombiner::First(Condition::compile_part_condition("output.ok", "item").expect("a condition"));
        let value = |is_it: bool| PartCombineValue::Value(is_it.into());
        let table = [
            value(false),
            PartCombineValue::Open,
            value(true),
            PartCombineValue::Open,
        ];
        assert_eq!(
            first.count_relevant_parts(&table),
            2,
            "the one in the middle may still come first"
        );
        assert_eq!(first.count_relevant_parts(&table[..2]), 2);
        let ended = [value(false), value(true), value(true), PartCombineValue::Excluded];
        assert_eq!(combined(&first, &ended)["first"], json!({"at": 1}));
    }

    #[test]
    fn a_vote_is_decided_when_neither_the_answer_nor_the_agreement_can_change() {
        let cases = [
            (None, vec![1, 1, -1], true),
            (Some(2), vec![1, 1, -1, -1], true),
            (Some(2), vec![-1, 1, 1, -1], false),
            (Some(2), vec![1, 2, 1, -1], true),
            (Some(2), vec![2, 1, 1, -1], false),
            (Some(3), vec![1, 1, -1, -1], false),
            (Some(3), vec![1, 2, -1, -2, -2], false),
            (Some(4), vec![1, 1, 2, -1, -2], true),
            (None, vec![-2, -2], true),
            (None, vec![-1], false),
        ];
        for (quorum, values, expected) in cases {
            assert_eq!(
                is_vote_decided(&table(&values), quorum),
                expected,
                "{quorum:?} {values:?}"
            );
        }
    }

    proptest! {
        /// However the open parts end, a decided vote comes to the same answer.
        #[test]
        fn a_decided_vote_stays_as_it_is(
            known in prop::collection::vec(-2_i64..3, 0..7),
            ends in prop::collection::vec(-2_i64..5, 7),
            quorum in prop::option::of(1_usize..8),
        ) {
            let before = table(&known);
            prop_assume!(is_vote_decided(&before, quorum));
            let ended = known.iter().zip(&ends).map(|(known, end)| match (known, end) {
                (-1, -1) => -2,
                (-1, end) => *end,
                (known, _) => *known,
            });
            let after = table(&ended.collect::<Vec<_>>());
            let keys = |output: Map<String, Value>| json!([output["answer"], output["agreed"]]);
            let combiner = majority(quorum);
            prop_assert_eq!(keys(combined(&combiner, &before)), keys(combined(&combiner, &after)));
        }
    }
}
