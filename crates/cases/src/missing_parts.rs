//! What a case has not prepared: stubs, replies and results of tools.
//!
//! Invariant: each missing part is listed once.

use std::sync::{Arc, Mutex, PoisonError};

/// Execution for which a case has no stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingStub {
    /// The agent, with the agents around it: `outer.inner`.
    pub agent: Arc<str>,
    /// The number of the execution.
    pub execution: u32,
    /// What is missing.
    pub missing_part: MissingPart,
}

/// Kind of a missing part: stub, execution, part, address, reply, or tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingPart {
    /// There is no stub, and the agent itself needs this.
    Stub(String),
    /// The list of stubs has only so many.
    Execution(usize),
    /// No part has this key.
    Part(Arc<str>),
    /// The stubs of other parts and calls exist, but none at this address.
    Address(Arc<str>),
    /// The recorded run has no such execution.
    Record,
    /// The stub has only so many replies of the model.
    Reply(usize),
    /// A tool of the agent has no result, and itself needs this.
    Tool {
        /// The tool.
        tool: Arc<str>,
        /// What it needs.
        needs: String,
    },
}

/// Collector of the missing stubs of a case. Each is collected once.
#[derive(Debug, Default)]
pub(crate) struct MissingStubCollector(Mutex<Vec<MissingStub>>);

impl MissingStubCollector {
    /// Adds a missing part of an execution, unless it is known.
    pub(crate) fn add(&self, agent: &Arc<str>, execution: u32, missing_part: MissingPart) {
        let missing = MissingStub {
            agent: agent.clone(),
            execution,
            missing_part,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&missing) {
            all.push(missing);
        }
    }

    /// Returns the missing stubs in the order in which they were needed.
    pub(crate) fn list_missing_stubs(&self) -> Vec<MissingStub> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
