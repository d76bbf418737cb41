//! A record that is decided again, by its own text or by the file as it is now.

use ensemble_core::store::RunId;
use ensemble_runs::replay::{ReplayOptions, ReplayOutcome, ReplayResult};
use serde_json::{Value, json};

use crate::app::App;
use crate::reply::Failure;

/// Decides the turns of a run again: `{id, file}`. Nothing is executed, and nothing is written.
pub(super) async fn replay(app: &App, given: &Value) -> Result<Value, Failure> {
    let id = given["id"].as_str().ok_or_else(|| Failure::wrong("`id` is missing"))?;
    let options = ReplayOptions {
        ensemble: given["file"].as_str().map(str::to_owned),
        ..ReplayOptions::default()
    };
    let (id, runs) = (RunId::new(id), app.runs.runs().clone());
    let runtime = tokio::runtime::Handle::current();
    // A long record takes a while, in which the others are answered.
    let replayed = tokio::task::spawn_blocking(move || {
        runtime.block_on(async { runs.replay(runs.record(&id).await?, options).await })
    });
    let replayed = replayed.await.map_err(|_| Failure::gone("the replay has stopped"))??;
    Ok(document(&replayed))
}

fn document(replayed: &ReplayResult) -> Value {
    let compared = replayed.compared;
    match &replayed.outcome {
        ReplayOutcome::Same => json!({"outcome": "same", "compared": compared}),
        ReplayOutcome::Cut { turn } => json!({"outcome": "cut", "turn": turn, "compared": compared}),
        ReplayOutcome::Diverged(divergence) => {
            let why: Vec<String> = replayed
                .why_not()
                .into_iter()
                .map(|(agent, reason)| format!("{agent} does not run: {reason}"))
                .collect();
            json!({
                "outcome": "diverged",
                "turn": divergence.turn,
                "recorded": divergence.recorded.to_string(),
                "decided": divergence.decided.to_string(),
                "why": why,
                "compared": compared,
            })
        }
    }
}
