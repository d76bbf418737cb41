//! Random ensembles, as files.

use ensemble_language::plan::Plan;
use serde_json::{Value, json};

/// An ensemble as text, whose agents are scripts with these fates, with other keys for the agent at a place.
pub(crate) fn text_of(plan: &Plan, fate: &[u8], other: impl Fn(usize) -> Value) -> String {
    let agents: Vec<Value> = (0_usize..)
        .zip(&plan.ensemble().agents)
        .map(|(at, agent)| {
            let dependencies: Vec<Value> = agent
                .dependencies
                .iter()
                .map(|dependency| {
                    let mut written = json!({
                        "agent_name": dependency.agent_name,
                        "requires_all": dependency.requires_all,
                        "feedback": dependency.feedback,
                        "on": format!("{:?}", dependency.on).to_lowercase(),
                        "wait_for": format!("{:?}", dependency.wait_for).to_lowercase(),
                    });
                    if let Some(condition) = &dependency.condition {
                        written["condition"] = json!(&**condition);
                    }
                    if let Some(most) = dependency.max_executions {
                        written["max_executions"] = json!(most);
                    }
                    if written["wait_for"] == "nothing" {
                        written["wait_for"] = json!("none");
                    }
                    written
                })
                .collect();
            let trigger = format!("{:?}", agent.conversation.trigger);
            let mut written = json!({
                "name": agent.name,
                "script": "fate.rhai",
                "config": {"at": at, "fate": fate},
                "dependencies": dependencies,
                "conversation": {
                    "max_turns": agent.conversation.max_turns,
                    "trigger": match &*trigger { "News" => "news", "EveryTurn" => "every_turn", _ => "request" },
                },
            });
            if let Value::Object(other) = other(at) {
                let keys = written.as_object_mut().expect("a map");
                keys.remove("script");
                keys.extend(other);
            }
            written
        })
        .collect();
    json!({"name": "random", "agents": agents}).to_string()
}

/// The script of their agents.
pub(crate) const FATE: &str = r#"
let fate = parameters.fate[(parameters.at * 11 + execution * 7) % parameters.fate.len()];
if fate % 5 == 0 { throw `fails with ${fate}`; }
#{ n: fate % 4, fate: fate }
"#;
