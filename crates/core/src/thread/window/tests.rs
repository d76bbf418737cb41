use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::thread::ToolCall;

const RULES: TrimRules = TrimRules {
    limits: WindowLimits {
        max_tokens: None,
        max_messages: None,
    },
    keeps_system: true,
    min_recent_turns: 3,
    keep: TurnRetention::Latest,
    in_place: ThreadSize { tokens: 0, messages: 0 },
};

fn at_most_messages(max_messages: u64) -> WindowLimits {
    WindowLimits {
        max_tokens: None,
        max_messages: Some(max_messages),
    }
}

fn at_most_tokens(max_tokens: u64) -> WindowLimits {
    WindowLimits {
        max_tokens: Some(max_tokens),
        max_messages: None,
    }
}

/// Returns a thread whose last turn is the present one.
fn whole<'a>(system: Option<u64>, messages: &'a [Message], tokens: &'a [u64]) -> TrimInput<'a> {
    let task = split_turns(messages).last().map_or(0, |turn| turn.start);
    TrimInput {
        system,
        messages,
        tokens,
        task,
    }
}

/// `u`: a user message, `a`: a reply, `t`: a reply that calls a tool.
fn messages(spelling: &str) -> Vec<Message> {
    let message = |(at, c): (usize, char)| {
        let role = if c == 'u' {
            MessageRole::User
        } else {
            MessageRole::Assistant
        };
        let mut message = Message::new(role, format!("message {at}"));
        if c == 't' {
            message.tool_calls = vec![ToolCall::new("1", "look", json!({}))];
        }
        message
    };
    spelling.chars().enumerate().map(message).collect()
}

#[test]
fn a_turn_is_a_user_message_with_all_that_follows() {
    let table: [(&str, &[(usize, usize)]); 5] = [
        ("", &[]),
        ("u", &[(0, 1)]),
        ("uaua", &[(0, 2), (2, 4)]),
        ("utauuta", &[(0, 3), (3, 4), (4, 7)]),
        ("aaua", &[(0, 2), (2, 4)]),
    ];
    for (spelling, expected) in table {
        let turns: Vec<_> = split_turns(&messages(spelling))
            .iter()
            .map(|turn| (turn.start, turn.end))
            .collect();
        assert_eq!(turns, expected, "{spelling}");
    }
}

