//! `validate` settings in the configurations of projects: levels, exclusions and options for each file, and the findings about the settings.
//!
//! The settings need no trust, because they send nothing. They cannot hide an error, nor a file that is an argument.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::gitignore::Gitignore;

use crate::command::check::files::exclusions::parse_patterns;
use crate::command::check::policy::FindingPolicy;
use crate::command::check::{ValidateArgs, ValidateFormat};
use crate::command::shared::error::CliError;
use ensemble_language::check::{self, filter_allowed_diagnostics};
use ensemble_language::diagnostic::{Diagnostic, Finding};
use ensemble_language::loader::{ConfigurationLoadResult, ReportFormat, codes, load_configuration, locate_findings};
use ensemble_language::source::{Route, SourceText};
use ensemble_project::Project;
use ensemble_project::config::find_config_files;

/// Validate settings of one project configuration.
struct ProjectValidateConfig {
    /// Folder that contains `.ensemble`.
    folder: PathBuf,
    policy: Arc<FindingPolicy>,
    exclude: Arc<Gitignore>,
    output: Option<ReportFormat>,
}

/// Cache of the validate settings of all projects, by folder.
pub(crate) struct ValidateConfigCache<'s> {
    project: &'s Project,
    is_used: bool,
    /// Policy of the arguments alone.
    argument_policy: Arc<FindingPolicy>,
    /// Nearest configuration of each folder.
    folders: Mutex<HashMap<PathBuf, Option<Arc<ProjectValidateConfig>>>>,
    /// Configurations that were loaded, by path.
    configs: Mutex<HashMap<PathBuf, Arc<ProjectValidateConfig>>>,
}

impl<'s> ValidateConfigCache<'s> {
    /// Creates an empty cache. With `--no-config`, no configuration is loaded.
    pub(crate) fn new(args: &ValidateArgs, project: &'s Project) -> Result<Self, CliError> {
        Ok(Self {
            project,
            is_used: !args.no_config,
            argument_policy: Arc::new(FindingPolicy::from_args(args)?),
            folders: Mutex::default(),
            configs: Mutex::default(),
        })
    }

    /// Returns the policy for the findings in this file.
    pub(crate) fn policy_for(&self, file: &Path) -> Arc<FindingPolicy> {
        let folder = file.parent().unwrap_or(Path::new(""));
        match self.nearest_config(folder) {
            Some(config) => Arc::clone(&config.policy),
            None => Arc::clone(&self.argument_policy),
        }
    }

    /// Returns the exclusions of the configuration in this folder. Returns `None` if the folder contains no configuration.
    pub(crate) fn exclusions_of_folder(&self, folder: &Path) -> Option<Arc<Gitignore>> {
        if !folder.join(".ensemble").is_dir() {
            return None;
        }
        let config = self.nearest_config(folder)?;
        (config.folder == folder.canonicalize().ok()?).then(|| Arc::clone(&config.exclude))
    }

    /// Returns the report format that the configuration of the caller's folder sets.
    pub(crate) fn configured_report_format(&self) -> Option<ValidateFormat> {
        let format = self.nearest_config(&self.project.folder)?.output?;
        Some(match format {
            ReportFormat::Human => ValidateFormat::Human,
            ReportFormat::Json => ValidateFormat::Json,
            ReportFormat::Github => ValidateFormat::Github,
            ReportFormat::Sarif => ValidateFormat::Sarif,
            ReportFormat::Junit => ValidateFormat::Junit,
        })
    }

