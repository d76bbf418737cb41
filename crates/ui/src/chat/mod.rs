//! `/v1/chat/completions`: each ensemble is a model, for any program that speaks to models.
//!
//! A conversation is a run, which the request names (`metadata.run`) or which is found among the runs that were begun here. Other
//! messages begin a new run that has them as its input.
//!
//! Invariant: a client that hangs up does not end a run.

mod asked;
mod said;
mod talk;
mod wire;

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::app::App;
use crate::reply::{self, Failure, Reply, events};
use asked::Asked;
use said::Said;
use talk::talk;
use wire::Wire;

/// The ensembles as models.
pub(crate) fn models(app: &App) -> Value {
    let names = app.runs.runs().project().named_files();
    let models: Vec<Value> = names.iter().map(|(name, _)| model(name)).collect();
    json!({"object": "list", "data": models})
}

/// Renders one ensemble as a model.
pub(crate) fn one_model(app: &App, name: &str) -> Result<Value, Failure> {
    file_of(app, name).map(|_| model(name))
}

fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "ensemble"})
}

/// The file of an ensemble that has a name.
fn file_of(app: &App, name: &str) -> Result<String, Failure> {
    let mut names = app.runs.runs().project().named_files().into_iter();
    let found = names
        .find(|(known, _)| known == name)
        .map(|(_, path)| path.display().to_string());
    found.ok_or_else(|| {
        let mut failure = Failure::missing(format!("there is no ensemble `{name}`; /v1/models lists them"));
        failure.code = "model_not_found";
        failure
    })
}

/// Answers the last message.
pub(crate) async fn complete(app: &Arc<App>, given: &Value) -> Result<Reply, Failure> {
    let asked = Asked::of(given)?;
    let file = file_of(app, &asked.model)?;
    let (sender, mut said) = mpsc::unbounded_channel();
    let talking = talk(app.clone(), asked.clone(), file, sender).await?;
    let mut wire = Wire::new(&asked.model, &talking);
    if !asked.is_streamed {
        while let Some(one) = said.recv().await {
            match one {
                Said::Piece(_) => {}
                Said::End(end) => return Ok(reply::json(&wire.whole(&end))),
                Said::Failed(failure) => return Err(failure),
            }
        }
        return Err(Failure::gone("the program is ending"));
    }
    let (frames, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let mut next = Some(wire.first());
        loop {
            if let Some(frame) = next.take()
                && frames.send(frame).await.is_err()
            {
                // The client is gone, and the run goes on.
                return;
            }
            let beat = tokio::time::sleep(crate::events::BEAT);
            tokio::select! {
                one = said.recv() => match one {
                    Some(Said::Piece(text)) => next = Some(wire.piece(&text)),
                    Some(Said::End(end)) => {
                        let _ = frames.send(wire.last(&end, asked.wants_usage)).await;
                        return;
                    }
                    Some(Said::Failed(failure)) => {
                        let _ = frames.send(wire.failed(failure)).await;
                        return;
                    }
                    None => return,
                },
                () = beat => next = Some(Bytes::from_static(b": still here\n\n")),
                () = frames.closed() => return,
            }
        }
    });
    Ok(events(receiver))
}
