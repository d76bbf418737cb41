//! The embedded `simulated` provider: examples and tests without a network, a key or chance.
//!
//! It has no latency and keeps no count of its own: the n-th request of an agent gets the n-th reply because the
//! request says that it is the n-th. Summaries are counted separately, so that they use up no replies of the agent.

use std::sync::Arc;

use serde_json::Value;

use crate::providers::simulated_script::describe_script_failure;
use crate::{
    BoxFuture, ModelError, ModelProvider, ModelReply, ModelRequest, ReplyPiece, ReplyPieceCallback, RequestPurpose,
    ScriptLoader,
};
use ensemble_core::thread::ToolCall;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{SimulatedReply, SimulatedReplySource};
use ensemble_scripts::{Script, ScriptFailure, ScriptVariable};

/// Provider `simulated`, which answers without a network.
#[derive(Debug)]
pub struct SimulatedProvider(SimulatedReplies);

/// Source of simulated replies: a fixed text, prepared replies, or a script.
#[derive(Debug)]
enum SimulatedReplies {
    /// Nothing was prepared: every reply says what it is.
    Announcement,
    Replies(Vec<SimulatedReply>),
    Script {
        /// The path in the file of the ensemble.
        name: Arc<str>,
        script: Arc<Script>,
    },
}

impl SimulatedProvider {
    /// Creates the provider. Loads and compiles a script now. The error is a message for the user.
    pub fn new(simulated: Option<&SimulatedReplySource>, load: &ScriptLoader) -> Result<Self, String> {
        Ok(Self(match simulated {
            None => SimulatedReplies::Announcement,
            Some(SimulatedReplySource::Replies(replies)) => SimulatedReplies::Replies(replies.clone()),
            Some(SimulatedReplySource::Script(path)) => {
                let script = Script::compile(&load(path)?).map_err(|error| error.message_with_position(path))?;
                SimulatedReplies::Script {
                    name: path.as_str().into(),
                    script,
                }
            }
        }))
    }
}

impl ModelProvider for SimulatedProvider {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let reply = match &self.0 {
                SimulatedReplies::Announcement => ModelReply::from_text(default_simulated_reply_text(&request)),
                SimulatedReplies::Replies(replies) => select_prepared_reply(replies, &request)?,
                SimulatedReplies::Script { name, script } => run_reply_script((name, script), &request).await?,
            };
            if !reply.text.is_empty() {
                on_piece(ReplyPiece::Text(&reply.text));
            }
            Ok(reply)
        })
    }
}

/// Renders a reply with the number of the request and the name of the agent.
fn default_simulated_reply_text(request: &ModelRequest) -> String {
    let noun = match request.purpose {
        RequestPurpose::Reply => "reply",
        RequestPurpose::Summary => "summary",
    };
    format!(
        "(simulated {noun} {} of {})",
        request.request_number, request.agent_name
    )
}

/// Returns the prepared reply with the number of the request. The last one repeats. A summary calls no tools, so replies that
/// call tools do not count for it.
fn select_prepared_reply(replies: &[SimulatedReply], request: &ModelRequest) -> Result<ModelReply, ModelError> {
    let at = usize::try_from(request.request_number.saturating_sub(1)).unwrap_or(usize::MAX);
    let is_usable = |reply: &&SimulatedReply| match request.purpose {
        RequestPurpose::Reply => true,
        RequestPurpose::Summary => !matches!(reply, SimulatedReply::Calls { .. }),
    };
    let usable: Vec<&SimulatedReply> = replies.iter().filter(is_usable).collect();
    match usable.get(at).or(usable.last()).copied() {
        Some(SimulatedReply::Text(text)) => Ok(ModelReply::from_text(text)),
        Some(SimulatedReply::Error(message)) => Err(ModelError::new_retryable(message)),
        Some(SimulatedReply::Calls { text, tool_calls }) => {
            let calls = tool_calls
                .iter()
                .map(|call| (call.name.clone(), call.arguments.clone()));
            Ok(build_tool_call_reply(text.clone(), calls, request))
        }
        None => Ok(ModelReply::from_text(default_simulated_reply_text(request))),
    }
}

