use std::sync::Mutex;

use futures_util::FutureExt;
use serde_json::json;

use super::*;
use crate::agent::AttemptLedger;
use crate::agent::fixtures::Prepared;
use ensemble_core::runner::ExecutionRecorder;
use ensemble_core::thread::{MessageRole, ToolCall, ToolCallEnd};
use ensemble_language::data::{Cost, RemainingBudget};
use ensemble_language::ensemble::{ModelProfile, TokenPrice};
use ensemble_language::profiles::ChainedProfile;
use ensemble_models::{ModelError, ModelReply, ToolSpec};

/// `double` doubles, `slow` never ends; keeps how many of its calls were under way at once.
#[derive(Default)]
struct Sums {
    running: Mutex<(u32, u32)>,
}

impl ModelTools for Sums {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        let spec = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
            }),
        };
        Box::pin(async move { Ok([spec("double"), spec("slow")].into()) })
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        Box::pin(async move {
            if call.name == "slow" {
                std::future::pending::<()>().await;
            }
            {
                let mut running = self.running.lock().unwrap();
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            tokio::task::yield_now().await;
            self.running.lock().unwrap().0 -= 1;
            let n = call.arguments["n"].as_i64().unwrap_or_default();
            call.with_end(ToolCallEnd::Result(json!(n * 2)), 0.0)
        })
    }
}

/// Returns the texts of all messages of the thread.
pub(super) fn list_texts(thread: &Thread) -> Vec<String> {
    thread
        .to_messages()
        .into_iter()
        .map(|message| message.content)
        .collect()
}

fn says(text: &str) -> Result<ModelReply, ModelError> {
    Ok(ModelReply::from_text(text))
}

fn calls(text: &str, calls: &[(&str, &str, Value)]) -> Result<ModelReply, ModelError> {
    let calls = calls.iter();
    Ok(ModelReply {
        tool_calls: calls
            .map(|(id, name, arguments)| ToolCall::new(*id, *name, arguments.clone()))
            .collect(),
        ..ModelReply::from_text(text)
    })
}

fn dialogue(replies: Vec<Result<ModelReply, ModelError>>) -> (Dialogue, Prepared, Arc<Sums>) {
    priced(replies, None)
}

fn priced(replies: Vec<Result<ModelReply, ModelError>>, cost: Option<TokenPrice>) -> (Dialogue, Prepared, Arc<Sums>) {
    let fake = Prepared::saying(replies);
    let link = ChainedProfile {
        name: "any".into(),
        profile: Arc::new(ModelProfile {
            cost,
            ..ModelProfile::default()
        }),
    };
    let model = Model::with_providers(vec![(link, Arc::new(fake.clone()))]);
    let sums = Arc::new(Sums::default());
    let dialogue = Dialogue::new(model)
        .with_system("You count.")
        .with_tools(Arc::clone(&sums) as Arc<dyn ModelTools>)
        .with_clock(Arc::new(|| chrono::DateTime::UNIX_EPOCH));
    (dialogue, fake, sums)
}

