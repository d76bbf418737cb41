//! The configurations of the project and of the user, and what of them counts.
//!
//! Invariant: what needs trust and has none counts as not there, and is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::operator::visible;
use ensemble_language::data::digest;
use ensemble_language::ensemble::Profile;
use ensemble_language::loader;
use ensemble_language::profiles::Profiles;

use crate::error::ProjectError;
use crate::owner::is_private;
use crate::project::Project;
use crate::trust::{LeftAlone, of_profile};

/// A configuration file and the profiles in it.
#[derive(Debug)]
pub struct Config {
    /// The file, absolute.
    pub path: PathBuf,
    /// The profiles.
    pub profiles: Vec<(Arc<str>, Profile)>,
    /// The names of the profiles that count only if the file is trusted, each with what it would do.
    pub untrusted: Vec<(Arc<str>, Vec<String>)>,
    /// The digest of the file.
    pub(crate) digest: String,
}

/// The profiles of the project's and of the user's configuration, as far as they count. What a project's file says about keys
/// and values of the environment counts only if the user trusts it; otherwise it is left alone, and told.
///
/// # Errors
/// A configuration cannot be read, or has errors.
pub fn config_profiles(folder: &Path, project: &Project) -> Result<Vec<Config>, ProjectError> {
    let mut found = Vec::new();
    let user = of_user(project)?;
    if let Some(path) = of_project(folder, project) {
        found.push(Config::read(&path, user.as_ref(), project)?.counted(project));
    }
    if let Some(user) = user {
        let is_own = is_private(&user.path);
        found.push(if is_own { user.whole() } else { user.counted(project) });
    }
    Ok(found)
}

/// All profiles of the configurations, trusted or not, for checks that send nothing.
pub(crate) fn written_profiles(folder: &Path, project: &Project) -> Result<Vec<(Arc<str>, Profile)>, ProjectError> {
    let user = of_user(project)?;
    let path = of_project(folder, project);
    let of_project = path.map(|path| Config::read(&path, None, project)).transpose()?;
    Ok(of_project
        .into_iter()
        .chain(user)
        .flat_map(|read| read.profiles)
        .collect())
}

/// The configuration at that path, with what it would do.
pub(crate) fn config_of(path: &Path, project: &Project) -> Result<Config, ProjectError> {
    let user = of_user(project)?.filter(|user| user.path != path);
    Config::read(path, user.as_ref(), project)
}

/// The configurations that files in `folder` have.
#[derive(Debug, Default)]
pub struct ConfigFiles {
    /// That of the project: the nearest upward.
    pub project: Option<PathBuf>,
    /// That of the user.
    pub user: Option<PathBuf>,
}

/// The paths of the configurations that files in `folder` have, absolute.
pub fn config_files(folder: &Path, project: &Project) -> ConfigFiles {
    ConfigFiles {
        project: of_project(folder, project),
        user: users(project).filter(|path| !project.trust.is_strange(path)),
    }
}

fn of_project(folder: &Path, project: &Project) -> Option<PathBuf> {
    let of_user = users(project);
    project
        .project_config(folder)
        .filter(|path| Some(path) != of_user.as_ref())
}

fn of_user(project: &Project) -> Result<Option<Config>, ProjectError> {
    let path = users(project).filter(|path| !project.trust.is_strange(path));
    path.map(|path| Config::read(&path, None, project)).transpose()
}

/// The user's own configuration, if there is one.
pub(crate) fn users(project: &Project) -> Option<PathBuf> {
    let path = project.user_config.as_ref().filter(|path| path.is_file())?;
    Some(path.canonicalize().unwrap_or_else(|_| path.clone()))
}

impl Config {
    /// Reads it. A profile that the user's configuration has too counts only with trust.
    fn read(path: &Path, user: Option<&Self>, project: &Project) -> Result<Self, ProjectError> {
        let source = project.read(&project.relative(path))?;
        let profiles = loader::profiles(&source).map_err(ProjectError::Invalid)?;
        let replaces = |name: &str| user.is_some_and(|user| user.profiles.iter().any(|(own, _)| &**own == name));
        let mut untrusted = Vec::new();
        for (name, profile) in &profiles {
            let mut lines = of_profile(name, profile);
            if replaces(name) {
                let name = visible(name);
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
            untrusted,
            digest: digest(source.text()),
        })
    }

    /// All that the profiles would do.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.untrusted.iter().flat_map(|(_, lines)| lines.clone()).collect()
    }

    /// All of it.
    fn whole(self) -> Self {
        Self {
            untrusted: Vec::new(),
            ..self
        }
    }

    /// As far as it is trusted.
    fn counted(mut self, project: &Project) -> Self {
        if self.untrusted.is_empty() || project.trust.allows(&self.path, &self.digest) {
            return self.whole();
        }
        project.trust.tell(&self.path, || LeftAlone::Parts {
            path: project.relative(&self.path),
            lines: self.lines(),
        });
        let untrusted = &self.untrusted;
        self.profiles
            .retain(|(name, _)| untrusted.iter().all(|(untrusted, _)| untrusted != name));
        self
    }

    /// Adds the profiles that count, and says which do not.
    #[must_use]
    pub fn add_to(self, profiles: Profiles, project: &Project) -> Profiles {
        let place = project.relative(&self.path).display().to_string();
        let untrusted = self.untrusted.into_iter().map(|(name, _)| name);
        profiles
            .with_untrusted(&place, untrusted)
            .with_place(place, self.profiles)
    }
}