/// Builds a reply with tool calls. Derives their ids from the request, so that a resumed run has the same ids.
fn build_tool_call_reply(
    text: String,
    calls: impl Iterator<Item = (String, JsonMap)>,
    request: &ModelRequest,
) -> ModelReply {
    let call = |(at, (name, arguments)): (usize, (String, JsonMap))| {
        let id = format!("call-{}-{}", request.request_number, at + 1);
        ToolCall::new(id, name, Value::Object(arguments))
    };
    ModelReply {
        tool_calls: calls.enumerate().map(call).collect(),
        ..ModelReply::from_text(text)
    }
}

/// Parses the map of a script as a reply with tool calls: `{text?, tool_calls: [{name, arguments?}]}`.
fn parse_script_reply(mut map: JsonMap, request: &ModelRequest) -> Result<ModelReply, ModelError> {
    let wrong = |what: &str| ModelError::new_fatal(format!("the script's `tool_calls` {what}"));
    let Some(Value::Array(calls)) = map.remove("tool_calls") else {
        return Err(wrong("is not a list"));
    };
    let mut called = Vec::new();
    for call in calls {
        let Value::Object(mut call) = call else {
            return Err(wrong("contains an item that is not a map"));
        };
        let Some(Value::String(name)) = call.remove("name") else {
            return Err(wrong("has an item without a `name`"));
        };
        let arguments = match call.remove("arguments") {
            Some(Value::Object(arguments)) => arguments,
            None | Some(Value::Null) => JsonMap::new(),
            Some(_) => return Err(wrong("has `arguments` that are not a map")),
        };
        called.push((name, arguments));
    }
    let text = match map.remove("text") {
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => String::new(),
        Some(value) => value.to_string(),
    };
    Ok(build_tool_call_reply(text, called.into_iter(), request))
}

/// Returns the variables of a script that simulates a model.
fn reply_script_variables(script: &Script, request: &ModelRequest) -> Vec<(&'static str, ScriptVariable)> {
    // A long conversation is not copied for a script that does not look at it.
    let messages = script.may_read_variable("messages").then(|| {
        request
            .messages
            .iter()
            .map(ensemble_core::thread::Message::to_json_without_bytes)
            .collect::<Value>()
    });
    vec![
        ("messages", ScriptVariable::Json(Arc::new(messages.unwrap_or_default()))),
        ("prompt", ScriptVariable::Text(Arc::clone(&request.prompt))),
        ("execution", ScriptVariable::Number(request.execution)),
    ]
}

