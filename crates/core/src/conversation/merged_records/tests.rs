//! Merges of short runs, written as records: numbers, ids of calls, and what cannot be merged.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{MergedRecords, RecordsMergeError, merge_records};
use crate::conversation::{ConversationState, Event, Record};
use crate::random_conversations::build_plan;
use crate::thread::{LEFT_OUT_KEY, MergeOrder, Thread};
use ensemble_language::plan::Plan;

fn plan() -> Arc<Plan> {
    Arc::new(build_plan(
        "name: chat\nmodel_profiles: {m: {provider: simulated, replies: [x]}}\nagents:\n  - {name: bot, model_profile: m}\n  - {name: judge, script: judge.rhai, depends_on: [bot]}\n",
    ))
}

/// A run that grows by whole messages. Times are seconds, so records of two runs are the same only if they were copied.
#[derive(Clone)]
struct GrowingRun {
    records: Vec<Record>,
    second: i64,
    turns: u32,
}

impl GrowingRun {
    fn new(id: &str) -> Self {
        let mut run = Self {
            records: Vec::new(),
            second: 0,
            turns: 0,
        };
        run.push(
            "run_started",
            &json!({"format": 1, "run_id": id, "ensemble": "chat", "ensemble_file": "", "ensemble_digest": "d",
                "project_root": "", "input": "hello", "program": ""}),
        );
        run.answer("hello")
    }

    /// Returns a fork that shares all turns.
    fn fork(&self, id: &str, second: i64) -> Self {
        let mut fork = Self { second, ..self.clone() };
        if let Event::RunStarted(start) = &mut fork.records[0].event {
            start.run_id = id.into();
        }
        fork.records.pop();
        fork.end()
    }

    fn push(&mut self, name: &str, data: &Value) {
        self.second += 1;
        let event: Event = serde_json::from_value(json!({"event": name, "data": data})).expect("is an event");
        self.records.push(Record {
            seq: self.records.len() as u64,
            at: DateTime::<Utc>::from_timestamp(self.second, 0).expect("is a time"),
            event,
        });
    }

    /// The bot calls a tool and replies, and the judge reads the reply.
    fn answer(mut self, text: &str) -> Self {
        let execution = self.turns / 2 + 1;
        let call = json!({"id": format!("call_{execution}"), "name": "look", "arguments": {}});
        let within = json!({"turn": self.turns + 1, "agent": "bot", "execution": execution, "attempt": 1});
        let with = |more: Value| {
            let mut data = within.clone();
            let more = more.as_object().cloned().unwrap_or_default();
            data.as_object_mut().expect("is an object").extend(more);
            data
        };
        let usage = json!({"requests": 1, "input_tokens": 1, "output_tokens": 1, "estimated": false});
        let asked = json!({"number": 1, "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": ""}], "tool_calls": [call]});
        let replied = json!({"number": 2, "messages": [{"role": "assistant", "content": format!("{text}!")}]});
        let mut ended = call.clone();
        ended["result"] = json!(text);
        self.push(
            "turn_started",
            &json!({"turn": self.turns + 1, "starts": [{"agent": "bot", "execution": execution}]}),
        );
        self.push("execution_started", &within);
        self.push("reply_received", &with(json!({"iteration": asked, "usage": usage})));
        self.push("tool_call_started", &with(json!({"call": format!("call_{execution}")})));
        self.push("tool_call_ended", &with(json!({"call": ended})));
        self.push(
            "execution_finished",
            &with(json!({"output": {"response": text}, "execution_time": 0.0, "exchange": [replied]})),
        );
        self.push("turn_finished", &json!({"turn": self.turns + 1}));
        let judged = json!({"turn": self.turns + 2, "agent": "judge", "execution": execution, "attempt": 1});
        self.push(
            "turn_started",
            &json!({"turn": self.turns + 2, "starts": [{"agent": "judge", "execution": execution, "reads": {"bot": execution}}]}),
        );
        self.push("execution_started", &judged);
        let mut finished = judged;
        (finished["output"], finished["execution_time"]) = (json!({"verdict": text}), json!(0.0));
        self.push("execution_finished", &finished);
        self.push("turn_finished", &json!({"turn": self.turns + 2}));
        self.turns += 2;
        self.end()
    }

    fn end(mut self) -> Self {
        self.push("run_ended", &json!({"completion_reason": "completed"}));
        self
    }

    fn say(mut self, text: &str) -> Self {
        self.push("message_added", &json!({"text": text}));
        self.answer(text)
    }

    fn set(mut self, key: &str, value: &str) -> Self {
        self.records.pop();
        self.push("context_set", &json!({key: value}));
        self.end()
    }
}