/// One token a message, and one for the instructions.
#[test]
fn what_is_left_out() {
    let none = WindowLimits::default();
    let twenty = "u".repeat(20);
    let ten = "u".repeat(10);
    // The rules, are there instructions, the thread; then: are they sent, what is dropped, is the limit held?
    let table = [
        // The seed's own examples: 20 user messages and room for 10; instructions, ten messages and room for five.
        (
            at_most_messages(10),
            TurnRetention::Latest,
            3,
            false,
            twenty.as_str(),
            (false, 0..10, true),
        ),
        (
            at_most_messages(5),
            TurnRetention::Latest,
            3,
            true,
            ten.as_str(),
            (true, 0..6, true),
        ),
        (
            at_most_messages(10),
            TurnRetention::BothEnds,
            3,
            false,
            twenty.as_str(),
            (false, 5..15, true),
        ),
        (
            at_most_messages(9),
            TurnRetention::BothEnds,
            3,
            false,
            twenty.as_str(),
            (false, 4..15, true),
        ),
        (
            none,
            TurnRetention::AtMost(4),
            3,
            true,
            ten.as_str(),
            (true, 0..6, true),
        ),
        // Whole turns only.
        (
            at_most_messages(4),
            TurnRetention::Latest,
            1,
            true,
            "uauau",
            (true, 0..2, true),
        ),
        (
            at_most_messages(3),
            TurnRetention::Latest,
            1,
            true,
            "uauau",
            (true, 0..4, true),
        ),
        (
            at_most_messages(5),
            TurnRetention::Latest,
            1,
            false,
            "uttauau",
            (false, 0..4, true),
        ),
        (
            at_most_messages(6),
            TurnRetention::Latest,
            1,
            false,
            "uttauau",
            (false, 0..4, true),
        ),
        (
            at_most_messages(5),
            TurnRetention::BothEnds,
            1,
            false,
            "uauauau",
            (false, 2..4, true),
        ),
        (
            at_most_tokens(6),
            TurnRetention::Latest,
            1,
            true,
            "uauauau",
            (true, 0..2, true),
        ),
        // The minimum stays, whatever the limit says.
        (
            at_most_messages(2),
            TurnRetention::Latest,
            3,
            true,
            "uauauau",
            (true, 0..2, false),
        ),
        (
            at_most_messages(1),
            TurnRetention::BothEnds,
            1,
            true,
            "uttt",
            (true, 1..3, false),
        ),
        // Of the present turn, tool calls go with their results: the oldest first, or those in the middle.
        (
            at_most_messages(6),
            TurnRetention::Latest,
            3,
            true,
            "uttt",
            (true, 1..2, true),
        ),
        (
            at_most_tokens(4),
            TurnRetention::Latest,
            3,
            true,
            "uttt",
            (true, 1..3, true),
        ),
        (
            at_most_messages(8),
            TurnRetention::BothEnds,
            3,
            true,
            "utttt",
            (true, 2..3, true),
        ),
        (
            at_most_messages(9),
            TurnRetention::Latest,
            1,
            true,
            "uauttt",
            (true, 0..2, true),
        ),
        // Of a turn that is always sent, only they go.
        (
            at_most_messages(7),
            TurnRetention::Latest,
            3,
            true,
            "utaut",
            (true, 1..2, true),
        ),
        (
            at_most_tokens(1),
            TurnRetention::AtMost(2),
            2,
            false,
            "uauau",
            (false, 0..2, false),
        ),
        // Nothing is dropped without need.
        (
            at_most_messages(6),
            TurnRetention::Latest,
            1,
            true,
            "uauau",
            (true, 0..0, true),
        ),
        (
            at_most_messages(6),
            TurnRetention::BothEnds,
            1,
            true,
            "uauau",
            (true, 0..0, true),
        ),
        (
            at_most_messages(6),
            TurnRetention::AtMost(1),
            1,
            true,
            "uauau",
            (true, 0..0, true),
        ),
        (none, TurnRetention::AtMost(3), 3, true, "uauau", (true, 0..0, true)),
        (
            at_most_tokens(9),
            TurnRetention::Always(2),
            1,
            true,
            "uauauau",
            (true, 0..4, true),
        ),
        (
            at_most_tokens(4),
            TurnRetention::Always(2),
            1,
            true,
            "uauauau",
            (true, 0..4, true),
        ),
        (
            at_most_tokens(3),
            TurnRetention::Always(2),
            1,
            true,
            "uauauau",
            (true, 0..6, true),
        ),
        // Once something is, no more than that many turns stay.
        (
            at_most_messages(5),
            TurnRetention::AtMost(1),
            1,
            true,
            "uauau",
            (true, 0..4, true),
        ),
        (
            at_most_messages(2),
            TurnRetention::AtMost(3),
            1,
            true,
            "uauauau",
            (true, 0..6, true),
        ),
    ];
    for (limits, keep, min_recent_turns, system, spelling, (kept, dropped, fits)) in table {
        let rules = TrimRules {
            limits,
            keep,
            min_recent_turns,
            ..RULES
        };
        let messages = messages(spelling);
        let tokens: Vec<u64> = messages
            .iter()
            .map(|message| 1 + message.tool_calls.len() as u64)
            .collect();
        let cut = select_messages_to_send(&rules, &whole(system.then_some(1), &messages, &tokens));
        assert_eq!(
            (cut.system, cut.dropped.clone(), cut.fits),
            (kept, dropped.collect(), fits),
            "{limits:?} {keep:?} {spelling}"
        );
        let left = (0..messages.len()).filter(|at| !cut.dropped.contains(at));
        let left = u64::from(kept) + left.map(|at| tokens[at]).sum::<u64>();
        assert_eq!((cut.sent.messages, cut.sent.tokens), (left, left), "{spelling}");
    }
}

