//! What is sent of random threads: within the limits, in order, and each call with its result.

use proptest::prelude::{Just, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;

use super::*;

/// Returns a thread of turns; of each, the numbers of calls of its replies and the size of every text and result.
fn thread() -> impl Generator<Value = Vec<Message>> {
    let reply = (0..3_usize, 0..3000_usize);
    let turn = (1..200_usize, proptest::collection::vec(reply, 0..5));
    proptest::collection::vec(turn, 1..5).prop_map(|turns| {
        let mut messages = Vec::new();
        for (question, replies) in turns {
            messages.push(Message::new(MessageRole::User, "q".repeat(question)));
            for (calls, size) in replies {
                let number = messages.len();
                let called = |at: usize| {
                    let called = ToolCall::new(format!("{number}.{at}"), "look", json!({"at": at}));
                    called.with_end(ToolCallEnd::Result(json!("r".repeat(size))), 0.0)
                };
                messages.push(Message {
                    tool_calls: (0..calls).map(called).collect(),
                    ..Message::new(MessageRole::Assistant, "a".repeat(size / 10 + 1))
                });
            }
        }
        // A request ends with the user, or with results.
        while messages
            .last()
            .is_some_and(|last| last.role == MessageRole::Assistant && last.tool_calls.is_empty())
        {
            messages.pop();
        }
        messages
    })
}

fn rules() -> impl Generator<Value = ContextWindow> {
    let strategy = prop_oneof![
        Just(WindowStrategy::OldestFirst),
        Just(WindowStrategy::MiddleOut),
        Just(WindowStrategy::Summarize(None)),
        (1..4_u32).prop_map(|turns| WindowStrategy::RecentTurnsOnly(NonZeroU32::new(turns).unwrap())),
    ];
    let limits = (proptest::option::of(1..3000_u64), proptest::option::of(1..20_u64));
    (limits, 1..4_u32, strategy).prop_map(|((max_tokens, max_messages), recent, strategy)| ContextWindow {
        max_tokens,
        max_messages: max_messages.or(max_tokens.is_none().then_some(9)),
        min_recent_turns: NonZeroU32::new(recent).unwrap(),
        strategy,
        ..ContextWindow::default()
    })
}

/// Returns the messages as providers have them: the ids of calls, then the ids of results.
fn sent(messages: &[Message]) -> u64 {
    messages.iter().map(|message| 1 + message.tool_calls.len() as u64).sum()
}

proptest! {
    #[test]
    fn what_is_sent_keeps_the_limits_the_order_and_the_pairs(messages in thread(), rules in rules()) {
        let window = window(&rules, "llama3", &scribe(Ok("They spoke.")), "");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let fitted = runtime.block_on(fit(&window, messages.clone(), None)).unwrap();

        // The order is kept, and every call has its result.
        let is_summary = |message: &&Message| message.content.starts_with("The first part of our conversation");
        let mut rest = messages.iter();
        for message in fitted.messages.iter().filter(|message| !is_summary(message)) {
            let original = rest.find(|one| {
                let ids = |message: &Message| message.tool_calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>();
                one.role == message.role && one.content == message.content && ids(one) == ids(message)
            });
            prop_assert!(original.is_some(), "{:?} is out of order or separated", message);
        }
        // The last user message and the last message are there.
        let last_user = |messages: &[Message]| messages.iter().rfind(|one| one.role == MessageRole::User).cloned();
        prop_assert_eq!(last_user(&fitted.messages), last_user(&messages));
        prop_assert_eq!(fitted.messages.last().map(|last| &last.content), messages.last().map(|last| &last.content));
        // Either the limits hold, or there is a warning and nothing more can be left out.
        let tokens = size(&window, &fitted);
        let fits = rules.max_tokens.is_none_or(|most| tokens <= most)
            && rules.max_messages.is_none_or(|most| sent(&fitted.messages) < most);
        let warned = fitted.warnings.iter().any(|warning| warning.starts_with("the context window is too small: "));
        prop_assert_eq!(fits, !warned, "{} tokens, {} messages: {:?}", tokens, sent(&fitted.messages) + 1, fitted.warnings);
        if !fits {
            let task = messages.iter().rposition(|one| one.role == MessageRole::User).unwrap();
            let recent = rules.min_recent_turns.get() as usize;
            let recent = if let WindowStrategy::RecentTurnsOnly(turns) = rules.strategy { recent.min(turns.get() as usize) } else { recent };
            let counted = vec![1; messages.len()];
            let whole = TrimInput { system: None, messages: &messages, tokens: &counted, task };
            let droppable = whole.list_droppable_flags(recent);
            let must_stay = droppable.iter().filter(|droppable| !**droppable).count();
            prop_assert_eq!(fitted.messages.iter().filter(|message| !is_summary(message)).count(), must_stay);
        }
    }
}