fn merge(left: &GrowingRun, right: &GrowingRun, order: MergeOrder) -> Result<MergedRecords, RecordsMergeError> {
    merge_records(&plan(), &left.records, &right.records, order)
}

fn thread_of(records: &[Record], agent: &str) -> Arc<Thread> {
    let plan = plan();
    let state = ConversationState::from_records(plan.clone(), records).expect("the records are legal");
    let id = plan.find_agent_id(agent).expect("is there");
    state.agent_state(id).thread().clone()
}

/// The texts of the users in the thread.
fn list_texts(thread: &Thread) -> Vec<String> {
    let messages = thread.to_messages().into_iter();
    messages
        .filter(|message| !message.content.is_empty() && !message.content.ends_with('!'))
        .map(|message| message.content)
        .collect()
}

fn base() -> GrowingRun {
    GrowingRun::new("one")
}

#[test]
fn a_merge_contains_the_shared_messages_and_then_those_of_both_runs() {
    let left = base().say("l1").say("l2");
    let right = base().fork("other", 500).say("r1");
    for (order, texts) in [
        (MergeOrder::Sequence, ["hello", "l1", "l2", "r1"]),
        (MergeOrder::SideBySide, ["hello", "l1", "r1", "l2"]),
    ] {
        let merged = merge(&left, &right, order).expect("both continue the same run");
        assert_eq!(
            (merged.shared_messages, merged.added_messages, merged.shared_turn),
            (1, [2, 1], 2)
        );
        let thread = thread_of(&merged.records, "bot");
        assert_eq!(list_texts(&thread), texts);
        let calls = thread.iterations().iter().flat_map(|iteration| &iteration.tool_calls);
        let mut ids: Vec<&str> = calls.clone().map(|call| call.id.as_str()).collect();
        assert!(calls.clone().all(|call| call.end.is_some()), "each call has its result");
        ids.sort_unstable();
        assert_eq!(ids, ["call_1", "call_2", "call_2_2", "call_3"], "each id occurs once");
        let starts = merged.records.iter().filter_map(|record| match &record.event {
            Event::TurnStarted(turn) => Some((turn.turn, &turn.starts[0])),
            _ => None,
        });
        for (turn, start) in starts {
            assert_eq!(start.execution, turn.div_ceil(2));
            let read = start.reads.get("bot").copied();
            assert_eq!(
                read,
                (&*start.agent == "judge").then_some(start.execution),
                "turn {turn}"
            );
        }
    }
    let merged = merge(&left, &right, MergeOrder::Sequence).expect("both continue the same run");
    assert_eq!(merged.executions[1].get(&("bot".into(), 2)), Some(&4));
}

#[test]
fn requests_state_which_messages_of_the_other_run_they_did_not_contain() {
    let left = base().say("l1").say("l2");
    let right = base().fork("other", 500).say("r1");
    let merged = merge(&left, &right, MergeOrder::SideBySide).expect("both continue the same run");
    let thread = thread_of(&merged.records, "bot");
    // Each message has three messages in the thread: the text, the reply with the call, and the final reply.
    let left_out: Vec<Value> = thread
        .iterations()
        .iter()
        .step_by(2)
        .map(|iteration| iteration.metadata.get(LEFT_OUT_KEY).cloned().unwrap_or_default())
        .collect();
    assert_eq!(left_out, [Value::Null, Value::Null, json!([[3, 6]]), json!([[6, 9]])]);
}

