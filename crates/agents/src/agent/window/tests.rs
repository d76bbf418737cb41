mod limits;
mod long_threads;

use std::num::NonZeroU32;
use std::sync::Mutex;

use super::*;
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{ExecutionAttemptRef, ToolCall, ToolCallEnd};
use ensemble_language::data::ModelUsage;
use ensemble_language::ensemble::ModelProfile;
use ensemble_language::profiles::ChainedProfile;
use ensemble_models::{ModelError, ModelProvider, ModelReply, ModelRequest, ReplyPieceCallback};

/// Answers every request alike, and keeps what it was asked.
#[derive(Clone)]
struct Scribe {
    says: Result<ModelReply, ModelError>,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl ModelProvider for Scribe {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        _: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.asked.lock().unwrap().push(request);
        let says = self.says.clone();
        Box::pin(async move { says })
    }
}

fn scribe(says: Result<&str, &str>) -> Scribe {
    Scribe {
        says: says.map(ModelReply::from_text).map_err(ModelError::new_fatal),
        asked: Arc::default(),
    }
}

fn window(rules: &ContextWindow, model_name: &str, scribe: &Scribe, script: &str) -> AgentWindow {
    window_of(None, rules, model_name, scribe, script)
}

/// Returns a window of an agent whose profile gives it this limit.
fn window_of(
    max_tokens: Option<u64>,
    window: &ContextWindow,
    model_name: &str,
    scribe: &Scribe,
    script: &str,
) -> AgentWindow {
    let connect = |_: &ModelChoice| {
        let link = ChainedProfile {
            name: "scribe".into(),
            profile: Arc::new(ModelProfile::default()),
        };
        Ok(Model::with_providers(vec![(link, Arc::new(scribe.clone()))]))
    };
    let script = script.to_owned();
    let load = move |_: &str| Ok(script.clone());
    let outside = AgentWindowOptions {
        tokenizer: None,
        model: &ModelChoice::Profile("own".into()),
        model_name,
        max_tokens,
        load: &load,
        connect: &connect,
    };
    AgentWindow::new(window, &outside).expect("is sound")
}

fn summarizing(max_tokens: u64) -> ContextWindow {
    ContextWindow {
        max_tokens: Some(max_tokens),
        min_recent_turns: NonZeroU32::MIN,
        strategy: WindowStrategy::Summarize(None),
        ..ContextWindow::default()
    }
}

/// Questions and answers of ten words each, then a question.
fn talk(turns: usize) -> Vec<Message> {
    let said = |role, at: usize| Message::new(role, format!("number {at} {}", "word ".repeat(9).trim_end()));
    let turn = |at| [said(MessageRole::User, at), said(MessageRole::Assistant, at)];
    let mut messages: Vec<Message> = (1..=turns).flat_map(turn).collect();
    messages.push(said(MessageRole::User, turns + 1));
    messages
}

/// The output of a window, with the usage of its summaries.
#[derive(Debug, Clone, PartialEq)]
struct Fitted {
    messages: Vec<Message>,
    drops_system: bool,
    dropped: Option<Value>,
    warnings: Vec<String>,
    usage: ModelUsage,
}

/// The error of a window, with the usage of its summaries.
#[derive(Debug)]
struct Unfitted {
    error: String,
    usage: ModelUsage,
}

async fn fit(window: &AgentWindow, messages: Vec<Message>, before: Option<Value>) -> Result<Fitted, Unfitted> {
    fit_after(window, UnsentIterations::default(), messages, before).await
}