#[test]
fn instructions_that_may_go_go_like_the_oldest_turn() {
    let cut_of = |most, keep| {
        let rules = TrimRules {
            limits: at_most_messages(most),
            keeps_system: false,
            min_recent_turns: 1,
            keep,
            ..RULES
        };
        let messages = messages("uauau");
        let cut = select_messages_to_send(&rules, &whole(Some(1), &messages, &[1; 5]));
        (cut.system, cut.dropped.len(), cut.fits)
    };
    assert_eq!(cut_of(6, TurnRetention::Latest), (true, 0, true));
    assert_eq!(cut_of(5, TurnRetention::Latest), (false, 0, true), "they alone");
    assert_eq!(cut_of(4, TurnRetention::Latest), (false, 2, true));
    assert_eq!(
        cut_of(4, TurnRetention::BothEnds),
        (true, 2, true),
        "they stand at the beginning"
    );
    assert_eq!(cut_of(1, TurnRetention::BothEnds), (false, 4, true));
}

#[test]
fn what_comes_in_place_counts_once_something_is_left_out() {
    let rules = TrimRules {
        limits: at_most_tokens(6),
        min_recent_turns: 1,
        in_place: ThreadSize { tokens: 2, messages: 1 },
        ..RULES
    };
    let cut_of = |spelling: &str| {
        let cut = select_messages_to_send(&rules, &whole(None, &messages(spelling), &vec![1; spelling.len()]));
        (cut.dropped.len(), cut.sent.tokens)
    };
    assert_eq!(cut_of("uauauu"), (0, 6));
    assert_eq!(cut_of("uauauau"), (4, 5));
    assert_eq!(cut_of("utttttt"), (3, 6), "two tokens for the three calls");
}

#[test]
fn the_task_stays_when_a_correction_follows() {
    let rules = TrimRules {
        limits: at_most_tokens(2),
        min_recent_turns: 1,
        ..RULES
    };
    let messages = messages("uauattau");
    let tokens = vec![1; messages.len()];
    let whole = TrimInput {
        system: None,
        messages: &messages,
        tokens: &tokens,
        task: 2,
    };
    let cut = select_messages_to_send(&rules, &whole);
    assert_eq!((cut.dropped, cut.fits), (vec![0, 1, 3, 4, 5, 6], true));
    let both = super::select_messages_to_send(
        &TrimRules {
            limits: at_most_tokens(3),
            ..rules
        },
        &super::tests::whole(None, &messages[..6], &tokens[..6]),
    );
    assert_eq!(
        (both.dropped, both.fits),
        (vec![0, 1, 4], true),
        "turns, and calls of the present one"
    );
}

#[test]
fn the_older_half_of_what_may_go() {
    let half = |spelling: &str, recent| {
        let messages = messages(spelling);
        whole(None, &messages, &vec![10; spelling.len()]).list_older_half_of_droppable(recent)
    };
    assert_eq!(half("uauauau", 1), [0, 1, 2, 3], "whole turns");
    assert_eq!(half("uauttttt", 1), [0, 1, 3], "then calls of the present turn");
    assert_eq!(half("uauau", 3), [0; 0]);
    assert_eq!(half("ut", 1), [0; 0], "the model waits for this result");
    assert_eq!(half("utt", 1), [1]);
    assert_eq!(half("utaut", 2), [1], "of a turn that is always sent, calls go");
}

