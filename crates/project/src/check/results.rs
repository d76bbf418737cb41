//! Result types of nested ensembles, as far as their files declare them.

use ensemble_language::check::{OutputKeys, ensemble_result_type};
use ensemble_language::condition::ValueType;
use ensemble_language::loader;

use super::{EnsembleFolder, MAX_CACHED_FILES};

impl EnsembleFolder<'_> {
    /// Infers the type of the output of an agent that runs the named ensemble. Returns `None` if the file cannot be read, or
    /// the ensemble declares no `result`.
    pub(super) fn infer_nested_result_type(&self, named: &str) -> Option<ValueType> {
        let places = &self.places;
        let resolved_path = self
            .project
            .resolve_ensemble_file_from(named, &places.ensemble_dir, &places.project_root);
        let path = resolved_path.ok()?;
        let absolute = self.project.folder.join(&path);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        if self.nesting.is_circular_or_too_deep(&absolute) {
            return None;
        }
        if let Some(known_type) = self.nesting.results.borrow().get(&absolute) {
            return known_type.clone();
        }
        let source = self.project.read_file(&path).ok()?;
        let inner = loader::load_ensemble(&source).ensemble;
        let result = inner.and_then(|inner| {
            let mut inside = EnsembleFolder::for_file(&path, self.project);
            inside.nesting = self.nesting.for_nested_file(&absolute);
            ensemble_result_type(&inner, &inside)
        });
        let mut results = self.nesting.results.borrow_mut();
        if results.len() >= MAX_CACHED_FILES {
            results.clear();
        }
        results.insert(absolute, result.clone());
        result
    }

    /// Returns the keys of the result of the named ensemble. Returns `None` if the keys are unknown.
    pub(super) fn nested_result_keys(&self, named: &str) -> Option<OutputKeys> {
        let result = self.infer_nested_result_type(named)?;
        let fields = result.map_fields().filter(|fields| fields.other_values.is_none())?;
        Some(fields.known_keys.keys().cloned().collect())
    }
}