/// Returns the output of a window for the messages after these iterations.
async fn fit_after(
    window: &AgentWindow,
    unsent: UnsentIterations,
    messages: Vec<Message>,
    before: Option<Value>,
) -> Result<Fitted, Unfitted> {
    let ledger = AttemptLedger::default();
    let source = ExecutionAttemptRef {
        run: "".into(),
        agent: "a".into(),
        execution: 1,
        attempt: 1,
    };
    let sending = WindowInput {
        system: Some("Be brief please."),
        task: messages
            .iter()
            .rposition(|one| one.role == MessageRole::User)
            .unwrap_or_default(),
        messages,
        unsent,
        source: &source,
        clock: &ensemble_core::stopwatch::Stopwatch::default(),
        requests_made: 9,
        summaries_made: 4,
        earlier_dropped: before,
        ledger: &ledger,
    };
    let fitted = window.select_messages(sending).await;
    let usage = ledger.usage_so_far();
    match fitted {
        Ok(output) => Ok(Fitted {
            messages: output.messages,
            drops_system: output.drops_system,
            dropped: output.dropped,
            warnings: output.warnings,
            usage,
        }),
        Err(WindowError { error }) => Err(Unfitted { error, usage }),
    }
}

fn size(window: &AgentWindow, fitted: &Fitted) -> u64 {
    let system = if fitted.drops_system {
        0
    } else {
        window.counter.count_text("Be brief please.")
    };
    window.counter.count_each_message(&fitted.messages).iter().sum::<u64>() + system
}

#[tokio::test]
async fn a_summary_that_is_too_long_is_shortened_and_the_limit_holds() {
    let scribe = scribe(Ok(&"They spoke of words. ".repeat(200)));
    let window = window(&summarizing(240), "llama3", &scribe, "");
    let fitted = fit(&window, talk(9), None).await.unwrap();
    assert!(size(&window, &fitted) <= 240, "{}", size(&window, &fitted));
    assert!(
        fitted.messages[0].content.ends_with('…'),
        "{}",
        fitted.messages[0].content
    );
    assert!(fitted.messages[0].content.contains("They spoke of words. They"));
    assert_eq!(fitted.messages.last(), talk(9).last());
    assert!(fitted.warnings.is_empty(), "{:?}", fitted.warnings);
    assert_eq!((fitted.usage.requests, fitted.usage.estimated), (1, true));
    let asked = scribe.asked.lock().unwrap();
    assert_eq!(asked[0].request_number, 5, "four were made before");
    assert!(asked[0].prompt.contains("User: number 1 word"), "{}", asked[0].prompt);
    assert!(
        !asked[0].prompt.contains("number 10"),
        "what is said now is not summed up"
    );
}

#[tokio::test]
async fn a_summary_serves_the_same_beginning_and_no_other() {
    let scribe = scribe(Ok("They spoke."));
    let window = window(&summarizing(240), "llama3", &scribe, "");
    let first = fit(&window, talk(9), None).await.unwrap();
    let again = fit(&window, talk(9), first.dropped.clone()).await.unwrap();
    assert_eq!((again.usage.requests, &again.messages), (0, &first.messages));
    let longer = fit(&window, talk(10), first.dropped.clone()).await.unwrap();
    // The note of the first summary has its request; a request that reuses the summary made none.
    let mut without_request = first.dropped.clone().unwrap();
    let written = without_request
        .as_object_mut()
        .and_then(|note| note.remove("summary_requests"));
    assert_eq!(written.unwrap()[0]["reply"], "They spoke.");
    assert_eq!((longer.usage.requests, longer.dropped), (0, Some(without_request)));
    // A tool that has taken another time, as a journal may read it, is no other beginning.
    let with_tool = |duration| {
        let mut messages = talk(9);
        let call = ToolCall::new("1", "look", json!({}));
        messages[1].tool_calls = vec![call.with_end(ToolCallEnd::Result(json!("sun")), duration)];
        messages
    };
    let tool = fit(&window, with_tool(0.1), None).await.unwrap();
    let told = scribe.asked.lock().unwrap().last().unwrap().prompt.clone();
    assert!(told.contains("Tool look({}) gave: sun"), "{told}");
    let same = fit(&window, with_tool(0.2), tool.dropped.clone()).await.unwrap();
    assert_eq!(same.usage.requests, 0);
    let other = fit(&window, with_tool(0.2), first.dropped.clone()).await.unwrap();
    assert_eq!(other.usage.requests, 1, "another beginning needs another summary");
    let before = scribe.asked.lock().unwrap().len();
    let far = fit(&window, talk(20), first.dropped.clone()).await.unwrap();
    let told = scribe.asked.lock().unwrap().last().unwrap().prompt.clone();
    assert!(
        told.starts_with("Your minutes so far:\n\nThey spoke.\n\nWhat was said after that"),
        "{told}"
    );
    let read_again = scribe.asked.lock().unwrap()[before..]
        .iter()
        .any(|request| request.prompt.contains("number 1 word"));
    assert!(!read_again, "what has been summed up is not read again");
    assert!(size(&window, &far) <= 240);
}

