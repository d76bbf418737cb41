//! The files around an ensemble.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::script::ScriptText;
use crate::condition::Type;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble, Profile};
use crate::loader::Fixes;

/// The top-level keys of an agent's output, if they are known.
pub type OutputKeys = BTreeSet<String>;

/// The files around an ensemble, as far as the caller knows them.
pub trait CheckContext {
    /// The profiles of the configuration files, in the order of the search; `None` if the files cannot be read.
    fn configured(&self) -> Option<&[(Arc<str>, Profile)]>;
    /// The top-level keys of each agent's output, if its script or its model defines them.
    fn output_keys(&self, ensemble: &Ensemble, agent: &Agent) -> Option<OutputKeys>;
    /// The type of an agent's output, if its script or its model defines it.
    fn output_type(&self, ensemble: &Ensemble, agent: &Agent) -> Option<Type> {
        let _ = (ensemble, agent);
        None
    }
    /// The keys of an agent's output that its script or its model writes only as `true`, and not with every output.
    fn latched_keys(&self, ensemble: &Ensemble, agent: &Agent) -> OutputKeys {
        let _ = (ensemble, agent);
        OutputKeys::new()
    }
    /// The text of a Rhai script that an agent or a tool names; `None` if it is no Rhai script, or cannot be read.
    fn script(&self, script: &str) -> Option<Arc<ScriptText>> {
        let _ = script;
        None
    }
    /// The ensemble that an agent or a tool names, if it is there and has no errors.
    fn inner(&self, named: &str) -> Option<Arc<Ensemble>> {
        let _ = named;
        None
    }
    /// Returns whether no operator can answer a question.
    fn nobody_answers(&self) -> bool {
        false
    }
    /// Returns whether the fixes of findings are resolved: whether the caller shows them.
    fn fixes(&self) -> Fixes {
        Fixes::Resolved
    }
    /// The findings about the files that agents name.
    fn files(&self, ensemble: &Ensemble) -> Vec<Finding>;
}

/// No files are known: only the ensemble is checked.
pub(super) struct NoFiles;

impl CheckContext for NoFiles {
    fn configured(&self) -> Option<&[(Arc<str>, Profile)]> {
        None
    }

    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<OutputKeys> {
        None
    }

    fn files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}
