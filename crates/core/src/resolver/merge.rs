//! The results of a finished turn: new requests, and warnings.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::conversation::{
    AGENT_REQUESTS_KEY, ConversationState, ExecutionProgress, ExecutionSlot, OpenTurn, TurnFinished,
};
use ensemble_language::data::AgentRequest;
use ensemble_language::plan::{AgentId, Plan};

/// The maximum number of requests of one execution: each is kept, counted and recorded.
const MAX_REQUESTS_PER_EXECUTION: usize = 100;

/// Builds the decision that finishes a turn whose executions have ended: new requests and warnings.
pub(super) fn build_turn_finished(plan: &Plan, state: &ConversationState, turn: &OpenTurn) -> TurnFinished {
    let mut finished = TurnFinished {
        turn: turn.turn,
        requests: IndexMap::new(),
        requested_at_limit: Vec::new(),
        warnings: Vec::new(),
    };
    for slot in &turn.slots {
        finished
            .warnings
            .extend(list_ignored_request_warnings(plan, state, slot));
    }
    for slot in &turn.slots {
        let ExecutionProgress::Finished(ended) = &slot.progress else {
            continue;
        };
        let Some(output) = ended.0.output().and_then(|output| output.as_object()) else {
            continue;
        };
        let from = slot.agent;
        let own_name = plan.agent_name(from);
        for key in output.keys().filter(|key| plan.is_agent_or_state_key(key)) {
            finished.warnings.push(format!(
                "{own_name}: the output's key `{key}` is the name or state key of an agent, so it was not merged into the context"
            ));
        }
        if let Some(requests) = output.get(AGENT_REQUESTS_KEY) {
            collect_agent_requests(plan, state, turn, from, requests, &mut finished);
        }
    }
    finished
}

/// Returns a warning for each pending request of an agent that reaches its limit in this turn.
fn list_ignored_request_warnings(plan: &Plan, state: &ConversationState, slot: &ExecutionSlot) -> Vec<String> {
    let max_turns = plan.agent(slot.agent).conversation.max_turns.get();
    if state.agent_state(slot.agent).executions_in_segment() + 1 < max_turns {
        return Vec::new();
    }
    let target = plan.agent_name(slot.agent);
    let warning = |request: &Arc<AgentRequest>| {
        format!(
            "{}: a request was ignored: `{target}` has reached its max_turns {max_turns}",
            request.from
        )
    };
    state.agent_requests(slot.agent).iter().map(warning).collect()
}

/// Adds the requests in the output of one execution to `finished`, and a warning for each ignored request.
fn collect_agent_requests(
    plan: &Plan,
    state: &ConversationState,
    turn: &OpenTurn,
    from: AgentId,
    requests: &Value,
    finished: &mut TurnFinished,
) {
    let own_name = plan.agent_name(from);
    let warnings = &mut finished.warnings;
    let mut warn = |warning: String| warnings.push(format!("{own_name}: {warning}"));
    if !plan.agent(from).conversation.triggers_conversation {
        warn("`agent_requests` was ignored: the agent does not have `triggers_conversation: true`".to_owned());
        return;
    }
    let Some(requests) = requests.as_array() else {
        warn("`agent_requests` was ignored: it is not a list".to_owned());
        return;
    };
    if requests.len() > MAX_REQUESTS_PER_EXECUTION {
        warn(format!(
            "`agent_requests` has {} requests; only the first {MAX_REQUESTS_PER_EXECUTION} are used",
            requests.len()
        ));
    }
    for request in requests.iter().take(MAX_REQUESTS_PER_EXECUTION) {
        match parse_agent_request(plan, state, turn, own_name, request) {
            Err(IgnoredRequest { why, at_limit }) => {
                warn(format!("a request was ignored: {why}"));
                let known = &mut finished.requested_at_limit;
                known.extend(at_limit.filter(|target| !known.contains(target)));
            }
            Ok((target, request)) => {
                let requests = finished.requests.entry(plan.agent_name(target).clone()).or_default();
                requests.push(Arc::new(request));
            }
        }
    }
}

/// Reason why a request of an agent is ignored.
struct IgnoredRequest {
    why: String,
    /// The target, if it has reached its `max_turns`.
    at_limit: Option<Arc<str>>,
}

