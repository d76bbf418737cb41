use super::*;
use crate::thread::{Message, MessageRole};

fn used(requests: u64, input_tokens: u64) -> ModelUsage {
    ModelUsage {
        requests,
        input_tokens,
        ..ModelUsage::default()
    }
}

fn asking(text: &str) -> Thread {
    Thread::from_iterations(vec![ThreadIteration {
        number: 1,
        messages: vec![Message::new(MessageRole::User, text)],
        ..ThreadIteration::default()
    }])
}

fn text(iteration: &ThreadIteration) -> &str {
    &iteration.messages[0].content
}

#[test]
fn a_request_counts_while_it_is_made_and_once_when_it_has_ended() {
    let ledger = AttemptLedger::default();
    let counter = ledger.start_request_counter();
    counter.fetch_add(2, Ordering::Relaxed);
    assert_eq!(ledger.usage_so_far().requests, 2, "a request and its retry");
    drop(counter);
    drop(ledger.start_request_counter());
    assert_eq!(ledger.usage_so_far().requests, 2);
    assert_eq!(ledger.take_entries().usage, Some(used(2, 0)));
}

#[test]
fn what_no_record_contains_is_left_with_its_request() {
    let ledger = AttemptLedger::default();
    ledger.start_round(asking("first"), 0);
    ledger.add_usage(used(1, 10));
    assert_eq!(
        ledger.mark_iteration_recorded().map(|(_, usage)| usage),
        Some(used(1, 10))
    );
    ledger.update_exchange(|exchange| {
        exchange.start_iteration(
            vec![Message::new(MessageRole::User, "second")],
            chrono::DateTime::<chrono::Utc>::UNIX_EPOCH,
        )
    });
    ledger.add_recorded_usage(used(1, 5).as_tool_usage());
    ledger.start_request_counter().fetch_add(1, Ordering::Relaxed);
    let mut left = ledger.take_entries();
    assert_eq!(left.usage.map(|all| (all.requests, all.by_tools)), Some((3, 1)));
    assert_eq!((left.stopped.len(), left.stopped[0].usage), (1, used(1, 0)));
    assert_eq!(left.take_open_request().as_ref().map(text), Some("second"));
    assert_eq!(ledger.take_entries(), LedgerEntries::default());
}

#[test]
fn a_call_that_is_stopped_leaves_its_request_and_its_usage_counts_once() {
    let ledger = AttemptLedger::default();
    let outer = ledger.open_call_ledger("1", "helper");
    let inner = outer.ledger().open_call_ledger("2", "scribe");
    inner.ledger().start_round(asking("inside"), 0);
    inner.ledger().add_usage(used(1, 7));
    inner.ledger().add_warning("slow");
    drop(inner);
    drop(outer);
    let left = ledger.take_entries();
    assert_eq!(left.usage, Some(used(1, 7).as_tool_usage()));
    assert_eq!(left.warnings, ["tool helper: tool scribe: slow"]);
    let [work] = left.stopped.as_slice() else {
        panic!("{:?}", left.stopped)
    };
    assert_eq!(work.inside, ["1".into(), "2".into()]);
    assert_eq!((text(&work.iteration), work.usage), ("inside", used(1, 7)));
}

#[test]
fn a_call_or_a_part_that_ends_has_its_own_record() {
    let ledger = AttemptLedger::default();
    let call = ledger.open_call_ledger("1", "helper");
    call.ledger().add_usage(used(2, 0));
    assert_eq!(call.end().usage, Some(used(2, 0)));
    let part = ledger.open_part_ledger("a".into(), 1);
    part.ledger().add_usage(used(3, 0));
    assert_eq!(part.end().usage, Some(used(3, 0)));
    assert_eq!(ledger.take_entries(), LedgerEntries::default());
}

#[test]
fn a_part_that_is_stopped_leaves_its_entries_to_the_attempt_or_to_its_own_record() {
    for has_record in [true, false] {
        let ledger = AttemptLedger::default();
        let part = ledger.open_part_ledger("a".into(), 2);
        part.ledger().start_round(asking("of the part"), 0);
        part.ledger().add_usage(used(1, 4));
        drop(part);
        assert_eq!(ledger.usage_so_far(), used(1, 4));
        if has_record {
            let left = ledger.take_stopped_part("a").unwrap();
            assert_eq!(left.usage, Some(used(1, 4)));
            assert_eq!(ledger.take_entries(), LedgerEntries::default());
        } else {
            let left = ledger.take_entries();
            assert_eq!(left.usage, Some(used(1, 4)));
            let [work] = left.stopped.as_slice() else {
                panic!("{:?}", left.stopped)
            };
            assert_eq!(work.part, Some(("a".into(), 2)));
            assert_eq!((text(&work.iteration), work.usage), ("of the part", used(1, 4)));
        }
    }
}

#[test]
fn a_nested_run_that_is_stopped_leaves_what_its_records_do_not_contain() {
    let ledger = AttemptLedger::default();
    ledger.set_nested_usage(used(2, 20));
    ledger.set_nested_usage(used(3, 30));
    let attempt = ledger.open_nested_run_ledger();
    attempt.ledger().add_recorded_usage(used(1, 10));
    attempt.ledger().start_request_counter().fetch_add(1, Ordering::Relaxed);
    let call = attempt.ledger().open_call_ledger("1", "helper");
    call.ledger().start_request_counter().fetch_add(1, Ordering::Relaxed);
    drop(call);
    let ended = ledger.open_nested_run_ledger();
    ended.ledger().add_usage(used(1, 5));
    ended.ledger().take_entries();
    drop((attempt, ended));
    let left = ledger.take_entries();
    let all = left.usage.expect("it was used");
    assert_eq!((all.requests, all.by_tools, all.input_tokens), (5, 1, 30));
    let [work] = left.stopped.as_slice() else {
        panic!("{:?}", left.stopped)
    };
    assert_eq!(work.usage, all, "no record of the outer run contains it");
    assert!(work.iteration.messages.is_empty());
}