#[test]
fn values_that_a_fork_sets_are_set_with_its_next_message() {
    let left = base().say("l1");
    let right = base().fork("other", 500).set("tone", "dry").say("r1");
    let merged = merge(&left, &right, MergeOrder::Sequence).expect("both continue the same run");
    let sets: Vec<usize> = merged
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::MessageAdded(message) => Some(message.set.len()),
            _ => None,
        })
        .collect();
    assert_eq!(sets, [0, 1]);
    let state = ConversationState::from_records(plan(), &merged.records).expect("the records are legal");
    assert_eq!(
        state.context().get("tone").map(|tone| (**tone).clone()),
        Some(json!("dry"))
    );
}

#[test]
fn two_answers_to_the_same_message_are_both_kept() {
    let asked = base().say("again");
    let mut right = asked.clone();
    let message = right
        .records
        .iter()
        .rposition(|record| matches!(record.event, Event::MessageAdded(_)));
    right.records.truncate(message.expect("is there") + 1);
    (right.second, right.turns) = (500, 2);
    if let Event::RunStarted(start) = &mut right.records[0].event {
        start.run_id = "other".into();
    }
    let right = right.answer("again");
    let merged = merge(&asked, &right, MergeOrder::Sequence).expect("both continue the same run");
    assert_eq!(
        list_texts(&thread_of(&merged.records, "bot")),
        ["hello", "again", "again"]
    );
}

#[test]
fn runs_that_cannot_be_merged_say_why() {
    let left = base().say("l1");
    let fork = || base().fork("other", 500);
    let change = |edit: fn(&mut crate::conversation::RunStarted)| {
        let mut right = fork().say("r1");
        if let Event::RunStarted(start) = &mut right.records[0].event {
            edit(start);
        }
        right
    };
    let unrelated = {
        let mut run = base();
        run.records
            .iter_mut()
            .for_each(|record| record.at += chrono::TimeDelta::days(1));
        run.fork("other", 500).say("r1")
    };
    let parted = {
        let mut run = base().fork("other", 500).say("r1");
        let at = run
            .records
            .iter()
            .position(|record| record.event.turn() == Some(2))
            .expect("is there");
        run.records[at].at += chrono::TimeDelta::days(1);
        run
    };
    let open = |outcome: Option<&str>| {
        let mut run = fork().say("r1");
        run.records.pop();
        if let Some(outcome) = outcome {
            run.push("run_ended", &json!({"completion_reason": outcome}));
        }
        run
    };
    let table = [
        (
            change(|start| start.ensemble_digest = "e".into()),
            "`one` and `other` have different ensembles",
        ),
        (
            change(|start| start.input = "bye".into()),
            "`one` and `other` began with another input",
        ),
        (
            change(|start| start.inputs.insert("n".into(), Arc::new(json!(1)))),
            "`one` and `other` began with another value of an input",
        ),
        (
            change(|start| start.context.insert("n".into(), Arc::new(json!(1)))),
            "`one` and `other` began with another context",
        ),
        (unrelated, "`one` and `other` have no common beginning"),
        (parted, "`one` and `other` part within their first message, in turn 2"),
        (fork(), "`other` adds no message to `one`"),
        (open(None), "`other` has not ended"),
        (open(Some("waiting_for_input")), "`other` waits for an answer"),
    ];
    for (right, words) in table {
        let error = merge(&left, &right, MergeOrder::Sequence).expect_err("cannot be merged");
        assert_eq!(error.to_string(), words);
    }
    let nothing = merge(&base(), &fork().say("r1"), MergeOrder::Sequence).expect_err("adds nothing");
    assert_eq!(nothing.to_string(), "`one` adds no message to `other`");
}
