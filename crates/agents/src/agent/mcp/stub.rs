//! Servers whose tools the stubs of a test replace.
//!
//! Invariant: a tool that has a runner of a stub is never called at its server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{ElicitationContext, McpServerHandle, ServerTool};
use crate::agent::tools::result::{ToolCallResult, timeout_message, tool_end_from_outcome};
use crate::agent::{ExecutionInput, Runner};
use ensemble_core::thread::ToolCallEnd;
use ensemble_language::data::JsonMap;

/// Stub for some or all tools of a server.
pub trait McpServerStub: Send + Sync {
    /// Lists the names of the tools of a server that is not started. Returns `None` if the real server lists its tools.
    fn stubbed_tool_names(&self) -> Option<Vec<Arc<str>>>;

    /// Finds the runner that produces the results of a tool. Its executions have the arguments as parameters.
    fn find_tool_runner(&self, tool: &str) -> Option<Arc<dyn Runner>>;
}

/// Server with a stub, and the real server if it can be started.
pub(super) struct StubbedServer {
    pub(super) stub: Arc<dyn McpServerStub>,
    pub(super) server: Option<Arc<McpServerHandle>>,
}

impl StubbedServer {
    /// Lists the tools of the real server, or the names in the stub without descriptions.
    pub(super) async fn list_tools(
        &self,
        limit: Duration,
        execution: &ExecutionInput,
    ) -> Result<Arc<[Arc<ServerTool>]>, String> {
        match (self.stub.stubbed_tool_names(), &self.server) {
            (None, Some(server)) => server.list_tools(limit, execution).await,
            (names, _) => Ok(names.unwrap_or_default().into_iter().map(stubbed_tool).collect()),
        }
    }

    /// Calls the stub of the tool. Without a stub, calls the real server.
    pub(super) async fn call_tool(
        &self,
        tool: &ServerTool,
        arguments: JsonMap,
        limit: Duration,
        asking: &ElicitationContext<'_>,
    ) -> ToolCallResult {
        let Some(runner) = self.stub.find_tool_runner(&tool.name) else {
            return match &self.server {
                Some(server) => server.call_tool(tool, arguments, limit, asking).await,
                None => ToolCallEnd::Error(format!("there is no tool `{}`", tool.name)).into(),
            };
        };
        let execution = ExecutionInput {
            parameters: Arc::new(arguments),
            origin: asking.origin.clone(),
            ..asking.execution.clone()
        };
        match tokio::time::timeout(limit, runner.execute_attempt(execution)).await {
            Ok(outcome) => tool_end_from_outcome(outcome).into(),
            Err(_) => ToolCallEnd::Error(timeout_message(limit)).into(),
        }
    }
}

/// Creates a tool that accepts all arguments, for a server that is not started.
fn stubbed_tool(name: Arc<str>) -> Arc<ServerTool> {
    Arc::new(ServerTool {
        description: String::new(),
        parameters: json!({"type": "object", "additionalProperties": true}),
        output_schema: None,
        only_reads: false,
        name,
    })
}
