//! What an execution of an agent reads beside the outputs of its dependencies, as far as its templates tell.

use crate::ensemble::{Agent, AgentKind, Ensemble, Memory};
use crate::template;

/// What an execution reads beside the input, the outputs of its dependencies and its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// The latest output of every other agent: an LLM agent whose prompt uses no variable.
    pub all_outputs: bool,
    /// Its own latest output too, since the agent does not remember it.
    pub own_output: bool,
}

/// What each agent reads, in declaration order.
pub(super) fn of_agents(ensemble: &Ensemble) -> Vec<Reading> {
    ensemble.agents.iter().map(of_agent).collect()
}

fn of_agent(agent: &Agent) -> Reading {
    let AgentKind::Llm(llm) = &agent.kind else {
        return Reading::default();
    };
    let all_outputs = !llm.prompt.as_deref().is_some_and(template::uses_variables);
    Reading {
        all_outputs,
        own_output: all_outputs && llm.memory == Memory::None,
    }
}
