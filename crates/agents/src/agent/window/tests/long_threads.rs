//! Long threads: the iterations that are left out without being examined change no request.

use proptest::prelude::{Just, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;

use super::*;
use ensemble_core::thread::Thread;

/// Returns a thread of executions with texts of these sizes, some of which call a tool.
fn thread(sizes: &[usize]) -> Thread {
    let iteration = |(at, size): (usize, &usize)| {
        let text = |role, name: &str| Message::new(role, format!("{name} {at} {}", "x".repeat(*size)));
        let call =
            ToolCall::new(format!("c{at}"), "look", json!({})).with_end(ToolCallEnd::Result(json!("found")), 0.0);
        let calls = if at % 5 == 3 { vec![call] } else { Vec::new() };
        let continues = at % 5 == 4;
        let question = (!continues).then(|| text(MessageRole::User, "question"));
        ThreadIteration {
            messages: question
                .into_iter()
                .chain([text(MessageRole::Assistant, "answer")])
                .collect(),
            tool_calls: calls,
            ..ThreadIteration::default()
        }
    };
    Thread::from_iterations(sizes.iter().enumerate().map(iteration).collect())
}

fn rules() -> impl Generator<Value = ContextWindow> {
    let strategy = prop_oneof![
        Just(WindowStrategy::OldestFirst),
        Just(WindowStrategy::MiddleOut),
        (1..4_u32).prop_map(|turns| WindowStrategy::RecentTurnsOnly(NonZeroU32::new(turns).unwrap())),
    ];
    let limits = (proptest::option::of(1..600_u64), proptest::option::of(1..20_u64));
    (limits, 1..4_u32, strategy, proptest::bool::ANY).prop_map(
        |((max_tokens, max_messages), recent, strategy, keeps)| ContextWindow {
            max_tokens,
            max_messages,
            preserve_system_message: keeps,
            min_recent_turns: NonZeroU32::new(recent).unwrap(),
            strategy,
        },
    )
}

proptest! {
    #[test]
    fn what_is_left_out_unseen_would_be_left_out_anyway(
        sizes in proptest::collection::vec(0..300_usize, 0..40),
        rules in rules(),
        model in prop_oneof![Just("llama3"), Just("gpt-4o")],
    ) {
        let window = window(&rules, model, &scribe(Ok("")), "");
        let thread = thread(&sizes);
        let task = Message::new(MessageRole::User, "the task");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let whole: Vec<Message> = thread.to_messages().into_iter().chain([task.clone()]).collect();
        let expected = runtime.block_on(fit(&window, whole, None)).unwrap();
        // The second time the beginning is known.
        for _ in 0..2 {
            let unsent = runtime.block_on(window.find_unsent_iterations(&thread, thread.message_count()));
            let seen: Vec<Message> =
                thread.to_messages_without_oldest(unsent.iterations).into_iter().chain([task.clone()]).collect();
            prop_assert_eq!(seen.len() + unsent.messages, thread.message_count() + 1);
            let fitted = runtime.block_on(fit_after(&window, unsent, seen, None)).unwrap();
            prop_assert_eq!(&fitted, &expected);
        }
    }
}

#[tokio::test]
async fn a_tokenizer_never_counts_on_the_thread_of_the_runs() {
    let own_thread = std::thread::current().id();
    let tokenizer = move |text: &str| {
        assert_ne!(std::thread::current().id(), own_thread);
        text.len() as u64
    };
    let rules = ContextWindow {
        max_messages: Some(10),
        ..ContextWindow::default()
    };
    let window = AgentWindow {
        counter: Arc::new(TokenCounter::with_tokenizer(Arc::new(tokenizer))),
        ..window(&rules, "", &scribe(Ok("")), "")
    };
    for executions in [20, 40] {
        let thread = thread(&vec![10; executions]);
        let unsent = window.find_unsent_iterations(&thread, thread.message_count()).await;
        assert!(unsent.size.tokens > 0, "{unsent:?}");
    }
}

#[tokio::test]
async fn a_window_of_ten_messages_examines_few_messages_of_any_thread() {
    let rules = ContextWindow {
        max_messages: Some(10),
        ..ContextWindow::default()
    };
    let window = window(&rules, "llama3", &scribe(Ok("")), "");
    for executions in [20, 200, 2000] {
        let thread = thread(&vec![10; executions]);
        let unsent = window.find_unsent_iterations(&thread, thread.message_count()).await;
        let examined = thread.message_count() - unsent.messages;
        assert!((10..20).contains(&examined), "{examined} of {executions}");
    }
}
