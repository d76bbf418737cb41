//! The ensembles that a client of the page may start, and with which it may decide a run again.
//!
//! Invariant: a client uses only ensembles that the page lists, or that are inside its folder. The text of another file is
//! never quoted.

use std::sync::Arc;

use ensemble_language::loader::load_ensemble;
use ensemble_project::prepare::can_be_quoted_to_client;
use ensemble_project::project::Project;

use crate::app::UiServerState;
use crate::reply::ApiFailure;

/// Checks that a client can use the ensemble that it names, by name or path.
///
/// # Errors
/// The ensemble does not exist, is neither listed nor inside the folder, or the file is not an ensemble.
pub(super) async fn check_usable_ensemble(app: &Arc<UiServerState>, given: &str) -> Result<(), ApiFailure> {
    let given = given.to_owned();
    app.run_blocking(move |app| check_usable_file(app.runs.runs().project(), &given))
        .await
}

/// Checks that the file is listed or inside the folder, and is an ensemble.
fn check_usable_file(project: &Project, given: &str) -> Result<(), ApiFailure> {
    let unlisted = || ApiFailure::not_found(format!("there is no ensemble `{given}` on this page"));
    let file = project.resolve_ensemble_file(given).map_err(|_| unlisted())?;
    let absolute = project.folder.join(&file);
    let is_listed = || {
        let listed = project.list_named_and_shadowed_files();
        listed.iter().any(|(_, listed)| project.folder.join(listed) == absolute)
    };
    if !project.contains_file(&file) && !is_listed() {
        return Err(unlisted());
    }
    let source = project.read_file(&file).map_err(|_| unlisted())?;
    match can_be_quoted_to_client(&file, &load_ensemble(&source)) {
        true => Ok(()),
        false => Err(ApiFailure::bad_request(format!("`{given}` is not an ensemble"))),
    }
}

/// Returns the ensemble under the key `file`, if there is one, after checking that the client can use it.
///
/// # Errors
/// As [`check_usable_ensemble`].
pub(super) async fn checked_file_argument(
    app: &Arc<UiServerState>,
    given: &serde_json::Value,
) -> Result<Option<String>, ApiFailure> {
    let Some(file) = given["file"].as_str() else {
        return Ok(None);
    };
    check_usable_ensemble(app, file).await?;
    Ok(Some(file.to_owned()))
}
