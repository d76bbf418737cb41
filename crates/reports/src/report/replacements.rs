//! What stood in for models, agents and people in a run, in words that all reports share.

use ensemble_core::conversation::RunStarted;

/// Returns a word and a sentence for each kind of stand-in that the run had.
pub(crate) fn describe_replacements(started: &RunStarted) -> Vec<(&'static str, String)> {
    let mut replacements = Vec::new();
    if !started.simulated.is_empty() {
        let agents = started.simulated.join(", ");
        replacements.push(("simulated", format!("no model was called for {agents}")));
    }
    if !started.stubs.is_empty() {
        let agents: Vec<&str> = started.stubs.keys().map(|agent| &**agent).collect();
        replacements.push(("stubs", format!("stubs replaced {}", agents.join(", "))));
    }
    if !started.responders.is_empty() {
        let all = started.responders.iter();
        let all: Vec<String> = all.map(|(agent, profile)| format!("{agent} ({profile})")).collect();
        replacements.push(("responders", format!("models answered for {}", all.join(", "))));
    }
    replacements
}
