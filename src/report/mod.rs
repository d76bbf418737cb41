//! How runs and problems are shown: the only rooms that put words on paper.
//!
//! **Invariant:** a reporter is told of an event after it has been committed, and changes nothing.

pub mod diagnostics;
mod events;
pub mod exploration;
mod form;
mod github;
pub mod graph;
mod human;
mod junit;
mod place;
mod result;
mod sarif;
mod stage;
pub mod story;
mod window;
mod xml;

use std::collections::HashMap;
use std::sync::Arc;

use crate::conversation::{ConversationState, Record};
use crate::data::Usage;

pub use events::Events;
pub use form::{CheckedFile, Form, Totals};
pub use github::Github;
pub use human::{Human, Verbosity, count};
pub use junit::Junit;
pub use result::RunResult;
pub use sarif::{Rule, Sarif};
pub use stage::{Showing, Stage};

/// Is told of every event after it has been committed and applied.
pub trait Reporter {
    /// The event has happened, and this is the state after it.
    fn report(&mut self, record: &Record, state: &ConversationState);
}

/// Says nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn report(&mut self, _record: &Record, _state: &ConversationState) {}
}

/// What each agent has used of models, in the order of the file; agents that asked none are left out.
pub(crate) fn usage_by_agent(state: &ConversationState) -> Vec<(&str, Usage)> {
    let mut used: HashMap<Arc<str>, Usage> = HashMap::new();
    for entry in state.history() {
        if let Some(usage) = entry.usage {
            let sum = used.entry(Arc::clone(&entry.agent_name)).or_default();
            *sum = *sum + usage;
        }
    }
    let plan = state.plan();
    let names = plan.ids().map(|id| &**plan.name(id));
    names.filter_map(|name| Some((name, used.remove(name)?))).collect()
}
