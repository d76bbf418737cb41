//! Configurations of the project and of the user, reduced to their trusted parts.
//!
//! Invariant: a part that needs trust and has no trust is ignored and reported.

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

/// Configuration file with its model profiles.
#[derive(Debug)]
pub struct ModelProfileConfig {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Profiles in the file.
    pub profiles: Vec<(Arc<str>, ModelProfile)>,
    /// Names of the profiles that need trust in the file, each with its uses of the environment.
    pub untrusted_profiles: Vec<(Arc<str>, Vec<String>)>,
    /// Digest of the file.
    pub(crate) digest: String,
}

/// Loads the configurations of the project and of the user. The profiles of a project's file that use keys and values of the
/// environment need the trust of the user. Without trust, they are ignored and reported.
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

/// Loads all profiles of the configurations, trusted or not, for checks that send nothing.
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

/// Loads the configuration at this path, with its uses of keys and values of the environment.
pub(crate) fn load_config_with_uses(path: &Path, project: &Project) -> Result<ModelProfileConfig, ProjectError> {
    let user = load_user_config(project)?.filter(|user| user.path != path);
    ModelProfileConfig::load(path, user.as_ref(), project)
}

/// Paths of the configurations for the files in a folder.
#[derive(Debug, Default)]
pub struct ConfigFiles {
    /// Configuration of the project: the nearest upward.
    pub project: Option<PathBuf>,
    /// Configuration of the user.
    pub user: Option<PathBuf>,
}

/// Returns the absolute paths of the configurations for files in `folder`.
pub fn find_config_files(folder: &Path, project: &Project) -> ConfigFiles {
    ConfigFiles {
        project: find_project_config(folder, project),
        user: find_user_config(project).filter(|path| !project.trust.is_foreign_reported(path)),
    }
}

/// Returns the nearest configuration of the project upward, unless it is the configuration of the user.
fn find_project_config(folder: &Path, project: &Project) -> Option<PathBuf> {
    let of_user = find_user_config(project);
    project
        .project_config(folder)
        .filter(|path| Some(path) != of_user.as_ref())
}

/// Loads the configuration of the user. Returns `None` if there is none, or if the file belongs to another user.
fn load_user_config(project: &Project) -> Result<Option<ModelProfileConfig>, ProjectError> {
    let path = find_user_config(project).filter(|path| !project.trust.is_foreign_reported(path));
    path.map(|path| ModelProfileConfig::load(&path, None, project))
        .transpose()
}

/// Returns the absolute path of the user's configuration, if the file exists.
pub(crate) fn find_user_config(project: &Project) -> Option<PathBuf> {
    let path = project.user_config.as_ref().filter(|path| path.is_file())?;
    Some(path.canonicalize().unwrap_or_else(|_| path.clone()))
}

impl ModelProfileConfig {
    /// Loads a configuration. A profile that replaces a profile of `user` needs trust.
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

    /// Returns a line for each use of the environment by a profile that needs trust.
    pub(crate) fn environment_use_lines(&self) -> Vec<String> {
        self.untrusted_profiles
            .iter()
            .flat_map(|(_, lines)| lines.clone())
            .collect()
    }

    /// Treats all profiles as trusted.
    fn with_all_trusted(self) -> Self {
        Self {
            untrusted_profiles: Vec::new(),
            ..self
        }
    }

    /// Removes and reports the profiles that need trust, unless the file is trusted.
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

    /// Adds the trusted profiles to `profiles`, and registers the names of the untrusted ones.
    #[must_use]
    pub fn add_to_profiles(self, profiles: ModelProfiles, project: &Project) -> ModelProfiles {
        let place = project.relative_path(&self.path).display().to_string();
        let untrusted = self.untrusted_profiles.into_iter().map(|(name, _)| name);
        profiles
            .with_untrusted_profiles(&place, untrusted)
            .with_source(place, self.profiles)
    }
}
