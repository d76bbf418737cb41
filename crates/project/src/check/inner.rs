//! Ensembles that an ensemble names: their findings, and why a run of the outer ensemble does not begin.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ensemble_language::condition::Type;
use ensemble_language::diagnostic::{Diagnostic, Finding, Severity};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::loader::{self, codes};
use ensemble_language::source::At;

use super::{Folder, MOST};
use crate::error::ProjectError;
use crate::prepare::{DEEPEST, examine};

/// The ensembles around the one that is examined, and what is known of those inside it.
#[derive(Default)]
pub(super) struct Nesting {
    /// The files that contain the one that is examined, outermost first, and this one itself; empty for an ensemble that
    /// no other contains.
    outer: Vec<PathBuf>,
    known: Rc<RefCell<HashMap<PathBuf, Rc<Inner>>>>,
    /// What runs of those give.
    pub(super) results: Rc<RefCell<HashMap<PathBuf, Option<Type>>>>,
    /// The highest number of ensembles inside each other below this one.
    height: Cell<usize>,
    /// The ensembles below this one, each once, in the order in which they were reached.
    below: RefCell<Vec<Rc<Inner>>>,
}

/// An ensemble that another one names.
#[derive(Debug)]
pub struct Inner {
    /// Its file, absolute.
    pub file: PathBuf,
    /// Its name for users.
    pub name: String,
    /// The findings about it, at their places.
    pub findings: Vec<Diagnostic>,
    /// Without errors.
    ensemble: Option<Arc<Ensemble>>,
    /// The number of ensembles inside each other from this one on, or why it cannot be run.
    height: Result<usize, String>,
    below: Vec<Rc<Self>>,
}

/// The content of a named path.
enum Named {
    Known(Rc<Inner>),
    /// One of the files that contain it.
    Circle(String),
}

impl Nesting {
    /// Returns the nesting of the ensemble in this file, which this one contains.
    pub(super) fn inside(&self, file: &Path) -> Self {
        Self {
            outer: self.outer.iter().cloned().chain([file.to_owned()]).collect(),
            known: Rc::clone(&self.known),
            results: Rc::clone(&self.results),
            ..Self::default()
        }
    }

    /// Returns whether the ensemble in this file is inside itself, or too deep.
    pub(super) fn is_too_deep(&self, file: &Path) -> bool {
        self.outer.len() >= DEEPEST || self.outer.iter().any(|outer| outer == file)
    }
}

impl Folder<'_> {
    /// The ensembles that the last one examined has named, directly or through others.
    pub fn take_inner(&self) -> Vec<Rc<Inner>> {
        self.nesting.below.take()
    }

    /// The ensemble that is named, if it is there and has no errors.
    pub(super) fn inner_ensemble(&self, named: &str) -> Option<Arc<Ensemble>> {
        match self.named(named).ok()? {
            Named::Known(inner) => inner.ensemble.clone(),
            Named::Circle(_) => None,
        }
    }

    /// The finding about an ensemble that is named, if it is missing or cannot be run.
    pub(super) fn ensemble(&self, named: &str, at: At) -> Option<Finding> {
        let inner = match self.named(named) {
            Ok(Named::Known(inner)) => inner,
            Ok(Named::Circle(why)) => return Some(Finding::error(codes::BROKEN_ENSEMBLE, at, why)),
            Err(error) => {
                let mut finding = Finding::warning(codes::NO_SCRIPT, at, error.to_string());
                finding.help = error.advice();
                return Some(finding);
            }
        };
        self.note(&inner);
        let nesting = &self.nesting;
        let why = match &inner.height {
            Ok(height) => {
                nesting.height.set(nesting.height.get().max(*height));
                let is_too_deep = nesting.outer.is_empty() && *height >= DEEPEST;
                is_too_deep.then(|| format!("more than {DEEPEST} ensembles are nested in each other"))?
            }
            Err(why) => why.clone(),
        };
        let help = format!("`ensemble validate {}` shows all of its errors", inner.name);
        Some(Finding::error(codes::BROKEN_ENSEMBLE, at, why).help(help))
    }

    /// Notes the ensemble and those below it.
    fn note(&self, inner: &Rc<Inner>) {
        let mut below = self.nesting.below.borrow_mut();
        for one in std::iter::once(inner).chain(&inner.below) {
            if below.iter().all(|known| known.file != one.file) {
                below.push(Rc::clone(one));
            }
        }
    }

    fn named(&self, named: &str) -> Result<Named, ProjectError> {
        let places = &self.places;
        let path = self
            .project
            .ensemble_file_from(named, &places.ensemble_dir, &places.project_root)?;
        let absolute = self.project.folder.join(&path);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        if let Some(at) = self.nesting.outer.iter().position(|outer| *outer == absolute) {
            let names = self.nesting.outer[at..].iter().chain([&absolute]);
            let names: Vec<String> = names
                .map(|path| self.project.relative(path).display().to_string())
                .collect();
            let chain = names.join(" → ");
            return Ok(Named::Circle(format!("an ensemble contains itself: {chain}")));
        }
        let known = self.nesting.known.borrow().get(&absolute).cloned();
        Ok(Named::Known(known.unwrap_or_else(|| {
            let inner = Rc::new(self.examined(&path, &absolute));
            let mut known = self.nesting.known.borrow_mut();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(absolute, Rc::clone(&inner));
            inner
        })))
    }

    fn examined(&self, path: &Path, absolute: &Path) -> Inner {
        let failed = |why: String| Inner {
            file: absolute.to_owned(),
            name: path.display().to_string(),
            findings: Vec::new(),
            ensemble: None,
            height: Err(why),
            below: Vec::new(),
        };
        let source = match self.project.read(path) {
            Ok(source) => source,
            Err(error) => return failed(error.to_string()),
        };
        let mut inside = Folder::around(path, self.project)
            .in_ci(self.is_ci)
            .sharing(&self.texts)
            .checking(self.checkers.clone());
        if let Some(fault) = inside.take_fault() {
            return failed(format!("this ensemble cannot be run: {fault}"));
        }
        inside.fixes = self.fixes;
        inside.nesting = self.nesting.inside(absolute);
        let loaded = loader::load(&source);
        let findings = examine(&loaded, &inside);
        let mut errors = findings.iter().filter(|one| one.severity == Severity::Error);
        let first = errors.next().map(|first| told(path, first, errors.count()));
        Inner {
            ensemble: loaded.ensemble.filter(|_| first.is_none()).map(Arc::new),
            height: first.map_or_else(|| Ok(inside.nesting.height.get() + 1), Err),
            below: inside.take_inner(),
            findings,
            ..failed(String::new())
        }
    }
}

fn told(path: &Path, first: &Diagnostic, more: usize) -> String {
    let place = first.source.place(first.span.start);
    let more = match more {
        0 => String::new(),
        1 => " (and 1 more error)".to_owned(),
        more => format!(" (and {more} more errors)"),
    };
    let own = path.display().to_string();
    let file = match first.related.iter().all(|place| place.source.name() != own) {
        true => own.as_str(),
        false => first.source.name(),
    };
    format!(
        "this ensemble cannot be run: {file}:{}:{}: error[{}]: {}{more}",
        place.line, place.column, first.code.0, first.message
    )
}
