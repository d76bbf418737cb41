//! Script agents, which run the program that `script:` names.
//!
//! A run starts only if its scripts exist and its Rhai scripts compile ([`build_checked_runner`]). Each execution searches for the script
//! again, because the script can change while the run waits. Only a program on PATH is cached, until a file
//! with the name exists. `validate` uses the same search, so that both agree.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::agent::kinds::rhai_script;
use crate::agent::kinds::rhai_script::{CompiledScriptCache, ScriptLoadError};
pub use crate::agent::kinds::script_templates::ScriptTemplates;
use crate::agent::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use ensemble_language::data::FailureKind;
use ensemble_process::program::{
    ResolvedScript, ScriptFolders, ScriptLookupError, find_unused_arguments_error, list_rhai_candidates,
    matches_existing_file, resolve_needed_program, resolve_script, resolve_script_for_args,
};
use ensemble_process::{self, ProcessSettings, ProgramInvocation};

/// Error that prevents the start of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptStartError {
    /// The script, or a program that the script needs, does not exist.
    Lookup(ScriptLookupError),
    /// The file of the Rhai script cannot be read.
    Unreadable(String),
    /// The Rhai script does not compile.
    Compile(String),
    /// A shell reads the command line, which does not use its arguments.
    UnusedArguments(ScriptLookupError),
}

/// Builds the runner of a script agent, without a check that the script exists. `bounds` limits the script process.
pub fn build_unchecked_runner(script: &str, places: &ScriptFolders, bounds: ProcessSettings) -> Arc<dyn Runner> {
    Arc::new(ScriptRunner::new(script, ScriptTemplates::default(), places, bounds))
}

/// Builds the runner of a script that must exist now, with its arguments and standard input.
///
/// # Errors
/// The script or the program that it needs is not there, a Rhai script does not compile, or the arguments are not used.
pub fn build_checked_runner(
    script: &str,
    templates: ScriptTemplates,
    places: &ScriptFolders,
    bounds: ProcessSettings,
) -> Result<Arc<dyn Runner>, ScriptStartError> {
    let runner = ScriptRunner::new(script, templates, places, bounds);
    runner.check_startable()?;
    Ok(Arc::new(runner))
}

/// Runner of a script agent: it starts a process or runs a Rhai script.
struct ScriptRunner {
    script: String,
    templates: ScriptTemplates,
    places: ScriptFolders,
    bounds: ProcessSettings,
    /// Candidate paths with their names in messages, if the name is that of a Rhai script.
    rhai_files: Vec<(PathBuf, String)>,
    /// Program on `PATH` that the script was, while its name matched no file.
    on_path: OnceLock<ProgramInvocation>,
    compiled: CompiledScriptCache,
}

impl ScriptRunner {
    /// Creates the runner. Nothing is resolved yet.
    fn new(script: &str, templates: ScriptTemplates, places: &ScriptFolders, bounds: ProcessSettings) -> Self {
        Self {
            script: script.to_owned(),
            templates,
            places: places.clone(),
            bounds,
            rhai_files: list_rhai_candidates(script, places),
            on_path: OnceLock::new(),
            compiled: CompiledScriptCache::default(),
        }
    }

    /// Resolves the script, and compiles and caches it if it is a Rhai script.
    fn check_startable(&self) -> Result<(), ScriptStartError> {
        if self.templates.has_arguments()
            && let Some(error) = find_unused_arguments_error(&self.script, &self.places)
        {
            return Err(ScriptStartError::UnusedArguments(error));
        }
        match resolve_needed_program(&self.script, &self.places).map_err(ScriptStartError::Lookup)? {
            ResolvedScript::Process(_) => Ok(()),
            ResolvedScript::Rhai(path) => self
                .compiled
                .load_script_file(&path, &self.places.display_path(&path))
                .map_err(|error| match error {
                    ScriptLoadError::Unreadable(message) => ScriptStartError::Unreadable(message),
                    ScriptLoadError::Broken(message) => ScriptStartError::Compile(message),
                }),
        }
    }

    /// Resolves the script without the cache. A script with arguments must be a process.
    fn resolve_uncached(&self) -> Result<ResolvedScript, ScriptLookupError> {
        match self.templates.has_arguments() {
            true => resolve_script_for_args(&self.script, &self.places),
            false => resolve_script(&self.script, &self.places),
        }
    }

    /// Renders the arguments and the standard input, and runs the process.
    async fn render_and_run_process(
        &self,
        mut invocation: ProgramInvocation,
        execution: &ExecutionInput,
    ) -> AttemptEnd {
        let rendered = match self.templates.render_args_and_stdin(execution).await {
            Ok(rendered) => rendered,
            Err(error) => return AttemptEnd::from_failure(FailureKind::Unavailable, error),
        };
        invocation
            .arguments
            .extend(rendered.args.into_iter().map(OsString::from));
        let (folder, stdin) = (&self.places.project_root, rendered.stdin.as_deref());
        ensemble_process::run_program_with_stdin(&invocation, folder, &self.bounds, execution, stdin).await
    }

    /// Resolves the script. Caches a program found on `PATH`, but checks files every time.
    fn resolve_with_path_cache(&self) -> Result<ResolvedScript, ScriptLookupError> {
        if matches_existing_file(&self.script, &self.places) {
            return self.resolve_uncached();
        }
        if let Some(invocation) = self.on_path.get() {
            return Ok(ResolvedScript::Process(invocation.clone()));
        }
        let resolved = self.resolve_uncached()?;
        if let ResolvedScript::Process(invocation) = &resolved {
            let _it_was_empty = self.on_path.set(invocation.clone());
        }
        Ok(resolved)
    }
}

impl Runner for ScriptRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            // The same answer as below, for one look at the file.
            if let Some(script_file) = rhai_script::find_script_file(&self.rhai_files) {
                return rhai_script::run_found_script(&self.compiled, script_file, execution).await;
            }
            match self.resolve_with_path_cache() {
                Ok(ResolvedScript::Rhai(path)) => {
                    let name = self.places.display_path(&path);
                    rhai_script::run_script_file(&self.compiled, &path, &name, execution).await
                }
                // Boxed: the future of a process is large, and executions of Rhai scripts would carry its size.
                Ok(ResolvedScript::Process(invocation)) => {
                    Box::pin(self.render_and_run_process(invocation, &execution)).await
                }
                Err(unavailable) => AttemptEnd::from_failure(FailureKind::Unavailable, unavailable.to_string()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