/// Runs the script and converts its value to a reply.
async fn run_reply_script(
    (name, script): (&str, &Arc<Script>),
    request: &ModelRequest,
) -> Result<ModelReply, ModelError> {
    match script.run(reply_script_variables(script, request)).await {
        Ok(Value::String(text)) => Ok(ModelReply::from_text(text)),
        Ok(Value::Null) => Ok(ModelReply::from_text("")),
        Ok(Value::Object(map)) if map.contains_key("tool_calls") => parse_script_reply(map, request),
        Ok(value) => Ok(ModelReply::from_text(value.to_string())),
        Err(failure) => Err(ModelError {
            message: describe_script_failure(name, &failure),
            retryable: matches!(failure, ScriptFailure::Reported(_)),
            ..ModelError::new_fatal("")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_core::thread::{Message, MessageRole};
    use ensemble_language::ensemble::ModelProfile;

    fn request(number: u64) -> ModelRequest {
        ModelRequest {
            messages: vec![Message::new(MessageRole::User, "hello")],
            agent_name: "writer".into(),
            purpose: RequestPurpose::Reply,
            request_number: number,
            execution: 2,
            prompt: "hello".into(),
            output_schema: None,
            tools: Arc::default(),
            profile: Arc::new(ModelProfile::default()),
            clock: ensemble_core::stopwatch::Stopwatch::default(),
        }
    }

    fn simulator(simulated: Option<SimulatedReplySource>) -> SimulatedProvider {
        SimulatedProvider::new(simulated.as_ref(), &|_| Ok(String::new())).expect("compiles")
    }

    async fn text(simulator: &SimulatedProvider, number: u64) -> Result<String, String> {
        let reply = simulator.complete_request(request(number), &|_| {}).await;
        reply.map(|reply| reply.text).map_err(|error| error.message)
    }

    #[test]
    fn its_variables_are_those_that_checks_know() {
        let script = Script::compile("1").expect("a script");
        let names: Vec<&str> = reply_script_variables(&script, &request(1))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ensemble_language::check::MODEL_VARIABLES);
    }

    #[tokio::test]
    async fn the_nth_request_gets_the_nth_reply_and_the_last_repeats() {
        let replies = ["one", "two"].map(|text| SimulatedReply::Text(text.into())).to_vec();
        let simulator = simulator(Some(SimulatedReplySource::Replies(replies)));
        for (number, expected) in [(2, "two"), (1, "one"), (3, "two"), (1, "one"), (99, "two")] {
            assert_eq!(
                text(&simulator, number).await.as_deref(),
                Ok(expected),
                "request {number}"
            );
        }
    }

    #[tokio::test]
    async fn summaries_are_counted_apart_and_call_no_tools() {
        let calls = SimulatedReply::Calls {
            text: "I look".into(),
            tool_calls: Vec::new(),
        };
        let replies = vec![
            calls,
            SimulatedReply::Text("one".into()),
            SimulatedReply::Text("two".into()),
        ];
        let simulator = simulator(Some(SimulatedReplySource::Replies(replies)));
        for (purpose, number, expected) in [
            (RequestPurpose::Reply, 1, "I look"),
            (RequestPurpose::Summary, 1, "one"),
            (RequestPurpose::Summary, 2, "two"),
            (RequestPurpose::Summary, 3, "two"),
            (RequestPurpose::Reply, 2, "one"),
        ] {
            let asked = ModelRequest {
                purpose,
                ..request(number)
            };
            let reply = simulator.complete_request(asked, &|_| {}).await.expect("a reply");
            assert_eq!(reply.text, expected, "{purpose:?} {number}");
        }
    }

    #[tokio::test]
    async fn a_prepared_error_fails_and_may_be_tried_again() {
        let replies = vec![SimulatedReply::Error("busy".into()), SimulatedReply::Text("two".into())];
        let simulator = simulator(Some(SimulatedReplySource::Replies(replies)));
        let error = simulator.complete_request(request(1), &|_| {}).await.unwrap_err();
        assert_eq!((error.message.as_str(), error.retryable), ("busy", true));
        assert_eq!(text(&simulator, 2).await.as_deref(), Ok("two"));
    }

    #[tokio::test]
    async fn without_preparation_a_reply_says_what_it_is() {
        let simulator = simulator(None);
        assert_eq!(
            text(&simulator, 1).await.as_deref(),
            Ok("(simulated reply 1 of writer)")
        );
        assert_eq!(
            text(&simulator, 7).await.as_deref(),
            Ok("(simulated reply 7 of writer)")
        );
    }

    #[test]
    fn a_script_that_cannot_be_read_is_told() {
        let script = SimulatedReplySource::Script("sim.rhai".into());
        let error = SimulatedProvider::new(Some(&script), &|path| Err(format!("{path}: not found"))).unwrap_err();
        assert_eq!(error, "sim.rhai: not found");
    }

    #[tokio::test]
    async fn a_script_answers() {
        for (script, expected) in [
            ("`${prompt} ${execution} ${messages[0].role}`", "hello 2 user"),
            ("#{a: [1, 2]}", r#"{"a":[1,2]}"#),
            ("()", ""),
            ("40 + 2", "42"),
        ] {
            let how = SimulatedReplySource::Script("sim.rhai".into());
            let simulator = SimulatedProvider::new(Some(&how), &move |_| Ok(script.to_owned())).expect("compiles");
            assert_eq!(text(&simulator, 1).await.as_deref(), Ok(expected), "{script}");
        }
        let how = SimulatedReplySource::Script("sim.rhai".into());
        let simulator = SimulatedProvider::new(Some(&how), &|_| Ok("throw \"no\"".to_owned())).expect("compiles");
        let error = simulator.complete_request(request(1), &|_| {}).await.unwrap_err();
        assert_eq!((&*error.message, error.retryable), ("sim.rhai:1:1: no", true));
    }
}
