//! What must be the same on the engine and here.

use std::sync::Arc;

use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::StoredRun;
use ensemble_language::plan::Plan;
use ensemble_runs::{EnsembleRef, RunOptions, Runs};
use serde_json::{Value, json};

/// The state that the records give, and whether they are numbered without gaps.
pub(crate) fn folded(plan: &Arc<Plan>, records: &[Record]) -> ConversationState {
    let mut state = ConversationState::new(plan.clone());
    for (seq, record) in (0..).zip(records) {
        assert_eq!(record.seq, seq, "the records are numbered without gaps");
        state.apply_record(record).expect("a legal record");
    }
    state
}

/// The turns, who failed in them, the outcome, and the context: all that must be the same.
pub(crate) fn told(state: &ConversationState, records: &[Record]) -> Value {
    let turns = records.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(json!(turn)),
        Event::TurnFinished(turn) => Some(json!(turn)),
        _ => None,
    });
    let mut ends: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::ExecutionFinished(end) => {
                let failure = end.failure().map(|failure| failure.error.clone());
                Some(format!("{}/{} {} {failure:?}", end.agent, end.execution, end.attempt))
            }
            _ => None,
        })
        .collect();
    ends.sort_unstable();
    json!({
        "turns": turns.collect::<Vec<_>>(),
        "ends": ends,
        "ended": state.run_end(),
        "context": **state.context(),
    })
}

/// The same ensemble, run here.
pub(crate) async fn here(runs: &Runs, file: &str) -> Value {
    let run = runs
        .start_run(EnsembleRef::from_file_or_name(file), RunOptions::default())
        .await
        .expect("it starts");
    let stored = run.stored_run().clone();
    let state = run.wait_and_close().await.expect("it ends").state;
    let records = stored.read_journal().await.expect("its log can be read").records;
    told(&state, &records)
}

/// The runs inside a run that was fetched, with what they did: name, told, and the runs inside.
pub(crate) fn nested(run: Arc<dyn StoredRun>, runs: &Runs) -> BoxFuture<'_, Value> {
    Box::pin(async move {
        let mut inside = serde_json::Map::new();
        for name in run.list_nested_run_names().await.expect("names") {
            let inner = run
                .find_nested_run(&name)
                .await
                .expect("it can be read")
                .expect("it is there");
            let records = inner.read_journal().await.expect("it can be read").records;
            let Event::RunStarted(started) = &records[0].event else {
                panic!("{name} does not start");
            };
            let ready = runs.prepare_run(
                EnsembleRef::from_file_or_name(&*started.ensemble_file),
                RunOptions::default(),
            );
            let plan = ready.expect("the ensemble").prepared_ensemble().plan.clone();
            let state = folded(&plan, &records);
            let told = told(&state, &records);
            let (input, inputs, usage) = (&started.input, &started.inputs, json!(started.context));
            let started = json!([
                started.run_id.split_once('/').map(|(_, place)| place),
                input,
                inputs,
                usage
            ]);
            inside.insert(name, json!([started, told, nested(inner, runs).await]));
        }
        Value::Object(inside)
    })
}

/// Without the numbers of attempts: an attempt that was lost with its worker is one more.
pub(crate) fn without_attempts(mut told: Value) -> Value {
    let ends = told["ends"].as_array().expect("a list").clone();
    let ends = ends.iter().map(|end| end.as_str().expect("a text"));
    told["ends"] = ends
        .map(|end| end.splitn(3, ' ').filter(|word| word.parse::<u32>().is_err()).collect())
        .collect::<Vec<String>>()
        .into();
    told
}
