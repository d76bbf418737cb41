//! Ensembles that an ensemble names and that cannot be run: a run of the outer ensemble does not begin.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ensemble_language::diagnostic::{Diagnostic, Finding, Severity};
use ensemble_language::loader::{self, codes};
use ensemble_language::source::At;

use super::{Folder, MOST};
use crate::prepare::{DEEPEST, examine};

/// The ensembles around the one that is examined, and what is known of those inside it.
#[derive(Default)]
pub(super) struct Nesting {
    /// The files that contain the one that is examined, outermost first, and this one itself; empty for an ensemble that
    /// no other contains.
    outer: Vec<PathBuf>,
    known: Rc<RefCell<HashMap<PathBuf, Result<usize, String>>>>,
    /// The highest number of ensembles inside each other below this one.
    height: Cell<usize>,
}

impl Folder<'_> {
    /// The finding about an ensemble that is named, if it is missing or cannot be run.
    pub(super) fn ensemble(&self, named: &str, at: At) -> Option<Finding> {
        let places = &self.places;
        let found = self
            .project
            .ensemble_file_from(named, &places.ensemble_dir, &places.project_root);
        match found {
            Ok(path) => {
                let why = self.fault_inside(&path)?;
                let help = format!("`ensemble validate {}` shows all of its errors", path.display());
                Some(Finding::error(codes::BROKEN_ENSEMBLE, at, why).help(help))
            }
            Err(error) => {
                let (message, help) = (error.to_string(), error.advice());
                let mut finding = Finding::warning(codes::NO_SCRIPT, at, message);
                finding.help = help;
                Some(finding)
            }
        }
    }

    /// Why the ensemble in this file cannot be run here.
    fn fault_inside(&self, path: &Path) -> Option<String> {
        let absolute = self.project.folder.join(path);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        if let Some(at) = self.nesting.outer.iter().position(|outer| *outer == absolute) {
            let names = self.nesting.outer[at..].iter().chain([&absolute]);
            let names: Vec<String> = names
                .map(|path| self.project.relative(path).display().to_string())
                .collect();
            return Some(format!("an ensemble contains itself: {}", names.join(" → ")));
        }
        let known = self.nesting.known.borrow().get(&absolute).cloned();
        let examined = known.unwrap_or_else(|| {
            let examined = self.examined(path, &absolute);
            let mut known = self.nesting.known.borrow_mut();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(absolute, examined.clone());
            examined
        });
        match examined {
            Ok(height) => {
                self.nesting.height.set(self.nesting.height.get().max(height));
                let is_outermost = self.nesting.outer.is_empty();
                (is_outermost && height >= DEEPEST)
                    .then(|| format!("more than {DEEPEST} ensembles are nested in each other"))
            }
            Err(why) => Some(why),
        }
    }

    /// The number of ensembles inside each other from this one on, or why it cannot be run.
    fn examined(&self, path: &Path, absolute: &Path) -> Result<usize, String> {
        let source = self.project.read(path).map_err(|error| error.to_string())?;
        let mut inside = Folder::around(path, self.project)
            .in_ci(self.is_ci)
            .sharing(&self.texts);
        let outer = self.nesting.outer.iter().cloned();
        inside.nesting = Nesting {
            outer: outer.chain([absolute.to_owned()]).collect(),
            known: Rc::clone(&self.nesting.known),
            height: Cell::default(),
        };
        let found = examine(&loader::load(&source), &inside);
        let mut errors = found.iter().filter(|one| one.severity == Severity::Error);
        match errors.next() {
            Some(first) => Err(told(path, first, errors.count())),
            None => Ok(inside.nesting.height.get() + 1),
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
    format!(
        "this ensemble cannot be run: {}:{}:{}: error[{}]: {}{more}",
        path.display(),
        place.line,
        place.column,
        first.code.0,
        first.message
    )
}
