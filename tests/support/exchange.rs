//! What was said between an agent and its model, as a journal has it.

use serde_json::Value;

/// The iterations of the agent's execution, those of attempts that failed left out, with the ends of their tool calls.
pub(crate) fn iterations(journal: &[Value], agent: &str, execution: u64) -> Vec<Value> {
    let mut iterations: Vec<Value> = Vec::new();
    for record in journal {
        let data = &record["data"];
        let is_own = data["agent"] == agent && data["execution"] == execution;
        if !is_own || data.get("part").is_some() || data.get("inside").is_some() {
            continue;
        }
        match record["event"].as_str() {
            Some("reply_received") => iterations.push(data["iteration"].clone()),
            Some("tool_call_ended") => {
                let calls = iterations.last_mut().expect("a reply")["tool_calls"].as_array_mut();
                let mut calls = calls.into_iter().flatten();
                let is_it = |call: &&mut Value| call["id"] == data["call"]["id"] && call.get("duration").is_none();
                *calls.find(is_it).expect("the call") = data["call"].clone();
            }
            Some("attempt_failed") => iterations.clear(),
            Some("execution_finished") => {
                iterations.extend(data["exchange"].as_array().cloned().unwrap_or_default());
            }
            _ => {}
        }
    }
    iterations
}

/// The tool calls of the agent's execution, iteration by iteration.
pub(crate) fn tool_calls(journal: &[Value], agent: &str, execution: u64) -> Vec<Vec<Value>> {
    let iterations = iterations(journal, agent, execution);
    let calls = |iteration: &Value| iteration["tool_calls"].as_array().cloned().unwrap_or_default();
    iterations.iter().map(calls).collect()
}