    /// Returns the nearest configuration of the folder, from the cache or from disk.
    fn nearest_config(&self, folder: &Path) -> Option<Arc<ProjectValidateConfig>> {
        if !self.is_used {
            return None;
        }
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached_config) = folders.get(folder) {
            return cached_config.clone();
        }
        let absolute = self.project.folder.join(folder);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        let path = find_config_files(&absolute, self.project).project;
        let config = path.and_then(|path| self.load_config_once(&path));
        folders.insert(folder.to_owned(), config.clone());
        config
    }

    /// Loads the configuration at this path, unless the cache contains it. Returns `None` if the file cannot be read.
    fn load_config_once(&self, path: &Path) -> Option<Arc<ProjectValidateConfig>> {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached_config) = configs.get(path) {
            return Some(Arc::clone(cached_config));
        }
        let source = self.project.read_file(&self.project.relative_path(path)).ok()?;
        let settings = load_configuration(&source).settings;
        let folder = path.parent().and_then(Path::parent).unwrap_or(path).to_owned();
        let exclude = settings.exclude.iter().map(|(index, pattern)| (*index, &**pattern));
        let config = Arc::new(ProjectValidateConfig {
            policy: Arc::new(self.argument_policy.with_settings(&settings)),
            exclude: Arc::new(parse_patterns(&folder, exclude).0),
            output: settings.output,
            folder,
        });
        configs.insert(path.to_owned(), Arc::clone(&config));
        Some(config)
    }

    /// Returns whether this file is a configuration of a project or of the user.
    pub(crate) fn is_config_file(&self, file: &Path) -> bool {
        if file.file_name().is_none_or(|name| name != "config.yaml") {
            return false;
        }
        let path = self.project.folder.join(file);
        let path = path.canonicalize().unwrap_or(path);
        path.ends_with(".ensemble/config.yaml") || is_user_config(&path, self.project)
    }

    /// Returns the configurations around these files that have findings, of projects and of the user, as paths for output.
    pub(crate) fn list_configs_with_findings<'f>(&self, files: impl Iterator<Item = &'f Path>) -> Vec<PathBuf> {
        let mut folders: Vec<&Path> = files.filter_map(Path::parent).collect();
        folders.sort_unstable();
        folders.dedup();
        let mut paths: Vec<PathBuf> = Vec::new();
        for folder in folders {
            let folder = self.project.folder.join(folder);
            let files = find_config_files(&folder, self.project);
            for path in files.project.into_iter().chain(files.user) {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        paths.sort();
        let relative_paths = paths.iter().map(|path| self.project.relative_path(path));
        let is_wrong = |path: &PathBuf| {
            let source = self.project.read_file(path);
            source.is_ok_and(|source| !check_config_text(&source, path, self.project).is_empty())
        };
        relative_paths.filter(is_wrong).collect()
    }
}

/// Checks the text of a configuration and returns all findings.
pub(crate) fn check_config_text(source: &SourceText, path: &Path, project: &Project) -> Vec<Diagnostic> {
    let ConfigurationLoadResult {
        document,
        settings,
        mut findings,
    } = load_configuration(source);
    let exclude = settings.exclude.iter().map(|(index, pattern)| (*index, &**pattern));
    let faults = parse_patterns(&project.folder, exclude).1;
    findings.extend(
        faults
            .into_iter()
            .map(|(index, reason)| bad_pattern_finding(index, &reason)),
    );
    let absolute = project.folder.join(path);
    let has_settings = document.as_ref().is_some_and(|it| it.root().get("validate").is_some());
    if has_settings && is_user_config(&absolute.canonicalize().unwrap_or(absolute), project) {
        findings.push(idle_settings_finding());
    }
    let text = check::TextSecrets::find_in(source, document.as_ref());
    findings.extend(text.secret_warnings());
    let mut diagnostics = locate_findings(source, document.as_ref(), &findings);
    if let Some(document) = &document {
        diagnostics = filter_allowed_diagnostics(document, diagnostics, true);
    }
    text.redact_diagnostics(&mut diagnostics);
    diagnostics
}

/// Returns whether the path is the configuration of the user.
fn is_user_config(path: &Path, project: &Project) -> bool {
    let user = project.user_config.as_ref();
    user.is_some_and(|user| user.canonicalize().is_ok_and(|user| user == path))
}

/// Creates the finding about an invalid pattern in `exclude`.
fn bad_pattern_finding(index: usize, reason: &str) -> Finding {
    let at = Route::root()
        .with_key("validate")
        .with_key("exclude")
        .with_index(index)
        .into_value_location();
    let finding = Finding::new_error(codes::BAD_PATTERN, at, format!("this is not a valid pattern: {reason}"));
    finding.with_help("write it as a line of a `.gitignore`, such as `vendor/**` or `*.draft.yaml`")
}

/// Creates the finding about `validate` settings in the configuration of the user, where they have no effect.
fn idle_settings_finding() -> Finding {
    let at = Route::root().with_key("validate").into_key_location();
    let message = "`validate` has no effect in the user's own configuration";
    Finding::new_warning(codes::IDLE_SETTINGS, at, message)
        .with_help("move it to the `.ensemble/config.yaml` of a project")
}
