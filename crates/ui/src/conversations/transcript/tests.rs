//! Where messages stand in a run, row by row.

use ensemble_language::loader::load_ensemble;
use ensemble_language::source::SourceText;
use serde_json::json;

use super::super::messages::ChatProgramMessages;
use super::*;

const GATE: &str = "name: gate\nagents: [{name: editor, input: {prompt: Go?, choices: ['yes', 'no']}, conversation: {max_turns: 9}}]\n";

/// Returns a run that was asked to go, and was answered with yes; then `later` happened.
fn transcript(later: &[Value]) -> ChatTranscript {
    let mut events = vec![json!({"event": "run_started", "data": {
        "format": 1, "run_id": "r", "ensemble": "gate", "ensemble_file": "gate.yaml", "ensemble_digest": "", "project_root": "/", "input": "go",
        "program": "0",
    }})];
    events.extend(turn(1));
    events.extend(answered(1));
    events.extend(later.iter().cloned());
    of(&events)
}

fn turn(number: u32) -> [Value; 2] {
    let starts = json!([{"agent": "editor", "execution": number}]);
    [
        json!({"event": "turn_started", "data": {"turn": number, "starts": starts}}),
        json!({"event": "execution_started", "data": {"turn": number, "agent": "editor", "execution": number, "attempt": 1}}),
    ]
}

fn answered(turn: u32) -> [Value; 3] {
    [
        json!({"event": "execution_finished", "data": {
            "turn": turn, "agent": "editor", "execution": turn, "attempt": 1, "output": {"response": "yes"}, "execution_time": 0.1,
        }}),
        json!({"event": "turn_finished", "data": {"turn": turn}}),
        json!({"event": "run_ended", "data": {"completion_reason": "completed"}}),
    ]
}

fn stopped(by: &str) -> [Value; 2] {
    [
        json!({"event": "interrupted", "data": {"cause": "cancelled", "by": by}}),
        json!({"event": "run_ended", "data": {"completion_reason": "cancelled"}}),
    ]
}

fn of(events: &[Value]) -> ChatTranscript {
    let ensemble = load_ensemble(&SourceText::new("gate.yaml", GATE))
        .ensemble
        .expect("an ensemble");
    let plan = Plan::build(Arc::new(ensemble)).expect("a plan");
    let records = (0..).zip(events).map(|(seq, event)| Record {
        seq,
        at: chrono::DateTime::UNIX_EPOCH,
        event: serde_json::from_value(event.clone()).expect("an event"),
    });
    ChatTranscript::from_records(&records.collect::<Vec<_>>(), Arc::new(plan)).expect("legal records")
}

/// Returns the place of messages: of the user, a reply, of the user, …
fn place(transcript: &ChatTranscript, texts: &[&str]) -> Option<TranscriptPosition> {
    let mut messages = ChatProgramMessages::default();
    for (at, text) in texts.iter().enumerate() {
        messages.push_message(at % 2 == 0, (*text).to_owned());
    }
    transcript.find_message_position(messages.as_slice(), 1)
}

#[test]
fn a_place_is_where_all_that_was_said_is_the_same() {
    let (replied, unanswered) = (Some(TranscriptPosition::Replied), Some(TranscriptPosition::Unanswered));
    let whole = transcript(&[]);
    for (texts, expected) in [
        (&["go", "Go?", "yes"][..], &unanswered),
        (&["go", "Go?", " YES "], &unanswered),
        (&["go", "Go?", "1"], &unanswered),
        (&["go", "Go?", "no"], &None),
        (&["go", "Go?", "2"], &None),
        (&["go", "Go?", "perhaps", "Go?", "yes"], &unanswered),
        (&["go", "Go?", "3", "Go?", "yes"], &unanswered),
        (&["go", "Go?", "perhaps"], &None),
        (&["go"], &None),
        (&["go", "Go?", "yes", "yes", "more"], &replied),
        (&["go", "Go?", "yes", "other", "more"], &None),
        (&["go", "Go?", "yes", "yes", "more", "yes", "again"], &None),
    ] {
        assert_eq!(&place(&whole, texts), expected, "{texts:?}");
    }
}

#[test]
fn a_run_without_an_end_waits_for_its_reply_or_for_an_answer() {
    let added = json!({"event": "message_added", "data": {"text": "more"}});
    let mut later = vec![added];
    later.extend(turn(2));
    let before = ["go", "Go?", "yes", "yes"];
    let with = |more: &[&'static str]| [&before[..], more].concat();
    let open = transcript(&later);
    assert_eq!(place(&open, &with(&["more"])), Some(TranscriptPosition::Unanswered));
    assert_eq!(place(&open, &with(&["other"])), None);
    let heard = Some(TranscriptPosition::LastHeard("Go?".to_owned()));
    assert_eq!(place(&open, &with(&["more", "Go?", "yes"])), heard);
    assert_eq!(place(&open, &with(&["more", "Go?", "yes", "x", "y"])), None);
    assert_eq!(
        open.last_segment_with_reply().map(|leg| (&leg.end, leg.was_resumed)),
        Some((&TranscriptSegmentEnd::Open, false))
    );
    // Stopped with its server, it has no end either; stopped by a person, it has failed.
    later.extend(stopped("the end of the server"));
    assert_eq!(
        place(&transcript(&later), &with(&["more"])),
        Some(TranscriptPosition::Unanswered)
    );
    later.truncate(3);
    later.extend(stopped(CANCELLED_BY_PAGE));
    assert_eq!(
        place(&transcript(&later), &with(&["other"])),
        Some(TranscriptPosition::Replied)
    );
    // Resumed, it goes on.
    later.push(json!({"event": "run_resumed", "data": {"program": "0"}}));
    let resumed = transcript(&later);
    assert_eq!(place(&resumed, &with(&["more"])), Some(TranscriptPosition::Unanswered));
    let leg = resumed.last_segment_with_reply().expect("a leg");
    assert_eq!((leg.was_resumed, leg.from), (true, resumed.records - 1));
}
