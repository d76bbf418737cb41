use serde_json::json;

use super::*;
use crate::thread::{Message, MessageRole, ToolCallEnd};

fn within(part: Option<&str>, inside: &[&str]) -> AttemptScope {
    AttemptScope {
        part: part.map(Into::into),
        outer_calls: inside.iter().map(|call| (*call).into()).collect(),
        ..AttemptScope::default()
    }
}

fn used(requests: u64) -> ModelUsage {
    ModelUsage {
        requests,
        input_tokens: 10 * requests,
        ..ModelUsage::default()
    }
}

fn reply(within: AttemptScope, calls: &[&str]) -> ReplyReceived {
    let calls = calls.iter().map(|id| ToolCall::new(*id, "tool", json!({})));
    ReplyReceived {
        within,
        iteration: ThreadIteration {
            messages: vec![Message::new(MessageRole::Assistant, "look")],
            tool_calls: calls.collect(),
            ..ThreadIteration::default()
        },
        usage: used(1),
    }
}

fn ended(within: AttemptScope, id: &str, usage: Option<ModelUsage>) -> ToolCallEnded {
    let call = ToolCall::new(id, "tool", json!({}));
    ToolCallEnded {
        within,
        call: call.with_end(ToolCallEnd::Result("done".into()), 0.5),
        usage,
    }
}

#[test]
fn a_call_ends_in_its_own_iteration() {
    let mut all = RecordedExchanges::default();
    all.apply_reply(&reply(within(None, &[]), &["a", "b"]));
    all.apply_reply(&reply(within(Some("part"), &[]), &["a"]));
    all.apply_call_end(&ended(within(None, &[]), "b", None));
    let ends = |iterations: &[ThreadIteration]| -> Vec<bool> {
        let calls = iterations.iter().flat_map(|iteration| &iteration.tool_calls);
        calls.map(|call| call.end.is_some()).collect()
    };
    assert_eq!(ends(all.own_iterations()), [false, true]);
    let of_part = all.get_exchange(Some(&"part".into()), &[]).expect("recorded");
    assert_eq!(ends(&of_part.iterations), [false]);
}

#[test]
fn what_an_agent_in_a_call_has_used_counts_once() {
    let mut all = RecordedExchanges::default();
    all.apply_reply(&reply(within(None, &[]), &["a"]));
    all.apply_reply(&reply(within(None, &["a"]), &[]));
    all.apply_reply(&reply(within(None, &["a"]), &[]));
    let open = all.uncounted_usage().expect("used");
    assert_eq!((open.requests, open.by_tools), (3, 2), "the call has not ended");

    all.apply_call_end(&ended(within(None, &[]), "a", Some(used(2).as_tool_usage())));
    let closed = all.uncounted_usage().expect("used");
    assert_eq!(
        (closed.requests, closed.by_tools),
        (3, 2),
        "the end of the call has told its usage"
    );
    assert_eq!(all.iter().count(), 1, "what happened inside the call is over");
}

#[test]
fn the_usage_is_taken_once() {
    let mut all = RecordedExchanges::default();
    all.apply_reply(&reply(within(None, &[]), &["a"]));
    assert_eq!(all.take_uncounted_usage(), Some(used(1)));
    assert_eq!(all.take_uncounted_usage(), None);
    assert_eq!(all.own_iterations().len(), 1, "the messages stay");
}

#[test]
fn taking_a_part_leaves_the_others() {
    let mut all = RecordedExchanges::default();
    for part in [None, Some("one"), Some("two")] {
        all.apply_reply(&reply(within(part, &[]), &["a"]));
        all.apply_reply(&reply(within(part, &["a"]), &[]));
    }
    assert_eq!(all.remove_exchanges(Some(&"one".into())).len(), 1);
    assert_eq!(all.iter().count(), 4);
    assert_eq!(all.remove_exchanges(None).len(), 1);
    assert_eq!(all.iter().count(), 2);
}

#[test]
fn the_records_are_read_as_they_were_written() {
    let mut place = within(Some("part"), &["a"]);
    (place.turn, place.agent, place.execution, place.attempt) = (2, "writer".into(), 1, 3);
    let text = serde_json::to_string(&reply(place.clone(), &["b"])).expect("JSON");
    assert!(
        text.starts_with(r#"{"turn":2,"agent":"writer","execution":1,"attempt":3,"part":"part","inside":["a"],"#),
        "{text}"
    );
    assert_eq!(
        serde_json::from_str::<ReplyReceived>(&text).expect("read"),
        reply(place, &["b"])
    );
}
