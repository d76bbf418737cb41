use std::num::NonZeroU32;

use serde_json::json;

use super::*;
use crate::agent::fixtures;
use crate::agent::fixtures::Prepared;
use ensemble_core::thread::{
    Message, MessageRole, Thread, ThreadIteration, ToolCall, ToolCallEnd, select_remembered_iterations,
};
use ensemble_language::data::{ModelUsage, RemainingBudget};
use ensemble_language::ensemble::{AgentKind, ModelChoice, ModelProfile, RetryPolicy};
use ensemble_models::{ModelError, ModelReply, ModelRequest, RequestTokens, ToolSpec};

fn says(text: &str) -> Result<ModelReply, ModelError> {
    Ok(ModelReply::from_text(text))
}

fn fails(message: &str) -> Result<ModelReply, ModelError> {
    Err(ModelError::new_retryable(message))
}

fn message(role: MessageRole, content: &str) -> Message {
    Message::new(role, content)
}

fn llm() -> LlmSpec {
    LlmSpec {
        model: ModelChoice::Profile("any".into()),
        prompt: Some("Judge {{ writer }}".into()),
        system_prompt: Some("You are {{ parameters.role }}.".into()),
        attachments: Vec::new(),
        memory: MemoryMode::Conversation,
        context_window: None,
        tools: Vec::new(),
        max_iterations: LlmSpec::MAX_ITERATIONS,
        max_parallel_tools: LlmSpec::MAX_PARALLEL_TOOLS,
    }
}

fn agent(llm: &LlmSpec, schema: Option<Value>, max_attempts: u32) -> Agent {
    Agent {
        output_schema: schema,
        retry: RetryPolicy {
            max_attempts: NonZeroU32::new(max_attempts).unwrap(),
            ..RetryPolicy::default()
        },
        ..fixtures::agent("judge", AgentKind::Llm(llm.clone()), &["writer"])
    }
}

fn execution() -> ExecutionInput {
    let parameters = json!({"role": "strict"});
    ExecutionInput {
        dependencies: vec![("writer".into(), Arc::new(json!({"response": "Owls."})))],
        parameters: Arc::new(parameters.as_object().unwrap().clone()),
        thread: Arc::new(Thread::from_iterations(vec![ThreadIteration {
            messages: vec![
                message(MessageRole::User, "before"),
                message(MessageRole::Assistant, "after"),
            ],
            ..ThreadIteration::default()
        }])),
        requests_made: 5,
        ..fixtures::execution("judge", 2)
    }
}

fn runner(
    llm: LlmSpec,
    schema: Option<Value>,
    max_attempts: u32,
    replies: Vec<Result<ModelReply, ModelError>>,
) -> (LlmAgentRunner, Prepared) {
    let fake = Prepared::saying(replies);
    let link = ChainedProfile {
        name: "any".into(),
        profile: Arc::new(ModelProfile {
            system_prompt: Some("Be polite.".into()),
            ..ModelProfile::default()
        }),
    };
    let model = Model::with_providers(vec![(link, Arc::new(fake.clone()))]);
    let agent = agent(&llm, schema, max_attempts);
    (
        LlmAgentRunner::new(&agent, &llm, LlmRunnerOptions::for_model(model)).expect("is sound"),
        fake,
    )
}

async fn observe(runner: &LlmAgentRunner, execution: ExecutionInput) -> AttemptResult {
    match runner.execute_attempt(execution).await {
        AttemptEnd::Finished(observation) => observation,
        other => panic!("{other:?}"),
    }
}

fn asked(fake: &Prepared) -> Vec<Vec<(MessageRole, String)>> {
    let asked = fake.asked.lock().unwrap();
    let pairs = |request: &ModelRequest| {
        let messages = request.messages.iter();
        messages
            .map(|message| (message.role, message.content.clone()))
            .collect()
    };
    asked.iter().map(pairs).collect()
}

fn score_schema() -> Value {
    json!({
        "type": "object",
        "required": ["score"],
        "properties": {"score": {"type": "integer"}},
        "additionalProperties": false,
    })
}

#[tokio::test]
async fn instructions_thread_and_task_are_sent_in_this_order() {
    let (runner, fake) = runner(llm(), None, 1, vec![says("Good.\n")]);
    let observation = observe(&runner, execution()).await;
    let expected = [
        (MessageRole::System, "Be polite.\n\nYou are strict."),
        (MessageRole::User, "before"),
        (MessageRole::Assistant, "after"),
        (MessageRole::User, "Judge Owls."),
    ];
    assert_eq!(asked(&fake)[0], expected.map(|(role, text)| (role, text.to_owned())));
    assert_eq!(fake.asked.lock().unwrap()[0].request_number, 6, "five were made before");
    assert_eq!(observation.result.map(Value::Object), Ok(json!({"response": "Good."})));
    let exchange = [
        message(MessageRole::User, "Judge Owls."),
        message(MessageRole::Assistant, "Good.\n"),
    ];
    assert_eq!(observation.exchange[0].messages, exchange);
}