#[tokio::test]
async fn text_tools_and_the_last_word_come_as_they_are_said() {
    let replies = vec![
        calls("Let me see.", &[("1", "double", json!({"n": 21}))]),
        says("It is 42."),
    ];
    let (dialogue, fake, _) = dialogue(replies);
    let mut stream = dialogue.say(Thread::default(), "Twice 21?");
    let mut pieces = Vec::new();
    while let Some(piece) = stream.next().await {
        pieces.push(piece);
    }
    assert_eq!(stream.stop_reason(), Some(StopReason::EndTurn));
    let text = |text: &str| StreamItem::Text(text.into());
    let [user, first, second, StreamItem::Tool(tool), third, fourth, last] = &pieces[..] else {
        panic!("{pieces:?}");
    };
    assert_eq!(user, &StreamItem::User(Message::new(MessageRole::User, "Twice 21?")));
    assert_eq!(
        (tool.text.as_str(), tool.to_string().as_str()),
        ("Let me see.", r#"double({"n":21}) -> 42"#)
    );
    assert_eq!([first, second], [&text("Let m"), &text("e see.")]);
    assert_eq!((tool.text_for_model().as_str(), tool.name.as_str()), ("42", "double"));
    assert_eq!([third, fourth], [&text("It i"), &text("s 42.")]);
    assert_eq!(
        last,
        &StreamItem::Final(Message::new(MessageRole::Assistant, "It is 42."))
    );

    let ended = stream.finish().await.expect("has ended");
    assert_eq!((ended.text.as_str(), ended.thread.iterations().len()), ("It is 42.", 2));
    assert!(ended.thread.has_final_reply());
    let asked = fake.asked.lock().unwrap();
    assert_eq!(
        asked[1].messages.len(),
        3,
        "instructions, question, and the reply with its call"
    );
    assert_eq!(asked[1].messages[2].tool_calls[0].text_for_model(), "42");
    assert_eq!((asked[0].request_number, asked[1].request_number), (1, 2));
}

#[tokio::test]
async fn several_tools_run_side_by_side_and_errors_go_back_to_the_model() {
    let replies = vec![
        calls(
            "",
            &[
                ("1", "double", json!({"n": 1})),
                ("2", "double", json!({"n": "one"})),
                ("3", "halve", json!({"n": 1})),
                ("4", "double", json!([1])),
                ("5", "double", json!({"n": 4})),
            ],
        ),
        says("Done."),
    ];
    let (dialogue, fake, sums) = dialogue(replies);
    let ended = dialogue
        .say_with_max_requests(Thread::default(), "go", 5)
        .await
        .expect("ends");
    let told: Vec<String> = ended.thread.iterations()[0]
        .tool_calls
        .iter()
        .map(ToolCall::text_for_model)
        .collect();
    assert_eq!((told[0].as_str(), told[4].as_str()), ("2", "8"));
    assert!(told[1].contains("/n: \\\"one\\\" is not of type"), "{}", told[1]);
    assert!(
        told[2].contains("there is no tool `halve`; there are: double, slow"),
        "{}",
        told[2]
    );
    assert!(told[3].contains("must be a JSON object"), "{}", told[3]);
    assert_eq!(
        sums.running.lock().unwrap().1,
        2,
        "both sound calls were under way at once"
    );
    assert_eq!(fake.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_model_that_never_stops_calling_is_stopped() {
    let call = || calls("", &[("1", "double", json!({"n": 1}))]);
    let (dialogue, fake, _) = dialogue(vec![call(), call(), call()]);
    let mut stream = DialogueStream::new(
        &dialogue,
        Thread::default(),
        DialogueStreamInput::Message(Message::new(MessageRole::User, "go")),
        2,
    );
    while stream.next().await.is_some() {}
    assert_eq!(stream.stop_reason(), Some(StopReason::MaxTurnRequests));
    let error = stream.finish().await.expect_err("it has no end");
    assert_eq!(error.cause, DialogueErrorKind::MaxTurnRequests(2));
    assert_eq!(fake.asked.lock().unwrap().len(), 2);
}

fn opening(remaining: RemainingBudget) -> RoundParameters {
    RoundParameters {
        thread: Arc::default(),
        earlier: 0,
        attachments: Vec::new(),
        text: "go".into(),
        systems: Vec::new(),
        source: ensemble_core::thread::ExecutionAttemptRef {
            run: "".into(),
            agent: "a".into(),
            execution: 1,
            attempt: 1,
        },
        requests_made: 0,
        summaries_made: 0,
        max_requests: 5,
        remaining,
        output_schema: None,
        remembered_text: None,
        records: ExecutionRecorder::default(),
        options: None,
        goes_on: None,
        clock: ensemble_core::stopwatch::Stopwatch::default(),
    }
}

#[tokio::test]
async fn what_the_run_may_use_ends_the_calls() {
    let tokens = |tokens| RemainingBudget {
        tokens: Some(tokens),
        cost: None,
    };
    let cost = |amount| RemainingBudget {
        tokens: None,
        cost: Some(Cost::from_amount(amount)),
    };
    // The first request is estimated at 4 tokens of input and 5 of output, and costs 0.014.
    let rows = [
        (tokens(9), 1, Some("max_total_tokens")),
        (tokens(10), 2, None),
        (cost(0.014), 1, Some("max_cost")),
        (cost(0.0141), 2, None),
    ];
    for (remaining, requests, used_up) in rows {
        let price = TokenPrice {
            cached_per_million: None,
            input_per_million: 1000.0,
            output_per_million: 2000.0,
        };
        let replies = vec![calls("long enough", &[("1", "double", json!({"n": 1}))]), says("x")];
        let (dialogue, fake, _) = priced(replies, Some(price));
        let ledger = AttemptLedger::default();
        let silence = ensemble_core::thread::IgnoredLiveOutput;
        let held = dialogue.run_round(opening(remaining), &dialogue.tools, &silence, &ledger);
        let ended = held.await.map(|(text, _)| text);
        assert_eq!(
            ended,
            used_up.map_or(Ok("x".to_owned()), |limit| Err(DialogueErrorKind::UsedUp(limit))),
            "{remaining:?} {:?}",
            ledger.usage_so_far()
        );
        assert_eq!(fake.asked.lock().unwrap().len(), requests, "{remaining:?}");
        if used_up.is_some() {
            let exchange = ledger.end_round();
            assert_eq!(exchange.iterations()[0].metadata["stop_reason"], "max_tokens");
        }
    }
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_counts() {
    let (dialogue, ..) = dialogue(vec![says("It is 42.")]);
    let ledger = AttemptLedger::default();
    let silence = ensemble_core::thread::IgnoredLiveOutput;
    let held = dialogue.run_round(opening(RemainingBudget::default()), &dialogue.tools, &silence, &ledger);
    assert!(held.now_or_never().is_none(), "it is in the middle of its reply");
    let made = ModelUsage {
        requests: 1,
        ..ModelUsage::default()
    };
    let mut left = ledger.take_entries();
    assert_eq!(left.usage, Some(made));
    assert_eq!(left.stopped[0].usage, made, "no record contains it");
    let request = left.take_open_request().expect("it was under way");
    assert_eq!(request.messages.len(), 1, "the message without its reply");
}

/// Returns the usage of a round.
async fn usage_of_round(dialogue: &Dialogue, tools: &dyn ModelTools, opening: RoundParameters) -> ModelUsage {
    let ledger = AttemptLedger::default();
    let silence = ensemble_core::thread::IgnoredLiveOutput;
    let end = dialogue.run_round(opening, tools, &silence, &ledger).await;
    assert!(end.is_ok(), "{end:?}");
    ledger.usage_so_far()
}

#[test]
fn an_estimate_counts_what_tools_were_asked_and_what_they_gave() {
    let call =
        |result: &str| ToolCall::new("1", "look", json!({"n": 1})).with_end(ToolCallEnd::Result(json!(result)), 0.1);
    let read = |result: &str| {
        let message = Message {
            tool_calls: vec![call(result)],
            ..Message::new(MessageRole::Assistant, "four")
        };
        let mut spent = ModelUsage::default();
        add_reply_usage(&ModelReply::from_text("four"), None, None, &[message], &mut spent);
        assert!(spent.estimated);
        spent.input_tokens
    };
    // The text is one token, the arguments are two.
    assert_eq!((read("four"), read(&"four".repeat(50))), (4, 53));
}

/// Tools whose calls cost two requests of somebody else's.
struct Dear(Arc<Sums>);

impl ModelTools for Dear {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        self.0.list_specs()
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        self.0.call_tool(call)
    }

    fn take_usage(&self) -> ModelUsage {
        ModelUsage {
            requests: 2,
            by_tools: 2,
            ..ModelUsage::default()
        }
    }
}

/// Leaves out the instructions, and keeps how many requests it was told of.
#[derive(Default)]
struct Narrow(Mutex<Vec<u64>>);

impl MessageSelector for Narrow {
    fn select_messages<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>> {
        self.0.lock().unwrap().push(sending.requests_made);
        Box::pin(async move {
            Ok(WindowOutput {
                messages: sending.messages,
                drops_system: true,
                ..WindowOutput::default()
            })
        })
    }
}

#[tokio::test]
async fn a_window_knows_the_agents_own_requests_and_may_leave_out_the_instructions() {
    let (dialogue, fake, sums) = dialogue(vec![calls("", &[("1", "double", json!({"n": 1}))]), says("x")]);
    let narrow = Arc::new(Narrow::default());
    let dialogue = dialogue.with_window(Some(narrow.clone()));
    let used = usage_of_round(&dialogue, &Dear(sums), opening(RemainingBudget::default())).await;
    assert_eq!((used.requests, used.by_tools), (4, 2));
    assert_eq!(*narrow.0.lock().unwrap(), [0, 1]);
    let asked = fake.asked.lock().unwrap();
    let numbers: Vec<u64> = asked.iter().map(|request| request.request_number).collect();
    assert_eq!(numbers, [1, 2]);
    let roles: Vec<MessageRole> = asked[0].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [MessageRole::User], "there are no instructions");
}

#[tokio::test]
async fn one_thing_after_the_other_is_one_thread() {
    let (dialogue, fake, _) = dialogue(vec![says("one"), says("two"), says("three")]);
    let all = dialogue.say_all(Thread::default(), ["a", "b", "c"]).await.expect("end");
    let texts: Vec<&str> = all.iter().map(|ended| ended.text.as_str()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    let asked = fake.asked.lock().unwrap();
    assert_eq!(asked[2].messages.len(), 6, "instructions, two rounds, the question");
    assert_eq!(asked[2].request_number, 3);
}

mod continued;
mod functions;
mod replays;
mod steps;
mod traces;

#[cfg(feature = "typed")]
mod asking_for_types {
    use super::*;

    #[tokio::test]
    async fn the_model_is_told_the_schema_and_that_a_reply_was_cut_off() {
        let cut = ModelReply {
            stop_reason: StopReason::MaxTokens,
            ..ModelReply::from_text(r#"{"value": [1, "#)
        };
        let (dialogue, fake, _) = dialogue(vec![Ok(cut), says(r#"{"value": [1]}"#)]);
        let answer = dialogue
            .say_as::<Vec<u8>>(Thread::default(), "x")
            .await
            .expect("a list");
        assert_eq!(answer.value, [1]);
        let asked = fake.asked.lock().unwrap();
        let schema = asked[0].output_schema.as_deref().expect("is sent along");
        assert_eq!(schema["properties"]["value"]["type"], "array");
        let system = &asked[1].messages[0].content;
        assert!(system.starts_with("You count.\n\nYour answer must be"), "{system}");
        assert!(system.contains(&schema.to_string()), "{system}");
        let correction = &asked[1].messages[3].content;
        assert!(correction.contains("it was cut off at its token limit"), "{correction}");
        assert_eq!(asked[1].request_number, 2);
    }
}