#[test]
fn a_selection_is_part_of_the_messages_and_separates_no_call_from_its_result() {
    // As a script sees it:  0 1  2  3 4  5 6  7  8  9
    //                       u a  u  t r  t r  a  u  t r(10)
    let thread = messages("uauttaut");
    let entries = list_script_entries(&thread);
    let all: Vec<usize> = (0..entries.len()).collect();
    let select = |indices: &[usize]| apply_script_selection(&all, indices, &thread);
    let left_out = |indices: &[usize]| select(indices).expect("is sound").left_out;
    assert_eq!(left_out(&all), [0; 0]);
    assert_eq!(left_out(&[8, 9, 10]), [0, 1, 2, 3, 4, 5, 6, 7]);
    // The result goes, so the call goes; nothing is said in that message beside the text.
    assert_eq!(left_out(&[2, 3, 5, 6, 7, 8, 9, 10]), [0, 1, 4]);
    let sent = select(&[2, 3, 5, 6, 7, 8, 9, 10]).unwrap().messages;
    assert_eq!((sent[1].tool_calls.len(), sent[2].tool_calls.len()), (0, 1));
    // The result that the model waits for is sent.
    assert_eq!(left_out(&[8, 9]), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(select(&[1, 0, 8, 9]), Err(SelectionError::UnknownItem(1)));
    assert_eq!(select(&[4, 8, 9]), Err(SelectionError::Dangling(1)));
    for missing in [&[][..], &[0, 1], &[8], &[9, 10]] {
        assert_eq!(select(missing), Err(SelectionError::MissingLatest), "{missing:?}");
    }
    assert_eq!(select(&[99, 8, 9]), Err(SelectionError::UnknownItem(1)));
    let twins = vec![Message::new(MessageRole::User, "again"); 3];
    let latest = apply_script_selection(&twins, &twins[..2], &twins).unwrap();
    assert_eq!(latest.left_out, [0], "the latest of equals");
    // A reply that only called tools is nothing without its calls.
    let mut silent = messages("utu");
    silent[1].content.clear();
    assert_eq!(
        apply_script_selection(&[0, 1, 2, 3], &[0, 1, 3], &silent)
            .unwrap()
            .left_out,
        [1, 2]
    );
}

proptest! {
    #[test]
    fn any_selection_sends_calls_with_their_results(
        (thread, _) in threads(),
        chosen in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let entries = list_script_entries(&thread);
        let indices: Vec<usize> = (0..entries.len()).filter(|at| chosen.get(*at) != Some(&false)).collect();
        let all: Vec<usize> = (0..entries.len()).collect();
        if let Ok(selected) = apply_script_selection(&all, &indices, &thread) {
            let sent: Vec<ScriptMessageEntry> = (0..entries.len())
                .filter(|at| !selected.left_out.contains(at))
                .map(|at| entries[at])
                .collect();
            for entry in &sent {
                if let ScriptMessageEntry::Result(message, _) = entry {
                    prop_assert!(sent.contains(&ScriptMessageEntry::Message(*message)), "a result without its call");
                }
            }
            let calls: usize = selected.messages.iter().map(|message| message.tool_calls.len()).sum();
            let results = sent.iter().filter(|entry| matches!(entry, ScriptMessageEntry::Result(..))).count();
            prop_assert_eq!(calls, results, "each call with its result");
            prop_assert_eq!(sent.len() - results, selected.messages.len());
            prop_assert_eq!(selected.messages.last().map(|last| &last.tool_calls), thread.last().map(|last| &last.tool_calls));
        }
    }
}

fn threads() -> impl Strategy<Value = (Vec<Message>, Vec<u64>)> {
    let turn = proptest::string::string_regex("ut{0,3}a?").expect("an expression");
    let turns = proptest::collection::vec(turn, 1..12).prop_map(|turns| messages(&turns.concat()));
    turns.prop_flat_map(|messages| {
        let count = messages.len();
        (Just(messages), proptest::collection::vec(0..20_u64, count))
    })
}

fn rules() -> impl Strategy<Value = TrimRules> {
    let limits = (proptest::option::of(1..150_u64), proptest::option::of(1..30_u64));
    let keep = prop_oneof![
        Just(TurnRetention::Latest),
        Just(TurnRetention::BothEnds),
        (1..6_usize).prop_map(TurnRetention::AtMost)
    ];
    (limits, any::<bool>(), 1..5_usize, keep, 0..8_u64).prop_map(
        |((tokens, messages), keeps_system, least, keep, place)| {
            let most = if let TurnRetention::AtMost(most) = keep {
                most
            } else {
                least
            };
            TrimRules {
                limits: WindowLimits {
                    max_tokens: tokens,
                    max_messages: messages,
                },
                keeps_system,
                min_recent_turns: least.min(most),
                keep,
                in_place: ThreadSize {
                    tokens: place,
                    messages: u64::from(place > 0),
                },
            }
        },
    )
}

proptest! {
    #[test]
    fn a_cut_keeps_its_promises(
        (messages, tokens) in threads(),
        rules in rules(),
        system in proptest::option::of(0..20_u64),
        task in any::<prop::sample::Index>(),
    ) {
        let all = split_turns(&messages);
        let task = all[task.index(all.len())].start;
        let whole = TrimInput { system, messages: &messages, tokens: &tokens, task };
        let cut = select_messages_to_send(&rules, &whole);
        let kept: Vec<usize> = (0..messages.len()).filter(|at| !cut.dropped.contains(at)).collect();
        let instructions = |is_sent| ThreadSize {
            tokens: system.filter(|_| is_sent).unwrap_or_default(),
            messages: u64::from(system.is_some() && is_sent),
        };
        let is_cut = !cut.dropped.is_empty() || (system.is_some() && !cut.system);
        let in_place = if is_cut { rules.in_place } else { ThreadSize::default() };

        // It tells what is sent, and keeps the order.
        prop_assert_eq!(cut.sent, whole.sum_sizes(kept.iter().copied()) + instructions(cut.system) + in_place);
        prop_assert_eq!(cut.fits, rules.limits.allows_size(cut.sent));
        prop_assert!(cut.dropped.is_sorted() && cut.dropped.iter().all(|at| *at < messages.len()));
        // The instructions stay where they must.
        prop_assert!(!rules.keeps_system || cut.system == system.is_some());
        // What must stay stays: the task, the last user message, the last message, and of the latest turns all but calls.
        let recent = all[all.len().saturating_sub(rules.min_recent_turns)].start;
        let present = all.last().expect("a turn").start;
        for at in &cut.dropped {
            prop_assert!(![task, present, messages.len() - 1].contains(at), "{} is dropped", at);
            prop_assert!(*at < recent || !messages[*at].tool_calls.is_empty(), "{} is dropped", at);
        }
        // The limit is held whenever that minimum allows it.
        let droppable = whole.list_droppable_flags(rules.min_recent_turns);
        let least = whole.sum_sizes((0..messages.len()).filter(|at| !droppable[*at]));
        let least = least + instructions(rules.keeps_system) + rules.in_place;
        prop_assert!(cut.fits || !rules.limits.allows_size(least));
        // Earlier turns are left out whole, except that the task stays; so a question goes with its answer.
        for turn in all.iter().filter(|turn| turn.end <= recent) {
            let gone: Vec<bool> = turn.clone().filter(|at| *at != task).map(|at| cut.dropped.contains(&at)).collect();
            let without_calls = turn.clone().filter(|at| *at != task && messages[*at].tool_calls.is_empty());
            let gone_without_calls: Vec<bool> = without_calls.map(|at| cut.dropped.contains(&at)).collect();
            prop_assert!(gone.iter().all(|gone| *gone) || gone_without_calls.iter().all(|gone| !*gone));
        }
        // Nothing is dropped when everything fits a limit.
        let everything = whole.sum_sizes(0..messages.len()) + instructions(true);
        let is_limited = rules.limits != WindowLimits::default() || !matches!(rules.keep, TurnRetention::AtMost(_));
        prop_assert!(!(is_limited && rules.limits.allows_size(everything) && is_cut));
        // What has been cut is not cut again.
        let rules = TrimRules { in_place: ThreadSize::default(), ..rules };
        let sent: Vec<Message> = kept.iter().map(|at| messages[*at].clone()).collect();
        let sent_tokens: Vec<u64> = kept.iter().map(|at| tokens[*at]).collect();
        let again = super::select_messages_to_send(&rules, &TrimInput {
            system: system.filter(|_| cut.system),
            messages: &sent,
            tokens: &sent_tokens,
            task: kept.iter().position(|at| *at == task).expect("the task is sent"),
        });
        prop_assert!(again.dropped.is_empty() || matches!(rules.keep, TurnRetention::AtMost(_)), "{:?} then {:?}", cut, again);
    }

    #[test]
    fn the_older_half_keeps_what_must_stay((messages, tokens) in threads(), recent in 1..5_usize) {
        let whole = whole(None, &messages, &tokens);
        let droppable = whole.list_droppable_flags(recent);
        let half = whole.list_older_half_of_droppable(recent);
        prop_assert!(half.iter().all(|at| droppable[*at]) && half.is_sorted());
        prop_assert_eq!(half.is_empty(), !droppable.contains(&true));
        let tokens_of = |at: &mut dyn Iterator<Item = usize>| at.map(|at| tokens[at]).sum::<u64>();
        let all = tokens_of(&mut (0..messages.len()).filter(|at| droppable[*at]));
        prop_assert!(tokens_of(&mut half.iter().copied()) * 2 >= all);
    }
}