/// Parses one request of an execution.
///
/// # Errors
/// The reason why the request is ignored.
fn parse_agent_request(
    plan: &Plan,
    state: &ConversationState,
    turn: &OpenTurn,
    from: &Arc<str>,
    request: &Value,
) -> Result<(AgentId, AgentRequest), IgnoredRequest> {
    let ignored = |why: String| Err(IgnoredRequest { why, at_limit: None });
    let target = request.get("target_agent").or_else(|| request.get("target_agent_type"));
    let Some(target) = target.and_then(Value::as_str) else {
        return ignored(format!("it has no `target_agent`: {request}"));
    };
    let Some(id) = plan.find_agent_id(target) else {
        return ignored(format!("there is no agent `{target}`"));
    };
    let priority = match request.get("priority") {
        None | Some(Value::Null) => 0,
        Some(priority) => match priority.as_i64().or_else(|| integer_from_float(priority)) {
            Some(priority) => priority,
            None => return ignored(format!("its priority is not an integer: {priority}")),
        },
    };
    let runs_now = u32::from(turn.slots.iter().any(|slot| slot.agent == id));
    let max_turns = plan.agent(id).conversation.max_turns.get();
    if state.agent_state(id).executions_in_segment() + runs_now >= max_turns {
        return Err(IgnoredRequest {
            why: format!("`{target}` has reached its max_turns {max_turns}"),
            at_limit: Some(plan.agent_name(id).clone()),
        });
    }
    let parameters = match request.get("parameters") {
        None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
        Some(parameters) => parameters.clone(),
    };
    Ok((
        id,
        AgentRequest {
            from: from.clone(),
            parameters,
            priority,
        },
    ))
}

/// Converts a float without a fraction to an integer. Returns `None` for other values.
fn integer_from_float(value: &Value) -> Option<i64> {
    let value = value.as_f64()?;
    (value.fract() == 0.0 && value.abs() < 9e15).then_some(value as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::random_conversations::{HandDrivenConversation, build_plan};

    /// Returns the sources and priorities of the requests for `c`, the next one first, and the warnings, after `a` and
    /// `b` have given these outputs.
    fn after(a: Value, b: Value) -> (Vec<String>, Vec<String>) {
        let plan = Arc::new(build_plan(
            "name: e\nagents:\n- {name: a, script: x, conversation: {triggers_conversation: true}}\n- {name: b, script: x, conversation: {triggers_conversation: true}}\n- {name: c, script: x, depends_on: [d], conversation: {max_turns: 3}}\n- {name: d, script: x, depends_on: [c, a], conversation: {max_turns: 2}}\n",
        ));
        let mut driver = HandDrivenConversation::new(&plan);
        let outputs = [json!({"agent_requests": a}), json!({"agent_requests": b})];
        let finished = driver.perform_first_turn(&plan, &outputs);
        driver.apply_turn_end(finished.clone());
        let queued = driver
            .state()
            .agent_requests(plan.find_agent_id("c").expect("it exists"));
        let requests = queued
            .iter()
            .map(|request| format!("c {} {}", request.from, request.priority));
        (requests.collect(), finished.warnings)
    }

    #[test]
    fn the_highest_priority_is_first_then_the_first_declared() {
        let table = [
            (
                json!([{"target_agent": "c"}]),
                json!([{"target_agent": "c"}]),
                ["c a 0", "c b 0"],
            ),
            (
                json!([{"target_agent": "c"}]),
                json!([{"target_agent": "c", "priority": 1}]),
                ["c b 1", "c a 0"],
            ),
            (
                json!([{"target_agent": "c", "priority": 2.0}]),
                json!([{"target_agent_type": "c", "priority": 1}]),
                ["c a 2", "c b 1"],
            ),
            (
                json!([{"target_agent": "c", "priority": -1}]),
                json!([{"target_agent": "c"}]),
                ["c b 0", "c a -1"],
            ),
        ];
        for (a, b, expected) in table {
            let (requests, warnings) = after(a.clone(), b.clone());
            assert_eq!(
                (requests, warnings),
                (expected.map(str::to_owned).to_vec(), Vec::new()),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn requests_that_cannot_be_honoured_are_warned_of() {
        let table = [
            (json!("c"), "it is not a list"),
            (json!([{"agent": "c"}]), "it has no `target_agent`"),
            (json!([{"target_agent": "z"}]), "there is no agent `z`"),
            (json!([{"target_agent": "a"}]), "`a` has reached its max_turns 1"),
            (
                json!([{"target_agent": "c", "priority": "high"}]),
                "its priority is not an integer",
            ),
        ];
        for (a, expected) in table {
            let (requests, warnings) = after(a.clone(), json!([]));
            assert_eq!(requests, Vec::<String>::new(), "{a}");
            assert!(
                warnings.len() == 1 && warnings[0].contains(expected),
                "{a}: {warnings:?}"
            );
        }
    }
}
