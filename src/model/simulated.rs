//! The embedded `simulated` provider: examples and tests without a network, a key or chance.
//!
//! It has no latency and keeps no count of its own: the n-th request of an agent gets the n-th reply because the
//! request says that it is the n-th.

use std::sync::Arc;

use serde_json::{Value, json};

use super::script::{describe, place, run};
use super::{BoxFuture, Heard, LoadScript, ModelError, ModelReply, ModelRequest, Provider};
use crate::ensemble::{Reply, Simulated};
use crate::sandbox::{Script, ScriptFailure, Variable};

/// The provider behind `provider: simulated`.
#[derive(Debug)]
pub struct Simulator(How);

#[derive(Debug)]
enum How {
    /// Nothing was prepared: every reply says what it is.
    Announced,
    Replies(Vec<Reply>),
    Script(Arc<Script>),
}

impl Simulator {
    /// Ready to answer; a script is read and compiled now. The error is in words.
    pub fn new(simulated: Option<&Simulated>, load: &LoadScript) -> Result<Self, String> {
        Ok(Self(match simulated {
            None => How::Announced,
            Some(Simulated::Replies(replies)) => How::Replies(replies.clone()),
            Some(Simulated::Script(path)) => {
                let script = Script::compile(&load(path)?).map_err(|error| format!("{path}: {}", place(&error)))?;
                How::Script(Arc::new(script))
            }
        }))
    }
}

impl Provider for Simulator {
    fn complete<'a>(
        &'a self,
        request: ModelRequest,
        heard: &'a Heard<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let text = match &self.0 {
                How::Announced => announced(&request),
                How::Replies(replies) => prepared(replies, &request)?,
                How::Script(script) => scripted(Arc::clone(script), &request).await?,
            };
            heard(&text);
            Ok(ModelReply::text(text))
        })
    }
}

fn announced(request: &ModelRequest) -> String {
    format!("(simulated reply {} of {})", request.request_number, request.agent_name)
}

fn prepared(replies: &[Reply], request: &ModelRequest) -> Result<String, ModelError> {
    let at = usize::try_from(request.request_number.saturating_sub(1)).unwrap_or(usize::MAX);
    match replies.get(at).or(replies.last()) {
        Some(Reply::Text(text)) => Ok(text.clone()),
        Some(Reply::Error(message)) => Err(ModelError::passing(message)),
        None => Ok(announced(request)),
    }
}

async fn scripted(script: Arc<Script>, request: &ModelRequest) -> Result<String, ModelError> {
    let variables = vec![
        ("messages", Variable::Json(Arc::new(json!(request.messages)))),
        ("prompt", Variable::Json(Arc::new(json!(request.prompt)))),
        ("execution", Variable::Json(Arc::new(json!(request.execution)))),
    ];
    match run(script, variables).await {
        Ok(Value::String(text)) => Ok(text),
        Ok(Value::Null) => Ok(String::new()),
        Ok(value) => Ok(value.to_string()),
        Err(failure) => Err(ModelError {
            message: describe(&failure),
            retryable: matches!(failure, ScriptFailure::Reported(_)),
            retry_after: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::Profile;
    use crate::thread::{Message, Role};

    fn request(number: u64) -> ModelRequest {
        ModelRequest {
            messages: vec![Message::new(Role::User, "hello")],
            agent_name: "writer".into(),
            request_number: number,
            execution: 2,
            prompt: "hello".into(),
            output_schema: None,
            tools: Arc::default(),
            profile: Arc::new(Profile::default()),
        }
    }

    fn simulator(simulated: Option<Simulated>) -> Simulator {
        Simulator::new(simulated.as_ref(), &|_| Ok(String::new())).expect("compiles")
    }

    async fn text(simulator: &Simulator, number: u64) -> Result<String, String> {
        let reply = simulator.complete(request(number), &|_| {}).await;
        reply.map(|reply| reply.text).map_err(|error| error.message)
    }

    #[tokio::test]
    async fn the_nth_request_gets_the_nth_reply_and_the_last_repeats() {
        let replies = ["one", "two"].map(|text| Reply::Text(text.into())).to_vec();
        let simulator = simulator(Some(Simulated::Replies(replies)));
        for (number, expected) in [(2, "two"), (1, "one"), (3, "two"), (1, "one"), (99, "two")] {
            assert_eq!(
                text(&simulator, number).await.as_deref(),
                Ok(expected),
                "request {number}"
            );
        }
    }

    #[tokio::test]
    async fn a_prepared_error_fails_and_may_be_tried_again() {
        let replies = vec![Reply::Error("busy".into()), Reply::Text("two".into())];
        let simulator = simulator(Some(Simulated::Replies(replies)));
        let error = simulator.complete(request(1), &|_| {}).await.unwrap_err();
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
        let script = Simulated::Script("sim.rhai".into());
        let error = Simulator::new(Some(&script), &|path| Err(format!("{path}: not found"))).unwrap_err();
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
            let how = Simulated::Script("sim.rhai".into());
            let simulator = Simulator::new(Some(&how), &move |_| Ok(script.to_owned())).expect("compiles");
            assert_eq!(text(&simulator, 1).await.as_deref(), Ok(expected), "{script}");
        }
        let how = Simulated::Script("sim.rhai".into());
        let simulator = Simulator::new(Some(&how), &|_| Ok("throw \"no\"".to_owned())).expect("compiles");
        let error = simulator.complete(request(1), &|_| {}).await.unwrap_err();
        assert!(error.message.contains("no") && error.retryable, "{error:?}");
    }
}
