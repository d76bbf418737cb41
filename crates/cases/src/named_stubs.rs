//! The stubs of one agent, by the names under which a test file prepares them.

use std::sync::Arc;

use ensemble_core::request::{RequestAddress, find_most_precise_match};
use ensemble_language::cases::AgentStubs;

/// Stubs of one agent, by the addresses for which a test file prepares them.
#[derive(Debug, Clone, Default)]
pub(crate) struct StubsByAddress {
    /// For all executions without a stub of their own.
    pub(crate) of_agent: Option<AgentStubs>,
    /// For the executions that a name means: those in a part, or in a call.
    pub(crate) by_address: Vec<(Arc<str>, AgentStubs)>,
}

impl StubsByAddress {
    /// Creates stubs for all executions of an agent.
    pub(crate) fn for_all_executions(stubs: AgentStubs) -> Self {
        Self {
            of_agent: Some(stubs),
            by_address: Vec::new(),
        }
    }

    /// Returns whether nothing is prepared.
    pub(crate) fn has_no_stubs(&self) -> bool {
        self.of_agent.is_none() && self.by_address.is_empty()
    }

    /// Returns the most precise stubs for the execution with this address.
    pub(crate) fn find_stubs_at(&self, address: &RequestAddress) -> Option<&AgentStubs> {
        let by_address = self.by_address.iter().map(|(name, stubs)| (&**name, stubs));
        find_most_precise_match(by_address, address).or(self.of_agent.as_ref())
    }
}
