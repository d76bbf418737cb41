//! Runners that replace agents, for tests of ensembles.
//!
//! Invariant: the run layer only requests replacements, and does not decide about them.

use std::sync::Arc;

use ensemble_agents::agent::kinds::generator::ResponseGenerator;
use ensemble_agents::agent::mcp::McpServerStub;
use ensemble_core::runner::Runner;
use ensemble_language::ensemble::{Agent, SimulatedReply, ToolDefinition, ToolReference};

/// A source of runners that replace agents. The source also decides whether an agent without a replacement can run itself.
pub trait AgentReplacements: Send + Sync {
    /// Returns the runner that replaces a whole agent, including all its parts.
    fn find_whole_agent_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>>;

    /// Returns the runner that replaces one execution of the agent, or one part of the execution.
    fn find_execution_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>>;

    /// Returns the runner of an agent without a stub that needs an external resource. `needs` names the resource. Returns `None` if the
    /// agent runs itself.
    fn find_required_replacement(&self, agent: &Agent, needs: String) -> Option<Arc<dyn Runner>>;

    /// Returns the model profile that answers for this input agent or script agent.
    fn find_responder_profile(&self, _agent: &Agent) -> Option<Arc<str>> {
        None
    }

    /// Returns the generator that answers for this input agent or script agent.
    fn find_response_generator(&self, _agent: &Agent) -> Option<Arc<dyn ResponseGenerator>> {
        None
    }

    /// Returns whether a stub answers the questions of this input agent, instead of its `responses`.
    fn replaces_operator(&self, _agent: &Agent) -> bool {
        false
    }

    /// Returns the replies that replace the model of this LLM agent, which runs itself.
    fn find_reply_stub(&self, _agent: &Agent) -> Option<Arc<dyn ReplyStub>> {
        None
    }

    /// Returns whether the replacements can have costs, independent of the prices of models.
    fn can_have_costs(&self) -> bool {
        false
    }

    /// Returns whether the files of agents without a replacement are checked as before a run, although the agents do not run.
    fn checks_unreplaced_files(&self) -> bool {
        false
    }

    /// Wraps the runner of an execution, or of one part of it.
    fn wrap_execution_runner(&self, _agent: &Agent, runner: Arc<dyn Runner>) -> Arc<dyn Runner> {
        runner
    }

    /// Wraps the runner of a script tool of an agent. `needs` names the external resource that the tool requires.
    fn wrap_script_tool(
        &self,
        _agent: &str,
        _tool: &str,
        runner: Arc<dyn Runner>,
        _needs: Option<String>,
    ) -> Arc<dyn Runner> {
        runner
    }

    /// Returns the stub of an MCP server that an agent uses: of one tool, or of the whole server. Returns `None` if the server itself is
    /// used.
    fn find_server_stub(&self, _agent: &Agent, _used: &ToolReference) -> Option<Arc<dyn McpServerStub>> {
        None
    }

    /// Returns whether the run never starts this tool itself.
    fn never_starts_tool(&self, _name: &str, _tool: &ToolDefinition) -> bool {
        false
    }

    /// Returns the replacements for the nested ensemble of this agent.
    fn for_nested_agent(&self, agent: &str) -> Arc<dyn AgentReplacements>;
}

/// A source of replies that replaces the calls of a model.
pub trait ReplyStub: Send + Sync {
    /// Finds the reply to a request of an execution, both counted from 1.
    ///
    /// # Errors
    ///
    /// There is no such reply.
    fn find_reply(&self, execution: u32, request: u64) -> Result<SimulatedReply, String>;
}
