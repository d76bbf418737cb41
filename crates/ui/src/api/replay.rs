//! A record that is decided again, by its own text or by the file as it is now.

use std::sync::Arc;

use ensemble_runs::replay::{ReplayOptions, ReplayOutcome, ReplayResult};
use serde_json::{Value, json};

use super::actions::parse_run_id;
use super::usable_ensemble::checked_file_argument;
use crate::app::UiServerState;
use crate::reply::ApiFailure;

/// Repeats the decisions about all turns of a run: `{id, file}`. Executes and writes nothing.
pub(super) async fn replay_decisions(app: &Arc<UiServerState>, given: &Value) -> Result<Value, ApiFailure> {
    let id = parse_run_id(given)?;
    let options = ReplayOptions {
        ensemble: checked_file_argument(app, given).await?,
        ..ReplayOptions::default()
    };
    let runs = app.runs.runs().clone();
    let runtime = tokio::runtime::Handle::current();
    // A long record takes a while, in which the others are answered.
    let replayed = tokio::task::spawn_blocking(move || {
        runtime.block_on(async { runs.replay_record(runs.resolve_record(&id).await?, options).await })
    });
    let replayed = replayed
        .await
        .map_err(|_| ApiFailure::unavailable("the replay has stopped"))??;
    Ok(replay_to_json(&replayed))
}

/// Converts the result of a replay to JSON.
fn replay_to_json(replayed: &ReplayResult) -> Value {
    let compared = replayed.equal_decisions;
    match &replayed.outcome {
        ReplayOutcome::Same => json!({"outcome": "same", "compared": compared}),
        ReplayOutcome::CutShort { turn } => json!({"outcome": "cut", "turn": turn, "compared": compared}),
        ReplayOutcome::Diverged(divergence) => {
            let idle_reasons: Vec<String> = replayed
                .list_missing_agent_reasons()
                .into_iter()
                .map(|(agent, reason)| format!("{agent} does not run: {reason}"))
                .collect();
            json!({
                "outcome": "diverged",
                "turn": divergence.turn,
                "recorded": divergence.recorded.to_string(),
                "decided": divergence.decided.to_string(),
                "why": idle_reasons,
                "compared": compared,
            })
        }
    }
}
