//! What ensembles that an ensemble names give as their results, as far as their files tell.

use ensemble_language::check::{OutputKeys, result_type};
use ensemble_language::condition::Type;
use ensemble_language::loader;

use super::{Folder, MOST};

impl Folder<'_> {
    /// Returns the type of the output of an agent that is this ensemble. Returns `None` if its file cannot be read, or
    /// it declares no `result`.
    pub(super) fn result_of(&self, named: &str) -> Option<Type> {
        let places = &self.places;
        let found = self
            .project
            .ensemble_file_from(named, &places.ensemble_dir, &places.project_root);
        let path = found.ok()?;
        let absolute = self.project.folder.join(&path);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        if self.nesting.is_too_deep(&absolute) {
            return None;
        }
        if let Some(known) = self.nesting.results.borrow().get(&absolute) {
            return known.clone();
        }
        let source = self.project.read(&path).ok()?;
        let inner = loader::load(&source).ensemble;
        let result = inner.and_then(|inner| {
            let mut inside = Folder::around(&path, self.project);
            inside.nesting = self.nesting.inside(&absolute);
            result_type(&inner, &inside)
        });
        let mut results = self.nesting.results.borrow_mut();
        if results.len() >= MOST {
            results.clear();
        }
        results.insert(absolute, result.clone());
        result
    }

    /// The keys of that output.
    pub(super) fn result_keys(&self, named: &str) -> Option<OutputKeys> {
        let result = self.result_of(named)?;
        let fields = result.fields().filter(|fields| fields.others.is_none())?;
        Some(fields.known.keys().cloned().collect())
    }
}