#[tokio::test]
async fn a_summary_of_turns_that_must_be_sent_does_not_serve() {
    let scribe = scribe(Ok("They spoke."));
    let before = fit(&window(&summarizing(240), "llama3", &scribe, ""), talk(9), None).await;
    let note = before.unwrap().dropped;
    assert!(note.as_ref().unwrap()["messages"].as_u64() > Some(2), "{note:?}");
    // Somebody has edited the ensemble in between.
    let rules = ContextWindow {
        min_recent_turns: NonZeroU32::new(9).unwrap(),
        ..summarizing(240)
    };
    let fitted = fit(&window(&rules, "llama3", &scribe, ""), talk(9), note)
        .await
        .unwrap();
    assert!(fitted.messages.ends_with(&talk(9)[2..]), "{:?}", fitted.messages);
}

#[tokio::test]
async fn much_at_once_is_summed_up_piece_by_piece() {
    let scribe = scribe(Ok("They spoke."));
    let window = window(&summarizing(240), "llama3", &scribe, "");
    let fitted = fit(&window, talk(60), None).await.unwrap();
    assert!(fitted.usage.requests > 4, "{}", fitted.usage.requests);
    let asked = scribe.asked.lock().unwrap();
    let numbers: Vec<u64> = asked.iter().map(|request| request.request_number).collect();
    assert!(numbers.iter().copied().eq(5..5 + fitted.usage.requests), "{numbers:?}");
    assert!(
        asked
            .iter()
            .all(|request| window.counter.count_text(&request.prompt) < 400)
    );
    let all: String = asked.iter().map(|request| request.prompt.to_string()).collect();
    let dropped = fitted.dropped.unwrap()["messages"].as_u64().unwrap() / 2;
    assert!((1..=dropped).all(|at| all.matches(&format!("User: number {at} word")).count() == 1));
}

#[tokio::test]
async fn a_summary_that_cannot_be_had_is_an_error_that_has_cost_a_request() {
    for (says, words) in [
        (Err("down"), "context_window: no summary was created: down"),
        (
            Ok("  "),
            "context_window: no summary was created: the model's reply is empty",
        ),
    ] {
        let window = window(&summarizing(240), "llama3", &scribe(says), "");
        let unfitted = fit(&window, talk(9), None).await.unwrap_err();
        assert_eq!((unfitted.error.as_str(), unfitted.usage.requests), (words, 1));
    }
}

#[tokio::test]
async fn where_no_summary_has_room_there_is_none_and_a_word_about_it() {
    let scribe = scribe(Ok("They spoke."));
    let window = window(&summarizing(60), "llama3", &scribe, "");
    let fitted = fit(&window, talk(9), None).await.unwrap();
    assert_eq!(fitted.usage.requests, 0);
    assert!(size(&window, &fitted) <= 60);
    assert_eq!(
        fitted.warnings,
        ["the context window has no room for a summary of the messages that are left out"]
    );
}

