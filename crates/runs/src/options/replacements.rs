//! Runners in the place of agents, for tests of ensembles.
//!
//! Invariant: the run layer only asks for them, and decides nothing.

use std::sync::Arc;

use ensemble_core::runner::Runner;
use ensemble_language::ensemble::Agent;

/// Gives runners that perform agents in the place of the agents' own.
///
/// They decide whether an agent that needs something from outside of the program may run itself.
pub trait AgentReplacements: Send + Sync {
    /// The runner of the whole agent, all its parts included.
    fn whole_agent_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>>;

    /// The runner of an execution, or of one part of it.
    fn find_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>>;

    /// The runner of an agent that has no stand-in and needs this from outside; `None`: its own.
    fn missing_agent_runner(&self, agent: &Agent, needs: String) -> Option<Arc<dyn Runner>>;

    /// The model profile that answers for this input agent or script agent.
    fn find_responder(&self, _agent: &Agent) -> Option<Arc<str>> {
        None
    }

    /// The stand-ins of the ensemble that this agent stands for.
    fn for_nested_agent(&self, agent: &str) -> Arc<dyn AgentReplacements>;
}
