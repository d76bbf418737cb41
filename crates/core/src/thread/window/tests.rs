use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::thread::ToolCall;

const RULES: Rules = Rules {
    limits: Limits {
        max_tokens: None,
        max_messages: None,
    },
    keeps_system: true,
    min_recent_turns: 3,
    keep: Keep::Latest,
    in_place: Size { tokens: 0, messages: 0 },
};

fn at_most_messages(max_messages: u64) -> Limits {
    Limits {
        max_tokens: None,
        max_messages: Some(max_messages),
    }
}

fn at_most_tokens(max_tokens: u64) -> Limits {
    Limits {
        max_tokens: Some(max_tokens),
        max_messages: None,
    }
}

/// `u`: a user message, `a`: a reply, `t`: a reply that calls a tool.
fn messages(spelling: &str) -> Vec<Message> {
    let message = |(at, c): (usize, char)| {
        let role = if c == 'u' { Role::User } else { Role::Assistant };
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
        let turns: Vec<_> = turns(&messages(spelling))
            .iter()
            .map(|turn| (turn.start, turn.end))
            .collect();
        assert_eq!(turns, expected, "{spelling}");
    }
}

/// One token a message, and one for the instructions.
#[test]
fn what_is_left_out() {
    let none = Limits::default();
    let twenty = "u".repeat(20);
    let ten = "u".repeat(10);
    // The rules, are there instructions, the thread; then: are they sent, what is dropped, is the limit held?
    let table = [
        // The seed's own examples: 20 user messages and room for 10; instructions, ten messages and room for five.
        (
            at_most_messages(10),
            Keep::Latest,
            3,
            false,
            twenty.as_str(),
            (false, 0..10, true),
        ),
        (
            at_most_messages(5),
            Keep::Latest,
            3,
            true,
            ten.as_str(),
            (true, 0..6, true),
        ),
        (
            at_most_messages(10),
            Keep::BothEnds,
            3,
            false,
            twenty.as_str(),
            (false, 5..15, true),
        ),
        (
            at_most_messages(9),
            Keep::BothEnds,
            3,
            false,
            twenty.as_str(),
            (false, 4..15, true),
        ),
        (none, Keep::AtMost(4), 3, true, ten.as_str(), (true, 0..6, true)),
        // Whole turns only.
        (at_most_messages(4), Keep::Latest, 1, true, "uauau", (true, 0..2, true)),
        (at_most_messages(3), Keep::Latest, 1, true, "uauau", (true, 0..4, true)),
        (
            at_most_messages(5),
            Keep::Latest,
            1,
            false,
            "uttauau",
            (false, 0..4, true),
        ),
        (
            at_most_messages(6),
            Keep::Latest,
            1,
            false,
            "uttauau",
            (false, 0..4, true),
        ),
        (
            at_most_messages(5),
            Keep::BothEnds,
            1,
            false,
            "uauauau",
            (false, 2..4, true),
        ),
        (at_most_tokens(6), Keep::Latest, 1, true, "uauauau", (true, 0..2, true)),
        // The minimum stays, whatever the limit says.
        (
            at_most_messages(2),
            Keep::Latest,
            3,
            true,
            "uauauau",
            (true, 0..2, false),
        ),
        (
            at_most_messages(1),
            Keep::BothEnds,
            1,
            true,
            "uttt",
            (true, 0..0, false),
        ),
        (
            at_most_tokens(1),
            Keep::AtMost(2),
            2,
            false,
            "uauau",
            (false, 0..2, false),
        ),
        // Nothing is dropped without need.
        (at_most_messages(6), Keep::Latest, 1, true, "uauau", (true, 0..0, true)),
        (
            at_most_messages(6),
            Keep::BothEnds,
            1,
            true,
            "uauau",
            (true, 0..0, true),
        ),
        (
            at_most_messages(6),
            Keep::AtMost(1),
            1,
            true,
            "uauau",
            (true, 0..0, true),
        ),
        (none, Keep::AtMost(3), 3, true, "uauau", (true, 0..0, true)),
        // Once something is, no more than that many turns stay.
        (
            at_most_messages(5),
            Keep::AtMost(1),
            1,
            true,
            "uauau",
            (true, 0..4, true),
        ),
        (
            at_most_messages(2),
            Keep::AtMost(3),
            1,
            true,
            "uauauau",
            (true, 0..6, true),
        ),
    ];
    for (limits, keep, min_recent_turns, system, spelling, (kept, dropped, fits)) in table {
        let rules = Rules {
            limits,
            keep,
            min_recent_turns,
            ..RULES
        };
        let messages = messages(spelling);
        let cut = cut(&rules, system.then_some(1), &messages, &vec![1; messages.len()]);
        assert_eq!(
            (cut.system, cut.dropped.clone(), cut.fits),
            (kept, dropped, fits),
            "{limits:?} {keep:?} {spelling}"
        );
        let left = (messages.len() - cut.dropped.len() + usize::from(kept)) as u64;
        assert_eq!((cut.sent.messages, cut.sent.tokens), (left, left), "{spelling}");
    }
}

