//! Script agents: running the program that `script:` names.
//!
//! A script is searched for each execution, because an agent may write the script that a later agent runs. Only a
//! program on PATH is remembered, until there is a file of this name. `validate` uses the same search, so that both
//! agree.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::agent::kinds::rhai_script;
use crate::agent::kinds::rhai_script::CompiledScript;
use crate::agent::{AttemptOutcome, BoxFuture, ExecutionInput, Runner};
use ensemble_language::data::FailureKind;
use ensemble_process::program::{
    ResolvedScript, ScriptFolders, ScriptLookupError, list_rhai_files, names_file, resolve_script,
};
use ensemble_process::{self, ProcessLimits, ProgramInvocation};

/// The runner of a script agent; the bounds are those of a child process.
pub fn build_runner(script: &str, places: &ScriptFolders, bounds: ProcessLimits) -> Arc<dyn Runner> {
    Arc::new(ScriptRunner {
        script: script.to_owned(),
        places: places.clone(),
        bounds,
        rhai_files: list_rhai_files(script, places),
        on_path: OnceLock::new(),
        compiled: CompiledScript::default(),
    })
}

struct ScriptRunner {
    script: String,
    places: ScriptFolders,
    bounds: ProcessLimits,
    /// Where it may lie and what it is called there, if its name says that it is a Rhai script.
    rhai_files: Vec<(PathBuf, String)>,
    /// What the script was while it named no file.
    on_path: OnceLock<ProgramInvocation>,
    compiled: CompiledScript,
}

impl ScriptRunner {
    fn resolve_cached(&self) -> Result<ResolvedScript, ScriptLookupError> {
        if names_file(&self.script, &self.places) {
            return resolve_script(&self.script, &self.places);
        }
        if let Some(invocation) = self.on_path.get() {
            return Ok(ResolvedScript::Process(invocation.clone()));
        }
        let resolved = resolve_script(&self.script, &self.places)?;
        if let ResolvedScript::Process(invocation) = &resolved {
            let _it_was_empty = self.on_path.set(invocation.clone());
        }
        Ok(resolved)
    }
}

impl Runner for ScriptRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            // The same answer as below, for one look at the file.
            if let Some(script_file) = rhai_script::find_script(&self.rhai_files) {
                return rhai_script::run_found_script(&self.compiled, script_file, execution).await;
            }
            match self.resolve_cached() {
                Ok(ResolvedScript::Rhai(path)) => {
                    let name = self.places.display_path(&path);
                    rhai_script::run_script_file(&self.compiled, &path, &name, execution).await
                }
                Ok(ResolvedScript::Process(invocation)) => {
                    ensemble_process::run_program(&invocation, &self.places.project_root, &self.bounds, &execution)
                        .await
                }
                Err(unavailable) => AttemptOutcome::from_failure(FailureKind::Unavailable, unavailable.to_string()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
