//! Checks of nested ensembles: their findings, and the errors that keep a run of the outer ensemble from starting.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ensemble_language::check::{ModelCosts, collect_model_costs};
use ensemble_language::condition::ValueType;
use ensemble_language::diagnostic::{Diagnostic, Finding, FindingSeverity};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::loader::{self, codes};
use ensemble_language::source::RouteLocation;

use super::{EnsembleFolder, MAX_CACHED_FILES};
use crate::error::ProjectError;
use crate::prepare::{MAX_NESTING_DEPTH, can_be_quoted, check_loaded_ensemble, describe_without_quoting};

/// Position of an ensemble among its outer ensembles, and the results for its nested ensembles.
#[derive(Default)]
pub(super) struct EnsembleNesting {
    /// Files of the outer ensembles, outermost first, and of the ensemble itself. The list is empty for an ensemble that no other
    /// ensemble contains.
    outer_files: Vec<PathBuf>,
    checked_files: Rc<RefCell<HashMap<PathBuf, Rc<NestedEnsembleCheck>>>>,
    /// Result types of nested ensembles, by file.
    pub(super) results: Rc<RefCell<HashMap<PathBuf, Option<ValueType>>>>,
    /// Maximum number of nested levels below the ensemble.
    height: Cell<usize>,
    /// Checks of the ensembles below this ensemble, each once, in the order of the references.
    nested_checks: RefCell<Vec<Rc<NestedEnsembleCheck>>>,
}

/// Check of an ensemble that another ensemble names.
#[derive(Debug)]
pub struct NestedEnsembleCheck {
    /// Absolute path of the file.
    pub file: PathBuf,
    /// Name for users.
    pub name: String,
    /// Findings about the ensemble, at their positions.
    pub findings: Vec<Diagnostic>,
    /// Ensemble, if it has no errors.
    ensemble: Option<Arc<Ensemble>>,
    /// The costs of its models, if they are known and it has no errors.
    model_costs: Option<Arc<ModelCosts>>,
    /// The number of ensembles inside each other from this one on, or why it cannot be run.
    height: Result<usize, String>,
    nested_checks: Vec<Rc<Self>>,
}

/// Ensemble that a reference names, or a circular reference.
enum NestedReferenceTarget {
    Checked(Rc<NestedEnsembleCheck>),
    /// The reference names one of the outer ensembles. The text describes the circle.
    Circle(String),
}

impl EnsembleNesting {
    /// Returns the position of the nested ensemble in this file. Shares the caches.
    pub(super) fn for_nested_file(&self, file: &Path) -> Self {
        Self {
            outer_files: self.outer_files.iter().cloned().chain([file.to_owned()]).collect(),
            checked_files: Rc::clone(&self.checked_files),
            results: Rc::clone(&self.results),
            ..Self::default()
        }
    }

    /// Returns whether the ensemble in this file contains itself or is nested too deep.
    pub(super) fn is_circular_or_too_deep(&self, file: &Path) -> bool {
        self.outer_files.len() >= MAX_NESTING_DEPTH || self.outer_files.iter().any(|outer| outer == file)
    }
}

