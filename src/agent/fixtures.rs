//! Plain agents and executions for the tests of runners.

use std::sync::Arc;

use super::{Execution, Notes};
use crate::data::{Context, JsonMap};
use crate::ensemble::{Agent, AgentKind, Conversation, Declared, Dependency, Ending, OnError, Retry};

/// An agent that listens to those.
pub(super) fn agent(name: &str, kind: AgentKind, listens_to: &[&str]) -> Agent {
    let edge = |(at, name): (usize, &&str)| Dependency {
        agent_name: (*name).into(),
        condition: None,
        max_executions: None,
        requires_all: true,
        feedback: false,
        on: Ending::Success,
        declared: Declared::DependsOn(at),
    };
    Agent {
        name: name.into(),
        description: None,
        kind,
        config: JsonMap::new(),
        dependencies: listens_to.iter().enumerate().map(edge).collect(),
        conversation: Conversation::default(),
        output_schema: None,
        timeout: None,
        retry: Retry::default(),
        on_error: OnError::Fail,
    }
}

/// The first attempt of that execution, with an input and nothing else.
pub(super) fn execution(agent_name: &str, execution: u32) -> Execution {
    Execution {
        run_id: "run".into(),
        agent_name: agent_name.into(),
        execution,
        attempt: 1,
        turn_count: 3,
        input: "the input".into(),
        context: Arc::new(Context::default()),
        dependencies: Vec::new(),
        parameters: Arc::default(),
        request: None,
        thread: Arc::default(),
        requests_made: 0,
        lost_attempts: 0,
        tokens_left: None,
        last_failure: None,
        notes: Notes::default(),
    }
}
