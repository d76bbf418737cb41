//! What agents that are no scripts can put out, as far as the files tell.
//!
//! Invariant: it is `None` where the keys can be any.

use std::sync::Arc;

use ensemble_agents::agent::output::reply::output_of;
use ensemble_language::condition::Type;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, ModelChoice, Profile, Reply, Simulated};
use ensemble_scripts::WrittenOutput;

/// The possible outputs of the agent; `None` where they may be any.
pub(crate) fn written(
    ensemble: &Ensemble,
    configured: &[(Arc<str>, Profile)],
    agent: &Agent,
) -> Option<Vec<WrittenOutput>> {
    match &agent.kind {
        AgentKind::Llm(llm) => {
            let ModelChoice::Profile(name) = &llm.model else {
                return None;
            };
            let profiles = ensemble.model_profiles.iter().chain(configured);
            let (_, profile) = profiles.into_iter().find(|(known, _)| known == name)?;
            of_replies(profile)
        }
        // Whoever types an answer may type an object; of choices it is known what they are.
        AgentKind::Input(input) if !input.choices.is_empty() && input.responses.is_none() => {
            Some(of_texts(input.choices.iter().chain(&input.default)))
        }
        AgentKind::Input(_) | AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
    }
}

/// Returns the outputs of a simulated model, if its replies are texts.
fn of_replies(profile: &Profile) -> Option<Vec<WrittenOutput>> {
    let Some(Simulated::Replies(replies)) = &profile.simulated else {
        return None;
    };
    let texts = replies.iter().filter_map(|reply| match reply {
        Reply::Text(text) => Some(text),
        // One that calls tools is not the last word.
        Reply::Error(_) | Reply::Calls { .. } => None,
    });
    let fails = replies.iter().any(|reply| matches!(reply, Reply::Error(_)));
    (profile.fallback.is_none() || !fails).then(|| of_texts(texts))
}

fn of_texts<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<WrittenOutput> {
    let entries = |text: &String| {
        output_of(text)
            .into_iter()
            .map(|(key, value)| (key, Type::of_value(&value)))
    };
    texts.map(|text| entries(text).collect()).collect()
}
