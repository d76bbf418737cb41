//! The limits of the new file: what the agents of llm-orc may take is not cut off by a default of this language.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::draft::{DraftMap, DraftMapLine, DraftValue, UnconvertedKeyComment};
use ensemble_language::loader::document::YamlNode;
use ensemble_language::source::Span;

/// Default of `timeout_seconds` of a run.
const DEFAULT_RUN_SECONDS: f64 = 300.0;
/// Default of `max_total_turns`.
const DEFAULT_RUN_TURNS: u64 = 20;
/// Time in seconds that an agent of llm-orc can take without its own time limit.
const DEFAULT_AGENT_SECONDS: f64 = 60.0;
/// Largest time limit that the import writes, in seconds.
const MAX_SECONDS: f64 = 1e9;
/// Largest number of turns that the import writes.
const MAX_TURNS: u64 = 1_000_000;

/// Seconds and turns that a path through the agents needs.
#[derive(Debug, Clone, Copy, Default)]
struct PathRequirements {
    seconds: f64,
    turns: u64,
}

impl PathRequirements {
    /// Adds the requirements of another part of the path, up to the maximum.
    fn sum_requirements(self, other: Self) -> Self {
        Self {
            seconds: (self.seconds + other.seconds).min(MAX_SECONDS),
            turns: self.turns.saturating_add(other.turns).min(MAX_TURNS),
        }
    }

    /// Returns the larger number of seconds and the larger number of turns.
    fn max_requirements(self, other: Self) -> Self {
        Self {
            seconds: self.seconds.max(other.seconds),
            turns: self.turns.max(other.turns),
        }
    }
}

/// Adds higher limits of the run to the draft, if the longest path through the agents needs more than the defaults.
pub(super) fn raise_run_limits_if_needed(map: &mut DraftMap, old: &YamlNode) {
    let Some(DraftValue::List(agents)) = map.get_value_mut("agents") else {
        return;
    };
    let need = compute_longest_path_requirements(agents);
    let from = old.span.start;
    let mut lines = Vec::new();
    if need.seconds > DEFAULT_RUN_SECONDS {
        let seconds = whole_seconds_to_json(need.seconds.ceil());
        let reason =
            "this is the sum of the time limits of the agents; without the key, a run is stopped after 300 seconds";
        lines.push((reason, "timeout_seconds", seconds));
    }
    if need.turns > DEFAULT_RUN_TURNS {
        let reason = "the run can need this number of turns; without the key, a run ends after 20 turns";
        lines.push((reason, "max_total_turns", json!(need.turns)));
    }
    if map.find_line_index("conversation_limits").is_none() && !lines.is_empty() {
        let at = map.find_line_index("agents").unwrap_or(0);
        map.lines.insert(
            at,
            DraftMapLine::new_entry("conversation_limits", DraftValue::Map(DraftMap::default()), None),
        );
    }
    let Some(DraftValue::Map(limits)) = map.get_value_mut("conversation_limits") else {
        return;
    };
    for (why, key, value) in lines {
        if limits.find_line_index(key).is_none() {
            limits.put_comment(build_comment_line(why, from));
            limits.put_plain_value(key, value, None);
        }
    }
}

/// Creates a comment at this position that does not concern an old key.
pub(super) fn build_comment_line(text: &str, at: usize) -> UnconvertedKeyComment {
    let at = Span::new(at, at);
    UnconvertedKeyComment {
        from: at,
        covered_span: at,
        lines: vec![text.to_owned()],
    }
}

/// Converts seconds to an integer if possible.
fn whole_seconds_to_json(seconds: f64) -> Value {
    format!("{seconds:.0}")
        .parse::<u64>()
        .map_or(json!(seconds), |seconds| json!(seconds))
}

/// Returns the requirements of the longest path. Ignores feedback dependencies.
fn compute_longest_path_requirements(agents: &[(DraftValue, Option<Span>)]) -> PathRequirements {
    let agents: Vec<Value> = agents.iter().map(|(shape, _)| draft_value_to_json(shape)).collect();
    let positions: HashMap<&str, usize> = agents
        .iter()
        .enumerate()
        .filter_map(|(at, agent)| Some((agent["name"].as_str()?, at)))
        .collect();
    let upstream: Vec<Vec<usize>> = agents
        .iter()
        .map(|agent| {
            let plain = agent["depends_on"].as_array().into_iter().flatten();
            let long = agent["dependencies"].as_array().into_iter().flatten();
            let long = long.filter(|one| one["feedback"] != true).map(|one| &one["agent_name"]);
            let names = plain.chain(long).filter_map(Value::as_str);
            names.filter_map(|name| positions.get(name).copied()).collect()
        })
        .collect();
    // Paths have no circles, so there is nothing new after as many rounds as there are agents.
    let mut needs = vec![PathRequirements::default(); agents.len()];
    for _ in 0..agents.len() {
        let mut same = true;
        for at in 0..agents.len() {
            let before = upstream[at].iter().fold(PathRequirements::default(), |most, other| {
                most.max_requirements(needs[*other])
            });
            let now = before.sum_requirements(agent_requirements(&agents[at]));
            same &= now.turns == needs[at].turns && now.seconds <= needs[at].seconds;
            needs[at] = now;
        }
        if same {
            break;
        }
    }
    needs
        .into_iter()
        .fold(PathRequirements::default(), PathRequirements::max_requirements)
}

/// Returns the seconds and turns that the agent needs at most.
fn agent_requirements(agent: &Value) -> PathRequirements {
    let turns = agent["conversation"]["max_turns"].as_u64().unwrap_or(1).min(MAX_TURNS);
    let attempts = agent["retry"]["max_attempts"].as_f64().unwrap_or(1.0).max(1.0);
    let seconds = agent["timeout_seconds"].as_f64().filter(|seconds| *seconds > 0.0);
    let each = seconds.unwrap_or(DEFAULT_AGENT_SECONDS) * attempts;
    let times = u32::try_from(turns).map_or(f64::from(u32::MAX), f64::from);
    PathRequirements {
        seconds: (each * times).min(MAX_SECONDS),
        turns,
    }
}

/// Converts a draft value to JSON, without comments and positions.
fn draft_value_to_json(shape: &DraftValue) -> Value {
    match shape {
        DraftValue::Plain(value) => value.clone(),
        DraftValue::List(items) => items.iter().map(|(item, _)| draft_value_to_json(item)).collect(),
        DraftValue::Map(map) => map
            .lines
            .iter()
            .filter_map(|line| match line {
                DraftMapLine::Entry { key, value, .. } => Some((key.clone(), draft_value_to_json(value))),
                _ => None,
            })
            .collect(),
    }
}
