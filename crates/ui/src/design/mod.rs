//! The designer: an ensemble's text, what is found in it, its graph, and what an edit in the graph changes in the text.
//!
//! A text that is open belongs to the page, which sends it whole; the server keeps none. The page's text has no byte order
//! mark and ends its lines with `\n` ([`line_ends`]). Work that takes time is done apart from the thread that serves.
//!
//! **Invariant:** only ensembles that are listed, and test files beside them, are read and written, and only inside the served
//! folder. A file is written only if it is as the page has read it, or is created where none was.

mod edit;
mod file;
mod line_ends;
mod new_ensemble;
mod text_check;
mod utf16_lines;
mod watch;

use std::sync::Arc;

use serde_json::Value;

use crate::app::UiServerState;
use crate::reply::{self, ApiFailure, UiReply};

/// Answers a GET request of the designer. Returns `None` for other paths.
pub(crate) async fn answer_design_get(
    app: &Arc<UiServerState>,
    path: &str,
    file: Option<&str>,
) -> Result<Option<UiReply>, ApiFailure> {
    let missing = || ApiFailure::bad_request("`file` is missing");
    let file = || file.map(str::to_owned).ok_or_else(missing);
    Ok(Some(match path {
        "/api/design/file" => {
            let file = file()?;
            reply::json_reply(&app.run_blocking(move |app| file::load_file_json(app, &file)).await?)
        }
        "/api/design/keys" => reply::json_reply(&edit::form_keys_json()),
        "/api/design/events" => watch::stream_file_changes(app, file()?).await?,
        _ => return Ok(None),
    }))
}

/// Performs a POST request of the designer. Returns `None` for other paths.
pub(crate) async fn answer_design_post(
    app: &Arc<UiServerState>,
    path: &str,
    given: &Value,
) -> Result<Option<UiReply>, ApiFailure> {
    let body = given.clone();
    Ok(Some(match path {
        "/api/design/examine" => {
            reply::json_reply(&app.run_blocking(move |app| text_check::check_text(app, &body)).await?)
        }
        "/api/design/graph" => reply::picture_reply(
            app.run_blocking(move |app| text_check::draw_text_graph(app, &body))
                .await?,
        ),
        "/api/design/edit" => reply::json_reply(&app.run_blocking(move |app| edit::plan_edit(app, &body)).await?),
        "/api/design/new" => reply::json_reply(
            &app.run_blocking(move |app| new_ensemble::create_ensemble_file(app, &body))
                .await?,
        ),
        "/api/design/save" => reply::json_reply(
            &app.run_blocking(move |app| file::save_file_and_scripts(app, &body))
                .await?,
        ),
        _ => return Ok(None),
    }))
}

/// Returns the text under this key. Fails if it is missing.
fn required_text<'g>(given: &'g Value, name: &str) -> Result<&'g str, ApiFailure> {
    given[name]
        .as_str()
        .ok_or_else(|| ApiFailure::bad_request(format!("`{name}` is missing")))
}
