//! The ensemble that is checked, with the facts that several checks use.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::check_graph::CheckGraph;
use super::context::CheckContext;
use super::output_keys::OutputKeyCache;
use super::usable_profiles::UsableProfiles;
use crate::condition::ValueType;
use crate::diagnostic::{Finding, FindingCode};
use crate::ensemble::{Agent, Ensemble};

/// An ensemble under check, with values that several checks share and that are computed on first use.
pub(super) struct CheckSubject<'c> {
    pub(super) ensemble: &'c Ensemble,
    pub(super) graph: &'c CheckGraph<'c>,
    /// The files around the ensemble.
    pub(super) context: &'c dyn CheckContext,
    /// The keys of the agents' outputs.
    pub(super) outputs: RefCell<OutputKeyCache<'c>>,
    types: RefCell<BTreeMap<Arc<str>, Option<ValueType>>>,
    profiles: OnceCell<UsableProfiles<'c>>,
    /// The findings of the checks so far.
    findings: RefCell<Vec<Finding>>,
}

impl<'c> CheckSubject<'c> {
    /// Creates the subject without findings and computed values.
    pub(super) fn new(graph: &'c CheckGraph<'c>, context: &'c dyn CheckContext) -> Self {
        Self {
            ensemble: graph.ensemble,
            graph,
            context,
            outputs: RefCell::new(OutputKeyCache::new(graph, context)),
            types: RefCell::default(),
            profiles: OnceCell::new(),
            findings: RefCell::default(),
        }
    }

    /// Returns the type of an agent's output, as far as its files define the type. Computes the type once for each agent.
    pub(super) fn output_type(&self, agent: &Agent) -> Option<ValueType> {
        let mut types = self.types.borrow_mut();
        let type_entry = types.entry(agent.name.clone());
        type_entry
            .or_insert_with(|| self.context.output_type(self.ensemble, agent))
            .clone()
    }

    /// Returns the profiles of the ensemble and of the configuration.
    pub(super) fn usable_profiles(&self) -> &UsableProfiles<'c> {
        let configured = self.context.configured_profiles().unwrap_or_default();
        self.profiles
            .get_or_init(|| UsableProfiles::collect(self.ensemble, configured))
    }

    /// Adds the findings of a check.
    pub(super) fn add_findings(&self, findings: Vec<Finding>) {
        self.findings.borrow_mut().extend(findings);
    }

    /// Returns whether an earlier check has reported one of these codes.
    pub(super) fn has_reported_code(&self, codes: &[FindingCode]) -> bool {
        self.findings
            .borrow()
            .iter()
            .any(|finding| codes.contains(&finding.code))
    }

    /// Returns whether an earlier check has reported the code of this finding at the same location.
    pub(super) fn has_reported_at(&self, finding: &Finding) -> bool {
        let findings = self.findings.borrow();
        findings
            .iter()
            .any(|other| other.code == finding.code && other.at == finding.at)
    }

    /// Returns the findings of all checks that have run.
    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings.into_inner()
    }
}