impl EnsembleFolder<'_> {
    /// Takes the checks of all ensembles that the last checked ensemble names, directly or through others.
    pub fn take_nested_checks(&self) -> Vec<Rc<NestedEnsembleCheck>> {
        self.nesting.nested_checks.take()
    }

    /// Returns the named ensemble if its file exists and has no errors. Checks the file if necessary.
    pub(super) fn find_valid_ensemble(&self, named: &str) -> Option<Arc<Ensemble>> {
        match self.resolve_and_check_nested(named).ok()? {
            NestedReferenceTarget::Checked(inner) => inner.ensemble.clone(),
            NestedReferenceTarget::Circle(_) => None,
        }
    }

    /// Returns the costs of the models of the ensemble that is named, if they are known and it has no errors.
    pub(super) fn find_nested_costs(&self, named: &str) -> Option<Arc<ModelCosts>> {
        match self.resolve_and_check_nested(named).ok()? {
            NestedReferenceTarget::Checked(inner) => inner.model_costs.clone(),
            NestedReferenceTarget::Circle(_) => None,
        }
    }

    /// Returns the finding about an ensemble that is named, if it is missing or cannot be run.
    pub(super) fn check_nested_ensemble(&self, named: &str, at: RouteLocation) -> Option<Finding> {
        let inner = match self.resolve_and_check_nested(named) {
            Ok(NestedReferenceTarget::Checked(inner)) => inner,
            Ok(NestedReferenceTarget::Circle(why)) => return Some(Finding::new_error(codes::BROKEN_ENSEMBLE, at, why)),
            Err(error) => {
                let mut finding = Finding::new_warning(codes::NO_SCRIPT, at, error.to_string());
                finding.help = error.advice();
                return Some(finding);
            }
        };
        self.record_nested_checks(&inner);
        let nesting = &self.nesting;
        let message = match &inner.height {
            Ok(height) => {
                nesting.height.set(nesting.height.get().max(*height));
                let is_too_deep = nesting.outer_files.is_empty() && *height >= MAX_NESTING_DEPTH;
                is_too_deep.then(|| format!("ensembles are nested more than {MAX_NESTING_DEPTH} levels deep"))?
            }
            Err(error) => error.clone(),
        };
        let help = format!("run `ensemble validate {}` to see all errors", inner.name);
        Some(Finding::new_error(codes::BROKEN_ENSEMBLE, at, message).with_help(help))
    }

    /// Records the check of the ensemble and the checks of the ensembles below, each once.
    fn record_nested_checks(&self, inner: &Rc<NestedEnsembleCheck>) {
        let mut below = self.nesting.nested_checks.borrow_mut();
        for nested in std::iter::once(inner).chain(&inner.nested_checks) {
            if below.iter().all(|known| known.file != nested.file) {
                below.push(Rc::clone(nested));
            }
        }
    }

    /// Resolves the name and checks the file, unless the cache contains the check.
    fn resolve_and_check_nested(&self, named: &str) -> Result<NestedReferenceTarget, ProjectError> {
        let places = &self.places;
        let path = self
            .project
            .resolve_ensemble_file_from(named, &places.ensemble_dir, &places.project_root)?;
        let absolute = self.project.folder.join(&path);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        if let Some(at) = self.nesting.outer_files.iter().position(|outer| *outer == absolute) {
            let names = self.nesting.outer_files[at..].iter().chain([&absolute]);
            let names: Vec<String> = names
                .map(|path| self.project.relative_path(path).display().to_string())
                .collect();
            let chain = names.join(" → ");
            return Ok(NestedReferenceTarget::Circle(format!(
                "an ensemble contains itself: {chain}"
            )));
        }
        let cached_check = self.nesting.checked_files.borrow().get(&absolute).cloned();
        Ok(NestedReferenceTarget::Checked(cached_check.unwrap_or_else(|| {
            let inner = Rc::new(self.check_nested_file(&path, &absolute));
            let mut checked_files = self.nesting.checked_files.borrow_mut();
            if checked_files.len() >= MAX_CACHED_FILES {
                checked_files.clear();
            }
            checked_files.insert(absolute, Rc::clone(&inner));
            inner
        })))
    }

    /// Loads and checks the nested ensemble in this file. Quotes nothing of a file that is no ensemble.
    fn check_nested_file(&self, path: &Path, absolute: &Path) -> NestedEnsembleCheck {
        let failed = |why: String| NestedEnsembleCheck {
            file: absolute.to_owned(),
            name: path.display().to_string(),
            findings: Vec::new(),
            ensemble: None,
            model_costs: None,
            height: Err(why),
            nested_checks: Vec::new(),
        };
        let source = match self.project.read_file(path) {
            Ok(source) => source,
            Err(error) => return failed(error.to_string()),
        };
        let loaded = loader::load_ensemble(&source);
        if !can_be_quoted(&loaded) {
            return failed(format!(
                "this ensemble cannot be run: {}",
                describe_without_quoting(path, &loaded)
            ));
        }
        let mut inside = EnsembleFolder::for_file(path, self.project)
            .with_ci(self.is_ci)
            .with_shared_scripts(&self.texts)
            .with_syntax_checks(self.checkers.clone());
        if let Some(fault) = inside.take_config_error() {
            return failed(format!("this ensemble cannot be run: {fault}"));
        }
        inside.fixes = self.fixes;
        inside.allows_missing_scripts = self.allows_missing_scripts;
        inside.nesting = self.nesting.for_nested_file(absolute);
        let findings = check_loaded_ensemble(&loaded, &inside);
        let mut errors = findings.iter().filter(|one| one.severity == FindingSeverity::Error);
        let first = errors
            .next()
            .map(|first| describe_first_error(path, first, errors.count()));
        let model_costs = loaded.ensemble.as_ref().filter(|_| first.is_none());
        let model_costs = model_costs.and_then(|ensemble| collect_model_costs(ensemble, &inside));
        NestedEnsembleCheck {
            model_costs: model_costs.map(Arc::new),
            ensemble: loaded.ensemble.filter(|_| first.is_none()).map(Arc::new),
            height: first.map_or_else(|| Ok(inside.nesting.height.get() + 1), Err),
            nested_checks: inside.take_nested_checks(),
            findings,
            ..failed(String::new())
        }
    }
}

/// Describes the first error of an ensemble that cannot be run, and the number of further errors.
fn describe_first_error(path: &Path, first: &Diagnostic, more: usize) -> String {
    let place = first.source.line_column(first.span.start);
    let more = match more {
        0 => String::new(),
        1 => " (and 1 more error)".to_owned(),
        more => format!(" (and {more} more errors)"),
    };
    let own_name = path.display().to_string();
    let file = match first.related.iter().all(|place| place.source.name() != own_name) {
        true => own_name.as_str(),
        false => first.source.name(),
    };
    format!(
        "this ensemble cannot be run: {file}:{}:{}: error[{}]: {}{more}",
        place.line, place.column, first.code.0, first.message
    )
}
