//! `/v1/chat/completions`: each ensemble is a model, for any program that speaks to models.
//!
//! A conversation is a run, which the request names (`metadata.run`) or which is found among the runs that were begun here. Other
//! messages begin a new run that has them as its input.
//!
//! Invariant: a client that hangs up does not end a run.

mod chat_reply;
mod chat_request;
mod reply_listener;
mod reply_writer;

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::app::UiServerState;
use crate::reply::{self, ApiFailure, UiReply, events_reply};
use chat_reply::ChatReplyItem;
use chat_request::ChatCompletionRequest;
use reply_listener::start_answering_run;
use reply_writer::ChatReplyWriter;

/// Lists the ensembles as models in the format of OpenAI.
pub(crate) fn list_ensemble_models(app: &UiServerState) -> Value {
    let names = app.runs.runs().project().list_named_files();
    let models: Vec<Value> = names.iter().map(|(name, _)| openai_model_json(name)).collect();
    json!({"object": "list", "data": models})
}

/// Returns the ensemble with this name as a model.
pub(crate) fn ensemble_model(app: &UiServerState, name: &str) -> Result<Value, ApiFailure> {
    resolve_ensemble_file(app, name).map(|_| openai_model_json(name))
}

/// Creates the JSON of a model.
fn openai_model_json(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "ensemble"})
}

/// Resolves the file of the ensemble with this name.
fn resolve_ensemble_file(app: &UiServerState, name: &str) -> Result<String, ApiFailure> {
    let mut names = app.runs.runs().project().list_named_files().into_iter();
    let file_path = names
        .find(|(known, _)| known == name)
        .map(|(_, path)| path.display().to_string());
    file_path.ok_or_else(|| {
        let mut failure =
            ApiFailure::not_found(format!("there is no ensemble `{name}`; /v1/models lists all ensembles"));
        failure.code = "model_not_found";
        failure
    })
}

/// Answers the last message of a chat request, streamed or as one document.
pub(crate) async fn complete_chat(app: &Arc<UiServerState>, given: &Value) -> Result<UiReply, ApiFailure> {
    let chat_request = ChatCompletionRequest::parse(given)?;
    let model = chat_request.model.clone();
    let file = app.run_blocking(move |app| resolve_ensemble_file(app, &model)).await?;
    let (sender, mut said) = mpsc::unbounded_channel();
    let talking = start_answering_run(app.clone(), chat_request.clone(), file, sender).await?;
    let mut wire = ChatReplyWriter::new(&chat_request.model, &talking);
    if !chat_request.is_streamed {
        while let Some(item) = said.recv().await {
            match item {
                ChatReplyItem::Piece(_) => {}
                ChatReplyItem::End(end) => return Ok(reply::json_reply(&wire.whole_reply(&end))),
                ChatReplyItem::Failed(failure) => return Err(failure),
            }
        }
        return Err(ApiFailure::unavailable("the program is shutting down"));
    }
    let (frames, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let mut next = Some(wire.first_chunk());
        loop {
            if let Some(frame) = next.take()
                && frames.send(frame).await.is_err()
            {
                // The client is gone, and the run goes on.
                return;
            }
            let beat = tokio::time::sleep(crate::events::HEARTBEAT_INTERVAL);
            tokio::select! {
                one = said.recv() => match one {
                    Some(ChatReplyItem::Piece(text)) => next = Some(wire.text_chunk(&text)),
                    Some(ChatReplyItem::End(end)) => {
                        let _ = frames.send(wire.last_chunks(&end, chat_request.wants_usage)).await;
                        return;
                    }
                    Some(ChatReplyItem::Failed(failure)) => {
                        let _ = frames.send(wire.failure_chunk(failure)).await;
                        return;
                    }
                    None => return,
                },
                () = beat => next = Some(Bytes::from_static(b": still here\n\n")),
                () = frames.closed() => return,
            }
        }
    });
    Ok(events_reply(receiver))
}
