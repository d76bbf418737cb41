//! A model whose replies come from a stub.
//!
//! Invariant: the model sends no request.

use std::sync::Arc;

use ensemble_core::thread::ToolCall;
use ensemble_language::ensemble::{LlmSpec, ModelProfile, SIMULATED_PROVIDER, SimulatedReply};
use ensemble_language::profiles::ChainedProfile;
use ensemble_models::{
    BoxFuture, Model, ModelError, ModelProvider, ModelReply, ModelRequest, ReplyPiece, ReplyPieceCallback,
};
use serde_json::Value;

use crate::options::replacements::ReplyStub;
use crate::runners::shared_parts::AgentBuildContext;

/// A model provider that returns the replies of a stub.
struct StubbedModelProvider(Arc<dyn ReplyStub>);

/// Builds a model that returns the replies of the stub. The model has the profile of the agent.
pub(crate) fn build_stubbed_model(llm: &LlmSpec, stub: Arc<dyn ReplyStub>, parts: &AgentBuildContext<'_>) -> Model {
    let resolved = parts.profiles.resolve_chain(&llm.model).ok();
    let link = resolved.and_then(|resolved| resolved.chain.into_iter().next());
    let (name, profile) = match link {
        Some(link) => (link.name, ModelProfile::clone(&link.profile)),
        None => (SIMULATED_PROVIDER.into(), ModelProfile::default()),
    };
    let profile = ModelProfile {
        provider: SIMULATED_PROVIDER.into(),
        simulated: None,
        ..profile
    };
    let link = ChainedProfile {
        name,
        profile: Arc::new(profile),
    };
    Model::with_providers(vec![(link, Arc::new(StubbedModelProvider(stub)))])
}

impl ModelProvider for StubbedModelProvider {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let reply = self.0.find_reply(request.execution, request.request_number);
            let reply = match reply.map_err(ModelError::new_fatal)? {
                SimulatedReply::Text(text) => ModelReply::from_text(text),
                SimulatedReply::Error(message) => return Err(ModelError::new_fatal(message)),
                SimulatedReply::Calls { text, tool_calls } => {
                    let calls = tool_calls.into_iter().enumerate().map(|(at, call)| {
                        let id = format!("call-{}-{}", request.request_number, at + 1);
                        ToolCall::new(id, call.name, Value::Object(call.arguments))
                    });
                    ModelReply {
                        tool_calls: calls.collect(),
                        ..ModelReply::from_text(text)
                    }
                }
            };
            if !reply.text.is_empty() {
                on_piece(ReplyPiece::Text(&reply.text));
            }
            Ok(reply)
        })
    }
}
