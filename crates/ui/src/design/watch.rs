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
use crate::app::UiServerState;
use crate::events::{HEARTBEAT_INTERVAL, event_frame};
use crate::reply::{self, ApiFailure, UiReply};

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Number of polls after which the text is read although its metadata is unchanged, because file times can be too coarse.
const POLLS_BETWEEN_READS: u32 = 8;

/// Time of the last change and size of a file.
type FileStamp = Option<(Option<SystemTime>, u64)>;

/// Streams the content of a file as events: `{text, digest}` now and after each change, and `gone` while it is not editable.
pub(super) async fn stream_file_changes(app: &Arc<UiServerState>, name: String) -> Result<UiReply, ApiFailure> {
    let path = {
        let name = name.clone();
        app.run_blocking(move |app| file::load_editable_file(app, &name))
            .await?
            .path
    };
    let (sender, receiver) = mpsc::channel(4);
    let project = app.runs.runs().project().clone();
    tokio::spawn(async move {
        let mut last: Option<(FileStamp, String)> = None;
        let (mut looks, mut silent) = (0, Duration::ZERO);
        loop {
            let (project, path) = (project.clone(), path.clone());
            let previous_state = last.clone().filter(|_| looks % POLLS_BETWEEN_READS != 0);
            let Ok(now) =
                tokio::task::spawn_blocking(move || read_event_if_changed(&project, &path, previous_state)).await
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
            silent += POLL_INTERVAL;
            if silent >= HEARTBEAT_INTERVAL {
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
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = sender.closed() => return,
            }
        }
    });
    Ok(reply::events_reply(receiver))
}

/// Reads the file if it has changed. Returns its stamp, its digest and an event, or `None` if it is unchanged.
fn read_event_if_changed(
    project: &Project,
    path: &PathBuf,
    known: Option<(FileStamp, String)>,
) -> Option<(FileStamp, String, hyper::body::Bytes)> {
    let full = project.folder.join(path);
    let file_stamp = full.metadata().ok().map(|data| (data.modified().ok(), data.len()));
    if known.is_some_and(|(before, _)| before == file_stamp) {
        return None;
    }
    let read = project.read_file(path).ok();
    let read = read.filter(|source| project.contains_file(path) && file::is_ensemble_or_test_file(path, source));
    Some(match read {
        Some(source) => {
            let state = file::text_with_digest_json(source.text());
            let digest = state["digest"].to_string();
            (file_stamp, digest, event_frame("file", &state))
        }
        None => (file_stamp, String::new(), event_frame("gone", &json!({}))),
    })
}