#[test]
fn instructions_that_may_go_go_like_the_oldest_turn() {
    let cut_of = |most, keep| {
        let rules = Rules {
            limits: at_most_messages(most),
            keeps_system: false,
            min_recent_turns: 1,
            keep,
            ..RULES
        };
        let messages = messages("uauau");
        let cut = cut(&rules, Some(1), &messages, &[1; 5]);
        (cut.system, cut.dropped, cut.fits)
    };
    assert_eq!(cut_of(6, Keep::Latest), (true, 0..0, true));
    assert_eq!(cut_of(5, Keep::Latest), (false, 0..0, true), "they alone");
    assert_eq!(cut_of(4, Keep::Latest), (false, 0..2, true));
    assert_eq!(
        cut_of(4, Keep::BothEnds),
        (true, 0..2, true),
        "they stand at the beginning"
    );
    assert_eq!(cut_of(1, Keep::BothEnds), (false, 0..4, true));
}

#[test]
fn what_comes_in_place_counts_once_something_is_left_out() {
    let rules = Rules {
        limits: at_most_tokens(6),
        min_recent_turns: 1,
        in_place: Size { tokens: 2, messages: 1 },
        ..RULES
    };
    let cut_of = |spelling: &str| cut(&rules, None, &messages(spelling), &vec![1; spelling.len()]);
    assert_eq!((cut_of("uauauu").dropped, cut_of("uauauu").sent.tokens), (0..0, 6));
    assert_eq!((cut_of("uauauau").dropped, cut_of("uauauau").sent.tokens), (0..4, 5));
}

#[test]
fn a_selection_is_part_of_the_messages_and_parts_nothing() {
    let all = messages("uauttauau");
    let select = |indices: &[usize]| {
        let selection: Vec<Message> = indices.iter().map(|at| all[*at].clone()).collect();
        selected(&all, &selection, &all)
    };
    for sound in [&[8][..], &[0, 1, 8], &[2, 3, 4, 5, 8], &[2, 8], &[0, 2, 3, 8], &[7, 8]] {
        assert_eq!(select(sound).as_deref(), Ok(sound));
    }
    assert_eq!(select(&[1, 0, 8]), Err(NoSelection::Stranger(1)));
    assert_eq!(select(&[0, 1]), Err(NoSelection::Present));
    assert_eq!(select(&[]), Err(NoSelection::Present));
    assert_eq!(select(&[2, 4, 8]), Err(NoSelection::Dangling(2)));
    assert_eq!(select(&[5, 8]), Err(NoSelection::Dangling(1)));
    let strange = [Message::new(Role::User, "new"), all[8].clone()];
    assert_eq!(selected(&all, &strange, &all), Err(NoSelection::Stranger(1)));
    let twins = vec![Message::new(Role::User, "again"); 3];
    assert_eq!(
        selected(&twins, &twins[..2], &twins),
        Ok(vec![1, 2]),
        "the latest of equals"
    );
}

