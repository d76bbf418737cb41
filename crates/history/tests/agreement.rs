//! The history of a run agrees with the state of its conversation, with the sum over its records, and with itself when
//! it is folded record by record.

use std::sync::Arc;

use chrono::DateTime;
use ensemble_core::conversation::{ConversationState, Event, Record, list_usage_by_agent};
use ensemble_history::{DriverProcess, RunHistory, RunState};
use ensemble_language::data::ModelUsage;
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;
use proptest::prelude::*;
use serde_json::{Value, json};

const AGENTS: [&str; 3] = ["a", "b", "c"];

fn plan() -> Arc<Plan> {
    let agents: String = AGENTS
        .iter()
        .map(|name| format!("  - {{name: {name}, model: simulated/x, system_prompt: x}}\n"))
        .collect();
    let text = format!("name: e\nagents:\n{agents}");
    let loaded = load_ensemble(&SourceText::new("e.yaml", &*text));
    let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:?}", loaded.findings));
    Arc::new(Plan::build(Arc::new(ensemble)).expect("a plan"))
}

/// An execution of the open turn.
#[derive(Debug, Clone)]
struct Execution {
    agent: usize,
    attempt: u32,
    is_under_way: bool,
    is_waiting: bool,
    is_finished: bool,
    /// The requests recorded inside the attempt.
    inside: u64,
}

/// A run that is written record by record, with the numbers that its history must have.
#[derive(Debug, Default)]
struct Script {
    records: Vec<Record>,
    turn: u32,
    open: Option<Vec<Execution>>,
    is_ended: bool,
    executions: [u32; 3],
    /// The attempts of each agent that were abandoned with their turn.
    abandoned: [u32; 3],
    requests: u64,
    turns: u32,
}

impl Script {
    fn new() -> Self {
        let mut script = Self::default();
        script.push(
            "run_started",
            json!({
                "format": 1, "run_id": "r", "ensemble": "e", "ensemble_file": "e.yaml", "ensemble_digest": "",
                "project_root": "", "input": "", "program": "0",
            }),
        );
        script
    }

    fn push(&mut self, name: &str, data: Value) {
        let seq = self.records.len() as u64;
        let event: Event = serde_json::from_value(json!({"event": name, "data": data}))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        self.records.push(Record {
            seq,
            at: DateTime::from_timestamp(seq as i64, 0).expect("a time"),
            event,
        });
    }

    /// Adds the records of one move.
    fn perform(&mut self, (agent, action, amount): (usize, u8, u64)) {
        if self.is_ended {
            return self.continue_run(action, amount);
        }
        let Some(open) = &self.open else {
            return self.start_turn(agent, amount);
        };
        if open.iter().all(|one| one.is_finished) {
            open.iter().for_each(|one| self.abandoned[one.agent] = 0);
            self.open = None;
            self.turns += 1;
            return self.push("turn_finished", json!({"turn": self.turn}));
        }
        let at = open.iter().position(|one| one.agent == agent && !one.is_finished);
        let at = at
            .or_else(|| open.iter().position(|one| !one.is_finished))
            .expect("one is open");
        match action {
            0 => self.interrupt(),
            1 => self.resume(amount),
            // Only a resume has the answer.
            _ if open[at].is_waiting => self.resume(0),
            _ => self.step(at, action, amount),
        }
    }

    fn start_turn(&mut self, agent: usize, amount: u64) {
        self.turn += 1;
        let agents: Vec<usize> = (0..3).filter(|one| *one == agent || amount >> one & 1 == 1).collect();
        let start = |agent: &usize| json!({"agent": AGENTS[*agent], "execution": self.executions[*agent] + 1});
        let starts: Vec<Value> = agents.iter().map(start).collect();
        let open = agents.iter().map(|agent| Execution {
            agent: *agent,
            attempt: self.abandoned[*agent],
            is_under_way: false,
            is_waiting: false,
            is_finished: false,
            inside: 0,
        });
        self.open = Some(open.collect());
        self.push("turn_started", json!({"turn": self.turn, "starts": starts}));
    }

    fn interrupt(&mut self) {
        for one in self.open.iter_mut().flatten() {
            one.is_under_way = false;
        }
        self.is_ended = true;
        self.push("interrupted", json!({"cause": "ctrl_c"}));
        self.push("run_ended", json!({"completion_reason": "cancelled"}));
    }

