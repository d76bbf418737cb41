//! The sandboxes of an ensemble: rules with the paths of this machine.
//!
//! Invariant: a sandbox that cannot be enforced creates no run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_language::ensemble;
use ensemble_process::confine::{
    ProcessSandbox, SandboxNetwork, SandboxRules, list_unenforced_rules, resolve_rule_path,
};

use crate::runners::shared_parts::{AgentBuildContext, AgentBuildError};

/// Builds the sandbox of a process with the paths of this machine. Returns `None` without a specification.
///
/// # Errors
///
/// A path does not exist, or the system cannot enforce the rules.
pub(crate) fn build_sandbox(
    given: Option<&ensemble::SandboxSpec>,
    parts: &AgentBuildContext<'_>,
) -> Result<Option<Arc<ProcessSandbox>>, AgentBuildError> {
    let Some(spec) = given else { return Ok(None) };
    let folder = resolve_existing_path(&parts.prepared.folder)?;
    let home = parts.shared.host.read_variable("HOME");
    let resolved = |paths: &[String]| -> Result<Vec<PathBuf>, AgentBuildError> {
        paths
            .iter()
            .map(|path| resolve_existing_path(&resolve_rule_path(path, &folder, home.as_deref())))
            .collect()
    };
    let mut read = vec![folder.clone()];
    read.extend(resolved(&spec.read)?);
    let rules = SandboxRules {
        read,
        write: resolved(&spec.write)?,
        network: match &spec.network {
            ensemble::NetworkAccess::None => SandboxNetwork::None,
            ensemble::NetworkAccess::Ports(ports) => SandboxNetwork::Ports(ports.clone()),
            ensemble::NetworkAccess::All => SandboxNetwork::All,
        },
        env: spec.env.clone(),
        memory: spec.memory,
        cpu_seconds: spec.cpu_seconds,
        processes: spec.processes,
        best_effort: spec.best_effort,
    };
    let missing = list_unenforced_rules(&rules);
    if !missing.is_empty() && !rules.best_effort {
        let message = format!(
            "its sandbox cannot be enforced: this system has no rules for {}",
            missing.join(", ")
        );
        let help = "run it on Linux 6.12 or later with Landlock and seccomp, or accept weaker rules with `sandbox: {best_effort: true}`";
        return Err(AgentBuildError::new(message)
            .with_help(help.to_owned())
            .attribute_to_sandbox());
    }
    let Some(helper) = parts.shared.host.sandbox_helper_command() else {
        let message = "its sandbox cannot be enforced: the program that executes this run has no helper for sandboxes";
        let help = "set one with `Host::with_sandbox_helper`";
        return Err(AgentBuildError::new(message.to_owned())
            .with_help(help.to_owned())
            .attribute_to_sandbox());
    };
    Ok(Some(Arc::new(ProcessSandbox {
        helper: helper.clone(),
        rules,
        folder: parts.prepared.root.clone(),
        ensemble_folder: folder,
    })))
}

/// Resolves all links of a path of a sandbox. Links that are created later are not followed.
///
/// # Errors
///
/// The path does not exist.
fn resolve_existing_path(path: &Path) -> Result<PathBuf, AgentBuildError> {
    path.canonicalize().map_err(|error| {
        let message = format!("its sandbox names `{}`, which cannot be used: {error}", path.display());
        let help = "create it before the run, or correct the path; it is relative to the folder of the ensemble";
        AgentBuildError::new(message)
            .with_help(help.to_owned())
            .attribute_to_sandbox()
    })
}
