//! Runners in the place of agents, for tests of ensembles.
//!
//! Invariant: the run layer only asks for them, and decides nothing.

use std::sync::Arc;

use ensemble_agents::agent::kinds::generator::ResponseGenerator;
use ensemble_agents::agent::mcp::McpServerStub;
use ensemble_core::runner::Runner;
use ensemble_language::ensemble::{Agent, PreparedReply, ToolDefinition, ToolReference};

/// Gives runners that perform agents in the place of the agents' own.
///
/// They decide whether an agent that needs something from outside of the program may run itself.
pub trait AgentReplacements: Send + Sync {
    /// Returns the runner of the whole agent, all its parts included.
    fn find_whole_agent_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>>;

    /// Returns the runner of an execution, or of one part of it.
    fn find_execution_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>>;

    /// Returns the runner of an agent that has no stand-in and needs this from outside; `None`: its own.
    fn find_required_replacement(&self, agent: &Agent, needs: String) -> Option<Arc<dyn Runner>>;

    /// Returns the model profile that answers for this input agent or script agent.
    fn find_responder_profile(&self, _agent: &Agent) -> Option<Arc<str>> {
        None
    }

    /// Returns the generator that answers for this input agent or script agent.
    fn find_response_generator(&self, _agent: &Agent) -> Option<Arc<dyn ResponseGenerator>> {
        None
    }

    /// Returns whether a stub answers for the person of this input agent, instead of its `responses`.
    fn replaces_operator(&self, _agent: &Agent) -> bool {
        false
    }

    /// Returns the replies that replace the model of this LLM agent. The agent itself runs.
    fn find_reply_stub(&self, _agent: &Agent) -> Option<Arc<dyn ReplyStub>> {
        None
    }

    /// Returns whether what replaces agents can have costs, whatever the prices of the models are.
    fn can_have_costs(&self) -> bool {
        false
    }

    /// Returns whether the files of agents that lack a replacement are checked as before a run, although the agents do not run.
    fn checks_unreplaced_files(&self) -> bool {
        false
    }

    /// Wraps the runner of an execution, or of one part of it.
    fn wrap_execution_runner(&self, _agent: &Agent, runner: Arc<dyn Runner>) -> Arc<dyn Runner> {
        runner
    }

    /// Wraps the runner of a script tool of an agent, which needs this from outside.
    fn wrap_script_tool(&self, _agent: &str, _tool: &str, runner: Arc<dyn Runner>, _needs: Option<String>) -> Arc<dyn Runner> {
        runner
    }

    /// Returns the stub of an MCP server that an agent uses: of one tool of the server, or of all. Returns `None` if the
    /// server itself is used.
    fn find_server_stub(&self, _agent: &Agent, _used: &ToolReference) -> Option<Arc<dyn McpServerStub>> {
        None
    }

    /// Returns whether the run never starts this tool itself.
    fn never_starts_tool(&self, _name: &str, _tool: &ToolDefinition) -> bool {
        false
    }

    /// Returns the stand-ins of the ensemble that this agent stands for.
    fn for_nested_agent(&self, agent: &str) -> Arc<dyn AgentReplacements>;
}

/// A source of replies of a model that is not called.
pub trait ReplyStub: Send + Sync {
    /// Finds the reply to a request of an execution, both counted from 1.
    ///
    /// # Errors
    /// There is no such reply; in words.
    fn find_reply(&self, execution: u32, request: u64) -> Result<PreparedReply, String>;
}
