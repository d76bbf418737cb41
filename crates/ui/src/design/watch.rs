//! The file on disk, whoever writes it.
//!
//! The file is looked at a few times in a second, since that works on every system and for every kind of replacement.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ensemble_project::project::Project;
use serde_json::json;
use tokio::sync::mpsc;

use super::file;
use crate::app::UiApp;
use crate::events::{BEAT, event_frame};
use crate::reply::{self, Reply, RequestFailure};

/// How often the file is looked at.
const EVERY: Duration = Duration::from_millis(250);
/// Number of polls after which the text is read although its metadata is unchanged, because file times can be too coarse.
const ANYWAY: u32 = 8;

/// Time of the last change and size of a file.
type Seen = Option<(Option<SystemTime>, u64)>;

/// Streams the content of a file as events: `{text, digest}` now and after each change, and `gone` while it is not editable.
pub(super) async fn watch_file(app: &Arc<UiApp>, name: String) -> Result<Reply, RequestFailure> {
    let path = {
        let name = name.clone();
        app.run_blocking(move |app| file::open_file(app, &name)).await?.path
    };
    let (sender, receiver) = mpsc::channel(4);
    let project = app.runs.runs().project().clone();
    tokio::spawn(async move {
        let mut last: Option<(Seen, String)> = None;
        let (mut looks, mut silent) = (0, Duration::ZERO);
        loop {
            let (project, path) = (project.clone(), path.clone());
            let previous_state = last.clone().filter(|_| looks % ANYWAY != 0);
            let Ok(now) = tokio::task::spawn_blocking(move || read_if_changed(&project, &path, previous_state)).await
            else {
                return;
            };
            looks += 1;
            if let Some((seen, told, bytes)) = now {
                let is_news = last.as_ref().is_none_or(|(_, before)| *before != told);
                last = Some((seen, told));
                if is_news {
                    silent = Duration::ZERO;
                    if sender.send(bytes).await.is_err() {
                        return;
                    }
                }
            }
            silent += EVERY;
            if silent >= BEAT {
                silent = Duration::ZERO;
                if sender
                    .send(hyper::body::Bytes::from_static(b": still here\n\n"))
                    .await
                    .is_err()
                {
                    return;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = sender.closed() => return,
            }
        }
    });
    Ok(reply::events_reply(receiver))
}

/// Reads the file if it has changed. Returns its stamp, its digest and an event, or `None` if it is unchanged.
fn read_if_changed(
    project: &Project,
    path: &PathBuf,
    known: Option<(Seen, String)>,
) -> Option<(Seen, String, hyper::body::Bytes)> {
    let full = project.folder.join(path);
    let file_stamp = full.metadata().ok().map(|data| (data.modified().ok(), data.len()));
    if known.is_some_and(|(before, _)| before == file_stamp) {
        return None;
    }
    let read = project.read_file(path).ok();
    let read = read.filter(|source| project.contains_file(path) && file::is_editable(path, source));
    Some(match read {
        Some(source) => {
            let state = file::text_and_digest(source.text());
            let digest = state["digest"].to_string();
            (file_stamp, digest, event_frame("file", &state))
        }
        None => (file_stamp, String::new(), event_frame("gone", &json!({}))),
    })
}