    /// Resumes the run; with an odd amount, one execution that has finished is repeated.
    fn resume(&mut self, amount: u64) {
        let mut again = Vec::new();
        for one in self.open.iter_mut().flatten() {
            (one.is_under_way, one.is_waiting) = (false, false);
            if one.is_finished && amount % 2 == 1 && again.is_empty() {
                one.is_finished = false;
                one.inside = 0;
                self.executions[one.agent] -= 1;
                again.push(AGENTS[one.agent]);
            }
        }
        self.is_ended = false;
        self.push("run_resumed", json!({"program": "0", "again": again}));
    }

    fn continue_run(&mut self, action: u8, amount: u64) {
        if action.is_multiple_of(2) {
            return self.resume(amount);
        }
        let open = self.open.take().unwrap_or_default();
        for one in &open {
            self.abandoned[one.agent] = if one.is_finished { 0 } else { one.attempt };
        }
        self.turns += u32::from(open.iter().any(|one| one.is_finished));
        self.is_ended = false;
        self.push("message_added", json!({"text": "go on"}));
    }

    fn step(&mut self, at: usize, action: u8, amount: u64) {
        let turn = self.turn;
        let open = self.open.as_mut().expect("a turn is open");
        let one = &mut open[at];
        let (agent, execution) = (AGENTS[one.agent], self.executions[one.agent] + 1);
        if !one.is_under_way {
            (one.is_under_way, one.inside, one.attempt) = (true, 0, one.attempt + 1);
            let data = json!({"turn": turn, "agent": agent, "execution": execution, "attempt": one.attempt});
            return self.push("execution_started", data);
        }
        let mut data = json!({"turn": turn, "agent": agent, "execution": execution, "attempt": one.attempt});
        let all = usage(one.inside + amount);
        let (name, rest) = match action {
            2 | 3 => {
                one.inside += amount;
                (
                    "reply_received",
                    json!({"iteration": {"number": 1, "messages": []}, "usage": usage(amount)}),
                )
            }
            4 => {
                one.is_under_way = false;
                (
                    "attempt_failed",
                    json!({"failure": failure(), "usage": all, "pause": 0.0}),
                )
            }
            5 => ("part_ended", part(amount)),
            6 => {
                (one.is_under_way, one.is_waiting) = (false, true);
                ("input_requested", json!({"prompt": "?", "choices": []}))
            }
            7 => {
                one.inside += amount;
                let call = json!({"id": "1", "name": "t", "arguments": {}, "result": 1, "duration": 0.0});
                ("tool_call_ended", json!({"call": call, "usage": usage(amount)}))
            }
            _ => {
                (one.is_under_way, one.is_finished) = (false, true);
                self.executions[one.agent] += 1;
                let mut finished = json!({"execution_time": 1.0, "usage": all});
                match action {
                    8 => finished["failure"] = failure(),
                    _ => finished["output"] = json!({}),
                }
                ("execution_finished", finished)
            }
        };
        self.requests += if action == 6 { 0 } else { amount };
        let (Value::Object(data_map), Value::Object(rest)) = (&mut data, rest) else {
            unreachable!("both are objects");
        };
        data_map.extend(rest);
        self.push(name, data);
    }
}

fn usage(requests: u64) -> Value {
    json!({"requests": requests, "input_tokens": 10 * requests, "output_tokens": requests, "estimated": false, "cost": requests as f64 / 1000.0})
}

fn failure() -> Value {
    json!({"kind": "exit", "error": "no"})
}

fn part(amount: u64) -> Value {
    json!({"key": "k", "part": 0, "count": 1, "item_digest": "", "output": {}, "execution_time": 1.0, "usage": usage(amount)})
}

fn moves() -> impl Strategy<Value = Vec<(usize, u8, u64)>> {
    prop::collection::vec((0..3_usize, 0..12_u8, 1..8_u64), 1..120)
}

/// The facts that the state of the conversation and the history both have.
type Facts = (u32, usize, usize, ModelUsage, Vec<(String, ModelUsage)>, usize);

