//! The files around an ensemble.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::model_costs::ModelCosts;
use super::script_text::ScriptText;
use crate::condition::ValueType;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble, ModelProfile};
use crate::loader::FixResolution;

/// The top-level keys of an agent's output, if they are known.
pub type OutputKeys = BTreeSet<String>;

/// A source of the facts outside of the ensemble that checks need: configuration, scripts, nested ensembles and files.
pub trait CheckContext {
    /// Returns the profiles of the configuration files in search order. Returns `None` if the files cannot be read.
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]>;
    /// Returns the top-level keys of each agent's output, if its script or its model defines them.
    fn output_keys(&self, ensemble: &Ensemble, agent: &Agent) -> Option<OutputKeys>;
    /// Returns the type of an agent's output, if its script or its model defines it.
    fn output_type(&self, ensemble: &Ensemble, agent: &Agent) -> Option<ValueType> {
        let _ = (ensemble, agent);
        None
    }
    /// Returns the keys of an agent's output that its script or model writes only as `true`, and not in every output.
    fn always_true_keys(&self, ensemble: &Ensemble, agent: &Agent) -> OutputKeys {
        let _ = (ensemble, agent);
        OutputKeys::new()
    }
    /// Returns the text of a Rhai script that an agent or a tool names; `None` if it is no Rhai script, or cannot be
    /// read.
    fn find_script(&self, script: &str) -> Option<Arc<ScriptText>> {
        let _ = script;
        None
    }
    /// Returns the costs of the models of an ensemble that an agent or a tool names, also of the ensembles that it names. Returns
    /// `None` if they are not known.
    fn nested_model_costs(&self, named: &str) -> Option<Arc<ModelCosts>> {
        let _ = named;
        None
    }
    /// Returns whether the caller executes no agent of the ensemble, and lets no agent be executed.
    fn executes_nothing(&self) -> bool {
        false
    }
    /// Returns whether no operator can answer a question.
    fn has_no_operator(&self) -> bool {
        false
    }
    /// Returns whether the fixes of findings are resolved: `Resolved` if the caller shows them.
    fn fixes(&self) -> FixResolution {
        FixResolution::Resolved
    }
    /// Returns the findings about the files that agents name.
    fn check_files(&self, ensemble: &Ensemble) -> Vec<Finding>;
}

/// A check context without files: only the ensemble is checked.
pub(super) struct NoFileContext;

impl CheckContext for NoFileContext {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        None
    }

    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<OutputKeys> {
        None
    }

    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}
