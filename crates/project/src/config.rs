//! The configurations of the project and of the user, and what of them counts.
//!
//! Invariant: what needs trust and has none counts as not there, and is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::operator::escape_hidden;
use ensemble_language::data::sha256_of_text;
use ensemble_language::ensemble::ModelProfile;
use ensemble_language::loader;
use ensemble_language::profiles::ModelProfiles;

use crate::error::ProjectError;
use crate::owner::is_private_file;
use crate::project::Project;
use crate::trust::{IgnoredContent, describe_profile_uses};

/// A configuration file and the profiles in it.
#[derive(Debug)]
pub struct ModelProfileConfig {
    /// The file, absolute.
    pub path: PathBuf,
    /// The profiles.
    pub profiles: Vec<(Arc<str>, ModelProfile)>,
    /// The names of the profiles that count only if the file is trusted, each with what it would do.
    pub untrusted_profiles: Vec<(Arc<str>, Vec<String>)>,
    /// The digest of the file.
    pub(crate) digest: String,
}

/// Returns the profiles of the project's and of the user's configuration, as far as they count. What a project's file
/// says about keys and values of the environment counts only if the user trusts it; otherwise it is left alone, and
/// told.
///
/// # Errors
/// A configuration cannot be read, or has errors.
pub fn load_trusted_configs(folder: &Path, project: &Project) -> Result<Vec<ModelProfileConfig>, ProjectError> {
    let mut configs = Vec::new();
    let user = load_user_config(project)?;
    if let Some(path) = find_project_config(folder, project) {
        configs.push(ModelProfileConfig::load(&path, user.as_ref(), project)?.drop_untrusted_profiles(project));
    }
    if let Some(user) = user {
        let is_own = is_private_file(&user.path);
        configs.push(if is_own {
            user.with_all_trusted()
        } else {
            user.drop_untrusted_profiles(project)
        });
    }
    Ok(configs)
}

/// Returns all profiles of the configurations, trusted or not, for checks that send nothing.
pub(crate) fn load_all_profiles(
    folder: &Path,
    project: &Project,
) -> Result<Vec<(Arc<str>, ModelProfile)>, ProjectError> {
    let user = load_user_config(project)?;
    let path = find_project_config(folder, project);
    let of_project = path
        .map(|path| ModelProfileConfig::load(&path, None, project))
        .transpose()?;
    Ok(of_project
        .into_iter()
        .chain(user)
        .flat_map(|read| read.profiles)
        .collect())
}

/// Returns the configuration at that path, with what it would do.
pub(crate) fn load_config_with_uses(path: &Path, project: &Project) -> Result<ModelProfileConfig, ProjectError> {
    let user = load_user_config(project)?.filter(|user| user.path != path);
    ModelProfileConfig::load(path, user.as_ref(), project)
}

/// The configurations that files in `folder` have.
#[derive(Debug, Default)]
pub struct ConfigFiles {
    /// That of the project: the nearest upward.
    pub project: Option<PathBuf>,
    /// That of the user.
    pub user: Option<PathBuf>,
}

/// Returns the paths of the configurations that files in `folder` have, absolute.
pub fn find_config_files(folder: &Path, project: &Project) -> ConfigFiles {
    ConfigFiles {
        project: find_project_config(folder, project),
        user: find_user_config(project).filter(|path| !project.trust.is_foreign_reported(path)),
    }
}

fn find_project_config(folder: &Path, project: &Project) -> Option<PathBuf> {
    let of_user = find_user_config(project);
    project
        .project_config(folder)
        .filter(|path| Some(path) != of_user.as_ref())
}

fn load_user_config(project: &Project) -> Result<Option<ModelProfileConfig>, ProjectError> {
    let path = find_user_config(project).filter(|path| !project.trust.is_foreign_reported(path));
    path.map(|path| ModelProfileConfig::load(&path, None, project))
        .transpose()
}

/// Returns the user's own configuration, if there is one.
pub(crate) fn find_user_config(project: &Project) -> Option<PathBuf> {
    let path = project.user_config.as_ref().filter(|path| path.is_file())?;
    Some(path.canonicalize().unwrap_or_else(|_| path.clone()))
}

impl ModelProfileConfig {
    /// Reads it. A profile that the user's configuration has too counts only with trust.
    fn load(path: &Path, user: Option<&Self>, project: &Project) -> Result<Self, ProjectError> {
        let source = project.read_file(&project.relative_path(path))?;
        let profiles = loader::load_profiles(&source).map_err(|errors| match project.boundary {
            None => ProjectError::Invalid(errors),
            // The file is not quoted: it can be a link.
            Some(_) => ProjectError::Unreadable {
                path: project.relative_path(path),
                reason: "it has errors".to_owned(),
            },
        })?;
        let replaces = |name: &str| user.is_some_and(|user| user.profiles.iter().any(|(own, _)| &**own == name));
        let mut untrusted = Vec::new();
        for (name, profile) in &profiles {
            let mut lines = describe_profile_uses(name, profile);
            if replaces(name) {
                let name = escape_hidden(name);
                lines.push(format!(
                    "model profile `{name}` replaces the profile of that name in your own configuration"
                ));
            }
            if !lines.is_empty() {
                untrusted.push((name.clone(), lines));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            profiles,
            untrusted_profiles: untrusted,
            digest: sha256_of_text(source.text()),
        })
    }

    /// Returns all that the profiles would do.
    pub(crate) fn environment_use_lines(&self) -> Vec<String> {
        self.untrusted_profiles
            .iter()
            .flat_map(|(_, lines)| lines.clone())
            .collect()
    }

    /// Returns all of it.
    fn with_all_trusted(self) -> Self {
        Self {
            untrusted_profiles: Vec::new(),
            ..self
        }
    }

    /// As far as it is trusted.
    fn drop_untrusted_profiles(mut self, project: &Project) -> Self {
        if self.untrusted_profiles.is_empty() || project.trust.is_trusted(&self.path, &self.digest) {
            return self.with_all_trusted();
        }
        project
            .trust
            .report_ignored_once(&self.path, || IgnoredContent::IgnoredParts {
                path: project.relative_path(&self.path),
                lines: self.environment_use_lines(),
            });
        let untrusted = &self.untrusted_profiles;
        self.profiles
            .retain(|(name, _)| untrusted.iter().all(|(untrusted, _)| untrusted != name));
        self
    }

    /// Adds the profiles that count, and says which do not.
    #[must_use]
    pub fn add_to_profiles(self, profiles: ModelProfiles, project: &Project) -> ModelProfiles {
        let place = project.relative_path(&self.path).display().to_string();
        let untrusted = self.untrusted_profiles.into_iter().map(|(name, _)| name);
        profiles
            .with_untrusted_profiles(&place, untrusted)
            .with_source(place, self.profiles)
    }
}
