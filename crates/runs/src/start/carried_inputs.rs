//! The inputs of a run that continues another run, possibly with an ensemble that declares other inputs.
//!
//! Invariant: a value is kept if the new ensemble declares an input of the same name.

use std::sync::Arc;

use ensemble_core::conversation::{Event, Record, RunStarted};
use ensemble_language::data::RunContext;
use ensemble_language::ensemble::{Ensemble, InputDeclaration};
use serde_json::Value;

use crate::inputs::{InputError, InputValues, list_undeclared_input_errors, resolve_inputs};
use crate::start::ready::RunArguments;

/// The arguments and context values of a run that continues another run.
pub(crate) struct CarriedInputs {
    /// The arguments with which the run starts.
    pub(crate) run_arguments: RunArguments,
    /// Values that are set after the records that both runs have.
    pub(crate) context_changes: RunContext,
}

/// Returns the inputs of the previous run for an ensemble that can declare other inputs. Values of `set` replace values of `kept`, which
/// replace earlier values. Other names of `set` must be `known`.
///
/// # Errors
///
/// All inputs that are wrong.
pub(crate) fn carry_inputs_over(
    ensemble: &Ensemble,
    before: &RunStarted,
    kept: &[Record],
    set: &InputValues,
    known: impl Fn(&str) -> bool,
) -> Result<CarriedInputs, Vec<InputError>> {
    let Some(declared) = &ensemble.inputs else {
        return Ok(CarriedInputs {
            run_arguments: previous_run_arguments(before, RunContext::default()),
            context_changes: set.values.clone(),
        });
    };
    let first = |input: &InputDeclaration| {
        let value = before.inputs.get(&input.name).or(before.context.get(&input.name));
        value.map(|value| (input.name.clone(), value.clone()))
    };
    let first: RunContext = declared.iter().filter_map(first).collect();
    let now = InputValues {
        values: inputs_after_records(ensemble, &first, kept, &set.values),
        texts: set.texts.clone(),
    };
    let strange = set.values.iter().map(|(name, _)| name).filter(|name| !known(name));
    let strange = list_undeclared_input_errors(ensemble, declared, strange);
    let now = match resolve_inputs(ensemble, &now) {
        Ok(now) if strange.is_empty() => now.unwrap_or_default(),
        Ok(_) => return Err(strange),
        Err(wrong) => return Err(wrong.into_iter().chain(strange).collect()),
    };
    let either = |name: &Arc<str>, now: &Arc<Value>| {
        let fits = |value: &&Arc<Value>| {
            ensemble
                .find_input(name)
                .is_some_and(|input| input.check_value(value).is_empty())
        };
        first.get(name).filter(fits).unwrap_or(now).clone()
    };
    let inputs = now.iter().map(|(name, value)| (name.clone(), either(name, value)));
    let set = set.values.iter();
    let set = set.map(|(name, value)| (name.clone(), now.get(name).unwrap_or(value).clone()));
    Ok(CarriedInputs {
        run_arguments: previous_run_arguments(before, inputs.collect()),
        context_changes: set.collect(),
    })
}

/// Returns the inputs after the changes of the records and of `set`.
fn inputs_after_records(ensemble: &Ensemble, first: &RunContext, kept: &[Record], set: &RunContext) -> RunContext {
    let mut now = first.clone();
    let earlier = kept.iter().filter_map(|record| match &record.event {
        Event::ContextSet(values) => Some(values),
        Event::MessageAdded(message) => Some(&message.set),
        _ => None,
    });
    let later = earlier.chain([set]).flat_map(RunContext::iter);
    for (name, value) in later.filter(|(name, _)| ensemble.find_input(name).is_some()) {
        now.insert(name.clone(), value.clone());
    }
    now
}

/// Returns the arguments of the previous run with these inputs, which are added to the context as well.
fn previous_run_arguments(before: &RunStarted, inputs: RunContext) -> RunArguments {
    let mut context = before.context.clone();
    for (name, value) in inputs.iter() {
        context.insert(name.clone(), value.clone());
    }
    RunArguments {
        input: before.input.clone(),
        context,
        inputs,
    }
}