#[tokio::test]
async fn without_memory_or_instructions_only_the_task_is_sent() {
    let forgetful = LlmSpec {
        memory: MemoryMode::None,
        prompt: None,
        ..llm()
    };
    let (runner, fake) = runner(forgetful, None, 1, vec![says("x")]);
    observe(&runner, execution()).await;
    let asked = asked(&fake);
    assert_eq!(asked[0].len(), 2);
    assert_eq!(asked[0][1].1, "## Input\nthe input\n\n## Output of writer\nOwls.");
}

#[tokio::test]
async fn usage_is_what_the_provider_counts_or_an_estimate() {
    let counted = ModelReply {
        tokens: Some(RequestTokens {
            input: 100,
            cached: 0,
            output: 7,
        }),
        ..says("x").unwrap()
    };
    let (runner_counted, _) = runner(llm(), None, 1, vec![Ok(counted)]);
    let usage = observe(&runner_counted, execution()).await.usage.unwrap();
    assert_eq!(
        (usage.requests, usage.input_tokens, usage.output_tokens, usage.estimated),
        (1, 100, 7, false)
    );
    let (runner, _) = runner(llm(), None, 1, vec![says("12345")]);
    let usage = observe(&runner, execution()).await.usage.unwrap();
    // 27 characters of instructions, 6 + 5 of the thread, 11 of the task.
    assert_eq!(
        (usage.requests, usage.input_tokens, usage.output_tokens, usage.estimated),
        (1, 14, 2, true)
    );
}

#[tokio::test]
async fn a_mismatch_is_sent_back_with_its_errors() {
    let replies = vec![says("no json"), says("{\"score\": \"x\"}"), says("{\"score\": 3}")];
    let (runner, fake) = runner(llm(), Some(score_schema()), 3, replies);
    let observation = observe(&runner, execution()).await;
    let expected = json!({"score": 3, "response": "{\"score\": 3}"});
    assert_eq!(observation.result.map(Value::Object), Ok(expected));
    assert_eq!(observation.usage.unwrap().requests, 3);
    assert_eq!(observation.exchange.len(), 3, "what was sent back is recorded");
    let exchange = select_remembered_iterations(observation.exchange);
    assert_eq!(exchange.len(), 1, "what was sent back is not remembered");
    let remembered = &exchange[0].messages;
    assert_eq!(remembered[0].content, "Judge Owls.", "the task, not the correction");
    assert_eq!(remembered[1].content, "{\"score\": 3}");
    let asked = asked(&fake);
    let last = &asked[2];
    assert_eq!(last[4], (MessageRole::Assistant, "no json".to_owned()));
    assert!(
        last[5].1.contains("the reply is not JSON: line 1, column "),
        "{}",
        last[5].1
    );
    assert!(
        last[7].1.contains("/score: \"x\" is not of type \"integer\""),
        "{}",
        last[7].1
    );
    let requests = fake.asked.lock().unwrap();
    let numbers: Vec<u64> = requests.iter().map(|request| request.request_number).collect();
    assert_eq!(numbers, [6, 7, 8]);
    assert_eq!(*requests[2].prompt, last[7].1, "the prompt is the last user message");
    assert_eq!(requests[2].output_schema.as_deref(), Some(&score_schema()));
}

/// A tool whose calls cost two requests of somebody else's.
struct Dear;

impl ExecutionToolSource for Dear {
    fn tools_for_execution<'a>(&'a self, _: &'a ExecutionInput) -> Box<dyn ModelTools + 'a> {
        Box::new(Self)
    }
}

impl ModelTools for Dear {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        let look = ToolSpec {
            name: "look".into(),
            description: String::new(),
            parameters: json!({}),
        };
        Box::pin(async { Ok([look].into()) })
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        Box::pin(async { call.with_end(ToolCallEnd::Result(json!("seen")), 0.0) })
    }

    fn take_usage(&self) -> ModelUsage {
        ModelUsage {
            requests: 2,
            by_tools: 2,
            ..ModelUsage::default()
        }
    }
}

#[tokio::test]
async fn requests_are_numbered_without_those_of_tools() {
    let calls = ModelReply {
        tool_calls: vec![ToolCall::new("1", "look", json!({}))],
        ..ModelReply::from_text("")
    };
    let (runner, fake) = runner(
        llm(),
        Some(score_schema()),
        2,
        vec![Ok(calls), says("no json"), says("{\"score\": 3}")],
    );
    let runner = LlmAgentRunner {
        tool_source: Some(Arc::new(Dear)),
        ..runner
    };
    let usage = observe(&runner, execution()).await.usage.unwrap();
    assert_eq!((usage.requests, usage.by_tools), (5, 2));
    let requests = fake.asked.lock().unwrap();
    let numbers: Vec<u64> = requests.iter().map(|request| request.request_number).collect();
    assert_eq!(numbers, [6, 7, 8]);
}

