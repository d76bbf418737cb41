//! The descriptions of stubs and simulations in a run, which all reports share.

use ensemble_core::conversation::RunStarted;

/// Describes the stubs and simulations of the run: a word and a sentence for each kind.
pub(crate) fn describe_replacements(started: &RunStarted) -> Vec<(&'static str, String)> {
    let mut replacements = Vec::new();
    if !started.simulated.is_empty() {
        let agents = started.simulated.join(", ");
        let uses = match started.simulated.len() {
            1 => "uses a simulated model",
            _ => "use simulated models",
        };
        replacements.push(("simulated", format!("{agents} {uses}")));
    }
    if !started.stubs.is_empty() {
        let agents: Vec<&str> = started.stubs.keys().map(|agent| &**agent).collect();
        replacements.push(("stubs", format!("stubs replaced {}", agents.join(", "))));
    }
    let all = || started.responders.iter();
    let is_generator = |profile: &str| profile == RunStarted::GENERATOR_RESPONDER;
    let models: Vec<String> = all()
        .filter(|(_, profile)| !is_generator(profile))
        .map(|(agent, profile)| format!("{agent} ({profile})"))
        .collect();
    if !models.is_empty() {
        replacements.push(("responders", format!("models answered for {}", models.join(", "))));
    }
    let generators: Vec<&str> = all()
        .filter(|(_, profile)| is_generator(profile))
        .map(|(agent, _)| &**agent)
        .collect();
    if !generators.is_empty() {
        let agents = generators.join(", ");
        replacements.push(("responders", format!("generators of the program answered for {agents}")));
    }
    replacements
}
