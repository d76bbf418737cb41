//! Possible outputs of agents that are no scripts, as far as the files declare them.
//!
//! Invariant: the outputs are `None` if any key is possible.

use std::sync::Arc;

use ensemble_core::reply::parse_reply_without_schema;
use ensemble_language::condition::ValueType;
use ensemble_language::ensemble::{
    Agent, AgentKind, Ensemble, ModelChoice, ModelProfile, SimulatedReply, SimulatedReplySource,
};
use ensemble_scripts::LiteralOutput;

/// Returns the possible outputs of an agent with simulated replies or with choices. Returns `None` if any output is possible.
pub(crate) fn find_possible_outputs(
    ensemble: &Ensemble,
    configured: &[(Arc<str>, ModelProfile)],
    agent: &Agent,
) -> Option<Vec<LiteralOutput>> {
    match &agent.kind {
        AgentKind::Llm(llm) => {
            let ModelChoice::Profile(name) = &llm.model else {
                return None;
            };
            let profiles = ensemble.model_profiles.iter().chain(configured);
            let (_, profile) = profiles.into_iter().find(|(known, _)| known == name)?;
            simulated_outputs(profile)
        }
        // Whoever types an answer may type an object; of choices it is known what they are.
        AgentKind::Input(input) if !input.choices.is_empty() && input.responses.is_none() => {
            Some(parse_text_outputs(input.choices.iter().chain(&input.default)))
        }
        AgentKind::Input(_) | AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
    }
}

/// Returns the outputs of a simulated model. Returns `None` if its replies are not a list of texts.
fn simulated_outputs(profile: &ModelProfile) -> Option<Vec<LiteralOutput>> {
    let Some(SimulatedReplySource::Replies(replies)) = &profile.simulated else {
        return None;
    };
    let texts = replies.iter().filter_map(|reply| match reply {
        SimulatedReply::Text(text) => Some(text),
        // One that calls tools is not the last word.
        SimulatedReply::Error(_) | SimulatedReply::Calls { .. } => None,
    });
    let fails = replies.iter().any(|reply| matches!(reply, SimulatedReply::Error(_)));
    (profile.fallback.is_none() || !fails).then(|| parse_text_outputs(texts))
}

/// Parses each text as a reply, and returns the types of its keys.
fn parse_text_outputs<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<LiteralOutput> {
    let entries = |text: &String| {
        parse_reply_without_schema(text)
            .into_iter()
            .map(|(key, value)| (key, ValueType::exact_value_type(&value)))
    };
    texts.map(|text| entries(text).collect()).collect()
}
