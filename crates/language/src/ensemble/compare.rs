//! Compares an agent of two ensembles.

use std::sync::Arc;

use super::{Agent, AgentKind, Ensemble, ModelChoice, Profile, Responses};

impl Ensemble {
    /// Whether the agent would behave the same in both ensembles, according to their texts. False if one does not have
    /// it.
    pub fn has_same_agent(&self, other: &Self, name: &str) -> bool {
        match (self.agent(name), other.agent(name)) {
            (Some(one), Some(there)) => {
                let described = Agent {
                    description: there.description.clone(),
                    ..one.clone()
                };
                described == *there && self.profiles_of(one) == other.profiles_of(there)
            }
            _ => false,
        }
    }

    /// The profiles of the file that the agent uses, including fallbacks, without their prices and rate limits.
    fn profiles_of(&self, agent: &Agent) -> Vec<Profile> {
        let mut next: Option<&Arc<str>> = match &agent.kind {
            AgentKind::Llm(llm) => match &llm.model {
                ModelChoice::Profile(name) => Some(name),
                ModelChoice::Model { .. } | ModelChoice::Acp(_) => None,
            },
            AgentKind::Input(input) => match &input.responses {
                Some(Responses::Profile(name)) => Some(name),
                _ => None,
            },
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => None,
        };
        let mut found = Vec::new();
        // This also ends a cycle of fallbacks.
        while found.len() <= self.model_profiles.len()
            && let Some(name) = next
            && let Some((_, profile)) = self.model_profiles.iter().find(|(known, _)| known == name)
        {
            found.push(Profile {
                cost: None,
                rate_limit: None,
                without_prompt_cache: false,
                ..profile.clone()
            });
            next = profile.fallback.as_ref();
        }
        found
    }
}
