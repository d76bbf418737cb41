//! The designer: an ensemble's text, what is found in it, its graph, and what an edit in the graph changes in the text.
//!
//! A text that is open belongs to the page, which sends it whole; the server keeps none. The page's text has no byte order
//! mark and ends its lines with `\n` ([`ends`]). Work that takes time is done apart from the thread that serves.
//!
//! **Invariant:** only ensembles that are listed, and test files beside them, are read and written, and only inside the served
//! folder. A file is written only if it is as the page has read it, or is created where none was.

mod edit;
mod ends;
mod examine;
mod file;
mod new;
mod units;
mod watch;

use std::sync::Arc;

use serde_json::Value;

use crate::app::App;
use crate::reply::{self, Failure, Reply};

/// Answers a question about this file. Nothing changes.
pub(crate) async fn read(app: &Arc<App>, path: &str, file: Option<&str>) -> Result<Option<Reply>, Failure> {
    let missing = || Failure::wrong("`file` is missing");
    let file = || file.map(str::to_owned).ok_or_else(missing);
    Ok(Some(match path {
        "/api/design/file" => {
            let file = file()?;
            reply::json(&apart(app, move |app| file::document(app, &file)).await?)
        }
        "/api/design/events" => watch::events(app, file()?).await?,
        _ => return Ok(None),
    }))
}

/// Does what is asked for.
pub(crate) async fn act(app: &Arc<App>, path: &str, given: &Value) -> Result<Option<Reply>, Failure> {
    let given = given.clone();
    Ok(Some(match path {
        "/api/design/examine" => reply::json(&apart(app, move |app| examine::examine(app, &given)).await?),
        "/api/design/graph" => reply::picture(apart(app, move |app| examine::graph(app, &given)).await?),
        "/api/design/edit" => reply::json(&apart(app, move |app| edit::edit(app, &given)).await?),
        "/api/design/new" => reply::json(&apart(app, move |app| new::ensemble(app, &given)).await?),
        "/api/design/save" => reply::json(&apart(app, move |app| file::save(app, &given)).await?),
        _ => return Ok(None),
    }))
}

/// Does it on a thread of its own.
async fn apart<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let app = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || work(&app)).await;
    done.unwrap_or_else(|_| Err(Failure::gone("the text cannot be read: this is a fault of the program")))
}

/// A text that must be given.
fn wanted<'g>(given: &'g Value, name: &str) -> Result<&'g str, Failure> {
    given[name]
        .as_str()
        .ok_or_else(|| Failure::wrong(format!("`{name}` is missing")))
}