#[tokio::test]
async fn a_final_mismatch_fails_with_its_errors() {
    let (runner, fake) = runner(
        llm(),
        Some(score_schema()),
        2,
        vec![says("a"), says("{\"score\": 1, \"b\": 2}")],
    );
    let observation = observe(&runner, execution()).await;
    let failure = observation.result.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Schema);
    assert!(failure.error.contains("'b' was unexpected"), "{}", failure.error);
    assert_eq!(
        (observation.usage.unwrap().requests, observation.exchange.len()),
        (2, 2)
    );
    assert_eq!(asked(&fake).len(), 2, "no more than max_attempts");
}

#[tokio::test]
async fn the_attempt_after_a_mismatch_tells_the_model() {
    let (runner, fake) = runner(llm(), None, 1, vec![says("x"), says("x")]);
    let mismatch = ExecutionFailure::new(FailureKind::Schema, "score is missing");
    let after = |failure: ExecutionFailure| ExecutionInput {
        last_failure: Some(failure),
        ..execution()
    };
    let observation = observe(&runner, after(mismatch)).await;
    observe(&runner, after(ExecutionFailure::new(FailureKind::Model, "was down"))).await;
    let asked = asked(&fake);
    assert!(
        asked[0][3]
            .1
            .starts_with("Judge Owls.\n\nYour previous reply was rejected: score is missing")
    );
    assert_eq!(asked[1][3].1, "Judge Owls.");
    let sent = &observation.exchange[0].messages[0].content;
    assert!(sent.contains("score is missing"), "{sent}");
    assert_eq!(
        select_remembered_iterations(observation.exchange)[0].messages[0].content,
        "Judge Owls."
    );
}

#[tokio::test]
async fn a_model_that_fails_or_refuses_is_a_failure_that_has_cost_requests() {
    let refusal = ModelReply {
        stop_reason: StopReason::Refusal,
        ..says("I will not").unwrap()
    };
    let (model, refused) = (FailureKind::Model, FailureKind::Refusal);
    for (reply, kind, expected) in [
        (fails("down"), model, "down"),
        (Ok(refusal), refused, "the model refused: I will not"),
    ] {
        let (runner, _) = runner(llm(), None, 1, vec![reply]);
        let observation = observe(&runner, execution()).await;
        assert_eq!(observation.result, Err(ExecutionFailure::new(kind, expected)));
        assert_eq!(observation.usage.unwrap().requests, 1);
        assert_eq!(observation.exchange.len(), 1, "what was asked is told all the same");
    }
}

#[tokio::test]
async fn a_reply_that_was_cut_off_is_used_with_a_warning() {
    let cut = ModelReply {
        stop_reason: StopReason::MaxTokens,
        ..says("Owls a").unwrap()
    };
    let (runner, _) = runner(llm(), None, 1, vec![Ok(cut)]);
    let execution = execution();
    let ledger = execution.ledger.clone();
    assert!(observe(&runner, execution).await.result.is_ok());
    assert_eq!(
        ledger.take_entries().warnings,
        ["the model's reply was cut off at its token limit"]
    );
}

#[tokio::test]
async fn an_unknown_name_in_a_prompt_fails_before_anything_is_asked() {
    let typo = LlmSpec {
        prompt: Some("Judge {{ wirter }}".into()),
        ..llm()
    };
    let (runner, fake) = runner(typo, None, 1, vec![]);
    let observation = observe(&runner, execution()).await;
    let failure = observation.result.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(
        failure.error.starts_with("prompt: unknown variable `wirter`"),
        "{}",
        failure.error
    );
    assert!(asked(&fake).is_empty());
}

#[test]
fn what_is_broken_is_told_when_the_runner_is_built() {
    let broken = LlmSpec {
        system_prompt: Some("{{ nope".into()),
        ..llm()
    };
    let build = |llm: LlmSpec, schema| {
        LlmAgentRunner::new(
            &agent(&llm, schema, 1),
            &llm,
            LlmRunnerOptions::for_model(Model::with_providers(vec![])),
        )
        .err()
    };
    let error = build(broken, None).unwrap();
    assert!(error.to_string().starts_with("system_prompt: "), "{error}");
    let error = build(llm(), Some(json!({"type": "nmber"}))).unwrap();
    assert!(error.to_string().starts_with("output_schema: "), "{error}");
}

#[tokio::test]
async fn a_reply_is_not_sent_back_when_nothing_is_left_to_use() {
    for (tokens, requests) in [(1, 1), (1000, 2)] {
        let (runner, fake) = runner(llm(), Some(score_schema()), 2, vec![says("{}"), says("{}")]);
        let execution = ExecutionInput {
            remaining: RemainingBudget {
                tokens: Some(tokens),
                cost: None,
            },
            ..execution()
        };
        let AttemptEnd::Finished(observation) = runner.execute_attempt(execution).await else {
            panic!("it ends");
        };
        assert_eq!(observation.result.unwrap_err().kind, FailureKind::Schema);
        assert_eq!(fake.asked.lock().unwrap().len(), requests);
    }
}
