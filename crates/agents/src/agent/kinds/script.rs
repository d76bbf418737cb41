//! Script agents: running the program that `script:` names.
//!
//! A script is searched for each execution, because an agent may write the script that a later agent runs. Only a
//! program on PATH is remembered, until there is a file of this name. `validate` uses the same search, so that both
//! agree.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::agent::kinds::rhai_script;
use crate::agent::kinds::rhai_script::Compiled;
use crate::agent::{AttemptOutcome, BoxFuture, Execution, Runner};
use ensemble_language::data::FailureKind;
use ensemble_process::program::{Places, Resolved, Unavailable, list_rhai_files, names_a_file, resolve};
use ensemble_process::{self, Bounds, Invocation};

/// The runner of a script agent; the bounds are those of a child process.
pub fn runner(script: &str, places: &Places, bounds: Bounds) -> Arc<dyn Runner> {
    Arc::new(ScriptRunner {
        script: script.to_owned(),
        places: places.clone(),
        bounds,
        inside: list_rhai_files(script, places),
        on_path: OnceLock::new(),
        compiled: Compiled::default(),
    })
}

struct ScriptRunner {
    script: String,
    places: Places,
    bounds: Bounds,
    /// Where it may lie and what it is called there, if its name says that it is a Rhai script.
    inside: Vec<(PathBuf, String)>,
    /// What the script was while it named no file.
    on_path: OnceLock<Invocation>,
    compiled: Compiled,
}

impl ScriptRunner {
    fn resolved(&self) -> Result<Resolved, Unavailable> {
        if names_a_file(&self.script, &self.places) {
            return resolve(&self.script, &self.places);
        }
        if let Some(invocation) = self.on_path.get() {
            return Ok(Resolved::Process(invocation.clone()));
        }
        let resolved = resolve(&self.script, &self.places)?;
        if let Resolved::Process(invocation) = &resolved {
            let _it_was_empty = self.on_path.set(invocation.clone());
        }
        Ok(resolved)
    }
}

impl Runner for ScriptRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            // The same answer as below, for one look at the file.
            if let Some(found) = rhai_script::find(&self.inside) {
                return rhai_script::run_found(&self.compiled, found, execution).await;
            }
            match self.resolved() {
                Ok(Resolved::Rhai(path)) => {
                    let name = self.places.shown(&path);
                    rhai_script::run(&self.compiled, &path, &name, execution).await
                }
                Ok(Resolved::Process(invocation)) => {
                    ensemble_process::run(&invocation, &self.places.project_root, &self.bounds, &execution).await
                }
                Err(unavailable) => AttemptOutcome::failure(FailureKind::Unavailable, unavailable.to_string()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