#[tokio::test]
async fn instructions_that_may_go_go_with_the_first_summary() {
    let rules = ContextWindow {
        preserve_system_message: false,
        ..summarizing(240)
    };
    let window = window(&rules, "llama3", &scribe(Ok("They spoke.")), "");
    let fitted = fit(&window, talk(9), None).await.unwrap();
    assert!(fitted.drops_system && size(&window, &fitted) <= 240);
    assert_eq!(fitted.dropped.unwrap()["system"], true);
    assert!(!fit(&window, talk(3), None).await.unwrap().drops_system);
}

#[tokio::test]
async fn a_known_tokenizer_counts_and_its_limit_holds() {
    let rules = ContextWindow {
        max_tokens: Some(100),
        ..ContextWindow::default()
    };
    let window = window(&rules, "gpt-4o-mini", &scribe(Err("nobody asks")), "");
    let fitted = fit(&window, talk(9), None).await.unwrap();
    assert!(size(&window, &fitted) <= 100);
    let note = fitted.dropped.unwrap();
    assert!(note["estimated"].is_null(), "{note}");
    let longer = window
        .counter
        .count_each_message(&talk(9)[19 - fitted.messages.len() - 2..])
        .iter()
        .sum::<u64>();
    assert!(
        longer > 100 - window.counter.count_text("Be brief please."),
        "no more is left out than must be"
    );
}

#[tokio::test]
async fn a_script_sees_sizes_and_limits() {
    let rules = ContextWindow {
        max_tokens: Some(50),
        max_messages: None,
        strategy: WindowStrategy::Custom("keep.rhai".into()),
        ..ContextWindow::default()
    };
    let script = r#"
        if tokens.len() != messages.len() || max_tokens != 50 || max_messages != () || min_recent_turns != 3
            || system != "Be brief please." || system_tokens < 4 { throw "not as told"; }
        [messages[2], messages[3], messages[messages.len() - 1]]
    "#;
    // Checks know the same variables.
    let known = ensemble_language::check::WINDOW_VARIABLES.join(", ");
    let script = format!("let all = [{known}]; {script}");
    let window = window(&rules, "llama3", &scribe(Err("nobody asks")), &script);
    let fitted = fit(&window, talk(4), None).await.unwrap();
    let talk_of = talk(4);
    assert_eq!(
        fitted.messages,
        [talk_of[2].clone(), talk_of[3].clone(), talk_of[8].clone()]
    );
    assert_eq!(fitted.dropped.unwrap()["messages"], 6);
    let few = fit(&window, talk(1), None).await.unwrap();
    assert_eq!(
        (few.messages, few.dropped),
        (talk(1), None),
        "what fits needs no script"
    );
}

#[tokio::test]
async fn a_limit_of_the_profile_holds_where_the_window_has_none() {
    let strategy = |strategy| ContextWindow {
        min_recent_turns: NonZeroU32::MIN,
        strategy,
        ..ContextWindow::default()
    };
    let scribe = scribe(Err("nobody asks"));
    let sent = |max_tokens, strategy, script: &str| {
        let window = window_of(Some(max_tokens), &strategy, "llama3", &scribe, script);
        async move { fit(&window, talk(6), None).await.unwrap().messages.len() }
    };
    let recent = |turns| strategy(WindowStrategy::RecentTurnsOnly(NonZeroU32::new(turns).unwrap()));
    assert_eq!(sent(9000, recent(2), "").await, 3, "the number of turns always applies");
    assert_eq!(sent(30, recent(2), "").await, 1);
    assert_eq!(sent(60, strategy(WindowStrategy::OldestFirst), "").await, 3);
    let keep = "[messages[messages.len() - 1]]";
    assert_eq!(
        sent(9000, strategy(WindowStrategy::Custom("k.rhai".into())), keep).await,
        1,
        "a script is always asked"
    );
    let of_its_own = ContextWindow {
        max_tokens: Some(9000),
        ..recent(2)
    };
    assert_eq!(sent(30, of_its_own, "").await, 13);
}