fn threads() -> impl Strategy<Value = (Vec<Message>, Vec<u64>)> {
    let turn = proptest::string::string_regex("ut{0,3}a?").expect("an expression");
    let turns = proptest::collection::vec(turn, 1..12).prop_map(|turns| messages(&turns.concat()));
    turns.prop_flat_map(|messages| {
        let count = messages.len();
        (Just(messages), proptest::collection::vec(0..20_u64, count))
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    let limits = (proptest::option::of(1..150_u64), proptest::option::of(1..30_u64));
    let keep = prop_oneof![
        Just(Keep::Latest),
        Just(Keep::BothEnds),
        (1..6_usize).prop_map(Keep::AtMost)
    ];
    (limits, any::<bool>(), 1..5_usize, keep, 0..8_u64).prop_map(
        |((tokens, messages), keeps_system, least, keep, place)| {
            let most = if let Keep::AtMost(most) = keep { most } else { least };
            Rules {
                limits: Limits {
                    max_tokens: tokens,
                    max_messages: messages,
                },
                keeps_system,
                min_recent_turns: least.min(most),
                keep,
                in_place: Size {
                    tokens: place,
                    messages: u64::from(place > 0),
                },
            }
        },
    )
}

fn sent(messages: &[Message], tokens: &[u64], cut: &Cut) -> (Vec<Message>, Vec<u64>) {
    let kept: Vec<usize> = (0..messages.len()).filter(|at| !cut.dropped.contains(at)).collect();
    (
        kept.iter().map(|at| messages[*at].clone()).collect(),
        kept.iter().map(|at| tokens[*at]).collect(),
    )
}

proptest! {
    #[test]
    fn a_cut_keeps_its_promises(
        (messages, tokens) in threads(),
        rules in rules(),
        system in proptest::option::of(0..20_u64),
    ) {
        let cut = cut(&rules, system, &messages, &tokens);
        let (kept, kept_tokens) = sent(&messages, &tokens, &cut);
        let instructions = |is_sent| Size {
            tokens: system.filter(|_| is_sent).unwrap_or_default(),
            messages: u64::from(system.is_some() && is_sent),
        };
        let is_cut = !cut.dropped.is_empty() || (system.is_some() && !cut.system);
        let in_place = if is_cut { rules.in_place } else { Size::default() };

        // It tells what is sent.
        prop_assert_eq!(cut.sent, Size::of(&kept_tokens) + instructions(cut.system) + in_place);
        prop_assert_eq!(cut.fits, rules.limits.allow(cut.sent));
        // The instructions stay where they must.
        prop_assert!(!rules.keeps_system || cut.system == system.is_some());
        // The latest turns stay, the present one with them.
        let all = turns(&messages);
        let recent = all[all.len().saturating_sub(rules.min_recent_turns)].start;
        prop_assert!(cut.dropped.end <= recent);
        // Whole turns: what is sent begins with a user message, and each call is followed by what followed it.
        prop_assert!(all.iter().all(|turn| !cut.dropped.contains(&turn.start) || cut.dropped.contains(&(turn.end - 1))));
        prop_assert!(all.iter().all(|turn| cut.dropped.contains(&turn.start) || !cut.dropped.contains(&(turn.end - 1))));
        // The limit is held whenever that minimum allows it.
        let least = Size::of(&tokens[recent..]) + instructions(rules.keeps_system) + rules.in_place;
        prop_assert!(cut.fits || !rules.limits.allow(least));
        // Nothing is dropped when everything fits a limit.
        let whole = Size::of(&tokens) + instructions(true);
        let is_limited = rules.limits != Limits::default() || !matches!(rules.keep, Keep::AtMost(_));
        prop_assert!(!(is_limited && rules.limits.allow(whole) && is_cut));
        // What has been cut is not cut again.
        let rules = Rules { in_place: Size::default(), ..rules };
        let again = super::cut(&rules, system.filter(|_| cut.system), &kept, &kept_tokens);
        prop_assert!(again.dropped.is_empty(), "{:?} then {:?}", cut, again);
    }
}