fn facts_of_state(state: &ConversationState) -> Facts {
    let executions = state
        .plan()
        .agent_ids()
        .map(|id| state.execution_count(id) as usize)
        .sum();
    let failed = state.list_executions().filter(|entry| entry.failure.is_some()).count();
    let by_agent = list_usage_by_agent(state).into_iter();
    let by_agent = by_agent.map(|(name, usage)| (name.to_owned(), usage)).collect();
    let questions = state.pending_requests().count();
    (
        state.finished_turn_count(),
        executions,
        failed,
        state.usage_with_open_turn(),
        by_agent,
        questions,
    )
}

fn facts_of_history(history: &RunHistory) -> Facts {
    let totals = history.run_totals();
    let used = |name: &&str| Some((name.to_string(), totals.agents.get(*name)?.usage));
    let by_agent = AGENTS
        .iter()
        .filter_map(used)
        .filter(|(_, usage)| *usage != ModelUsage::default());
    let questions = history.pending_requests().len();
    (
        totals.turns,
        totals.all.executions,
        totals.all.failed,
        totals.all.usage,
        by_agent.collect(),
        questions,
    )
}

proptest! {
    #[test]
    fn the_history_agrees_with_the_state_after_every_record(moves in moves()) {
        let mut script = Script::new();
        moves.into_iter().for_each(|one| script.perform(one));
        let (mut state, mut history) = (ConversationState::new(plan()), RunHistory::default());
        for record in &script.records {
            state.apply_record(record).expect("a legal record");
            history.apply_record(record);
            prop_assert_eq!(facts_of_history(&history), facts_of_state(&state), "after {:?}", record);
        }
        let totals = history.run_totals();
        prop_assert_eq!(totals.all.usage.requests, script.requests, "every request of every attempt");
        prop_assert_eq!(totals.all.executions as u32, script.executions.iter().sum::<u32>());
        prop_assert_eq!(totals.turns, script.turns);
        prop_assert_eq!(totals.agents.values().map(|one| one.usage.requests).sum::<u64>(), script.requests);
    }

    #[test]
    fn a_history_that_goes_on_is_the_history_of_the_whole(moves in moves(), cut in 0..400_usize) {
        let mut script = Script::new();
        moves.into_iter().for_each(|one| script.perform(one));
        let (before, after) = script.records.split_at(cut.min(script.records.len()));
        let mut history = RunHistory::from_records(before).clone();
        let _looked_at = history.run_totals();
        after.iter().for_each(|record| history.apply_record(record));
        let whole = RunHistory::from_records(&script.records);
        prop_assert_eq!(history.run_totals(), whole.run_totals());
        prop_assert_eq!(history.pending_requests(), whole.pending_requests());
        for driver in [DriverProcess::NoProcess, DriverProcess::Process(1)] {
            prop_assert_eq!(history.run_state(driver), whole.run_state(driver));
        }
    }
}

#[test]
fn a_run_has_one_state_for_every_end() {
    let mut script = Script::new();
    script.start_turn(0, 0);
    script.step(0, 2, 1);
    let states = |script: &Script| {
        let history = RunHistory::from_records(&script.records);
        (
            history.run_state(DriverProcess::NoProcess).as_str(),
            history.run_state(DriverProcess::Process(7)).as_str(),
        )
    };
    assert_eq!(states(&script), ("interrupted", "running"));
    script.step(0, 6, 1);
    assert_eq!(
        states(&script),
        ("waiting", "waiting"),
        "another agent of the turn may still run"
    );
    script.push("run_ended", json!({"completion_reason": "waiting_for_input"}));
    assert_eq!(states(&script), ("waiting", "waiting"));
    script.resume(0);
    assert_eq!(states(&script), ("interrupted", "running"));
    script.interrupt();
    assert_eq!(states(&script), ("cancelled", "cancelled"));
    script.continue_run(1, 0);
    assert_eq!(states(&script), ("interrupted", "running"), "until it ends again");
    script.push("run_ended", json!({"completion_reason": "completed"}));
    assert_eq!(states(&script), ("completed", "completed"));
}

#[test]
fn every_state_is_read_as_it_is_written() {
    for word in RunState::list_state_names() {
        let state: RunState = serde_json::from_value(json!(word)).expect("a state");
        assert_eq!(state.as_str(), word);
    }
}
