//! Rhai scripts that read what cannot be there: a variable that does not exist, the output of an agent that is no
//! dependency, an input that is not declared, a key of the context that nobody writes.
//!
//! A key that the script tests (`"a" in dependencies`, `dependencies.a != ()`, `get`) may be missing.

use super::check_subject::CheckSubject;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::check_graph::CheckGraph;
use super::condition_keys;
use super::output_keys::OutputKeyCache;
use super::rhai_equivalents::find_rhai_equivalent;
use super::script_text::{
    MODEL_VARIABLES, SCRIPT_VARIABLES, ScriptCallMismatch, ScriptName, ScriptText, ScriptVariableKeyRead,
    UnknownFunction, WINDOW_VARIABLES,
};
use crate::condition::PartVariables;
use crate::diagnostic::{Finding, FindingSeverity, find_similar_word};
use crate::ensemble::{
    Agent, AgentKind, Ensemble, PreparedResponses, SimulatedReplySource, ToolDefinition, ToolKind, WindowStrategy,
};
use crate::loader::codes;
use crate::source::{LineColumn, Route, RouteLocation, SourceText};

/// The variables of a script that answers for a person, in addition to those of agents.
const ANSWER_SCRIPT_VARIABLES: [&str; 5] = [
    "prompt",
    "agent_execution_count",
    "accumulated_context",
    "conversation_history",
    "conversation_state",
];
/// The keys of the context that an outer ensemble writes.
const OUTER_CONTEXT_KEYS: [&str; 2] = ["dependencies", "request"];
/// The highest number of findings, because each is compared with many names.
const MAX_SCRIPT_FINDINGS: usize = 100;

/// A script, its variables, and the agents that it runs for.
struct ScriptUse<'s> {
    text: Arc<ScriptText>,
    at: RouteLocation,
    variables: Vec<&'s str>,
    /// The agents; empty if the script has no data of an agent.
    agents: Vec<usize>,
}

/// Returns the location where an agent names its script, or its script for answers.
fn script_location(agent: usize, is_answer: bool) -> RouteLocation {
    let route = Agent::route_at(agent);
    match is_answer {
        true => route
            .with_key("input")
            .with_key("responses")
            .with_key("script")
            .into_value_location(),
        false => route.with_key("script").into_value_location(),
    }
}

/// Warns of every name in a Rhai script that cannot exist: variables, functions, agents, inputs and context keys.
pub(super) fn check_script_reads(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let script = &|script: &str| subject.context.find_script(script);
    let mut findings = Vec::new();
    let agents = list_agent_scripts(graph, script).into_iter();
    for used in agents
        .chain(list_tool_scripts(graph.ensemble, script))
        .chain(list_model_scripts(graph, script))
    {
        let free = used
            .text
            .free
            .iter()
            .filter(|one| !used.variables.contains(&&*one.name));
        findings.extend(free.map(|name| unknown_variable_finding(&used, name)));
        let in_functions = used.text.free_in_functions.iter();
        findings.extend(in_functions.map(|name| function_variable_finding(&used, name)));
        findings.extend(
            used.text
                .unknown_functions
                .iter()
                .map(|call| unknown_function_finding(&used, call)),
        );
        let miscalled = used.text.miscalled.iter();
        findings.extend(miscalled.map(|(name, arguments)| wrong_argument_count_finding(&used, name, arguments)));
        findings.extend(check_script_requests(graph, &used));
        let keys = used.text.keys.iter().filter(|_| !used.agents.is_empty());
        findings.extend(keys.filter_map(|key| missing_key_finding(graph, &used, key, outputs)));
        if findings.len() >= MAX_SCRIPT_FINDINGS {
            break;
        }
    }
    findings
}

/// Returns the Rhai scripts of agents and of prepared answers. A script of several agents is listed once.
fn list_agent_scripts<'e>(
    graph: &CheckGraph<'e>,
    script: &dyn Fn(&str) -> Option<Arc<ScriptText>>,
) -> Vec<ScriptUse<'e>> {
    let mut by_name: BTreeMap<(&str, bool), Vec<usize>> = BTreeMap::new();
    for at in 0..graph.agent_count() {
        match &graph.agent_at(at).kind {
            AgentKind::Script { script, .. } => by_name.entry((script.as_str(), false)).or_default().push(at),
            AgentKind::Input(input) => {
                if let Some(PreparedResponses::Script(script)) = &input.responses {
                    by_name.entry((script.as_str(), true)).or_default().push(at);
                }
            }
            AgentKind::Llm(_) | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {}
        }
    }
    let of_tools: HashSet<&str> = graph.ensemble.list_agent_tools().map(|(_, agent)| &**agent).collect();
    let used = by_name.into_iter().filter_map(|((name, is_answer), agents)| {
        let at = script_location(*agents.first()?, is_answer);
        // An agent that is a tool has the data of the agent that calls it.
        let is_tool = agents.iter().any(|at| of_tools.contains(graph.agent_name(*at)));
        Some(ScriptUse {
            text: script(name)?,
            at,
            variables: SCRIPT_VARIABLES
                .into_iter()
                .chain(ANSWER_SCRIPT_VARIABLES.into_iter().filter(|_| is_answer))
                .chain(agents.iter().flat_map(|at| part_script_variables(graph.agent_at(*at))))
                .collect(),
            agents: if is_tool { Vec::new() } else { agents },
        })
    });
    used.collect()
}

/// Returns the additional variables in the script of an agent with parts: the item and `part`.
fn part_script_variables(agent: &Agent) -> impl Iterator<Item = &str> {
    let spec = agent.for_each.iter();
    spec.flat_map(|spec| [&*spec.item_name, PartVariables::PART])
}

/// Returns the Rhai scripts of tools.
fn list_tool_scripts<'e>(
    ensemble: &'e Ensemble,
    script: &dyn Fn(&str) -> Option<Arc<ScriptText>>,
) -> Vec<ScriptUse<'e>> {
    let used = ensemble.tools.iter().filter_map(|(name, tool)| {
        let ToolKind::Script { script: named, .. } = &tool.kind else {
            return None;
        };
        let at = ToolDefinition::route_for(name).with_key("script").into_value_location();
        Some(script_without_agent(script(named)?, at, &SCRIPT_VARIABLES))
    });
    used.collect()
}

/// Returns the Rhai scripts that simulate models, and those that select messages for a context window.
fn list_model_scripts<'e>(
    graph: &CheckGraph<'e>,
    script: &dyn Fn(&str) -> Option<Arc<ScriptText>>,
) -> Vec<ScriptUse<'e>> {
    let profiles = graph.ensemble.model_profiles.iter().filter_map(|(name, profile)| {
        let Some(SimulatedReplySource::Script(path)) = &profile.simulated else {
            return None;
        };
        let at = Route::root()
            .with_key("model_profiles")
            .with_key(name.clone())
            .with_key("script")
            .into_value_location();
        Some(script_without_agent(script(path)?, at, &MODEL_VARIABLES))
    });
    let windows = graph.ensemble.agents.iter().enumerate().filter_map(|(at, agent)| {
        let AgentKind::Llm(llm) = &agent.kind else { return None };
        let WindowStrategy::Custom(path) = &llm.context_window.as_ref()?.strategy else {
            return None;
        };
        let route = Agent::route_at(at).with_key("context_window").with_key("strategy");
        Some(script_without_agent(
            script(path)?,
            route.with_key("custom").into_value_location(),
            &WINDOW_VARIABLES,
        ))
    });
    profiles.chain(windows).collect()
}

/// Creates the use of a script that belongs to no agent.
fn script_without_agent(text: Arc<ScriptText>, at: RouteLocation, variables: &[&'static str]) -> ScriptUse<'static> {
    ScriptUse {
        text,
        at,
        variables: variables.to_vec(),
        agents: Vec::new(),
    }
}

/// Builds a warning at this name in the script.
fn script_warning(used: &ScriptUse<'_>, name: &ScriptName, message: String, help: String) -> Finding {
    let (line, column) = name.place;
    let source = SourceText::new(used.text.name.as_str(), used.text.text.as_str());
    let span = source.find_word_span(LineColumn { line, column });
    Finding::new_warning(codes::SCRIPT_READS, used.at.clone(), message)
        .with_inner_source(source, span)
        .with_help(help)
}

/// Builds the warning about an unknown variable, with a similar name or the list of variables.
fn unknown_variable_finding(used: &ScriptUse<'_>, name: &ScriptName) -> Finding {
    let variables = &used.variables;
    let message = format!("unknown variable `{}` in the script", name.name);
    let help = match find_similar_word(&name.name, variables.iter().copied()) {
        Some(similar_name) => format!("did you mean `{similar_name}`?"),
        None => format!("the variables are {}", variables.join(", ")),
    };
    script_warning(used, name, message, help)
}

/// Builds the warning about a function that reads a variable outside of the function.
fn function_variable_finding(used: &ScriptUse<'_>, name: &ScriptName) -> Finding {
    let message = format!(
        "a function of the script reads the variable `{}`, which is outside of the function",
        name.name
    );
    let help = match used.variables.contains(&&*name.name) {
        true => "pass the value as a parameter: a function cannot read variables outside of it",
        false => "define the variable in the function, or pass its value as a parameter",
    };
    script_warning(used, name, message, help.to_owned())
}

/// Builds the finding about a call of a function that does not exist.
fn unknown_function_finding(used: &ScriptUse<'_>, unknown: &UnknownFunction) -> Finding {
    let name = &unknown.name;
    let message = format!("the script calls the function `{}`, which does not exist", name.name);
    let help = match (find_rhai_equivalent(&name.name), &unknown.similar) {
        (Some(equivalent), _) => equivalent.to_owned(),
        (None, Some(similar_name)) => format!("did you mean `{similar_name}`?"),
        (None, None) => "define it in the script: `fn NAME(…) { … }`".to_owned(),
    };
    missing_function_finding(script_warning(used, name, message, help), unknown.is_certain)
}

/// Turns a warning about a failing call into an error, if every execution of the script reaches the call.
fn missing_function_finding(finding: Finding, is_certain: bool) -> Finding {
    match is_certain {
        true => Finding {
            code: codes::SCRIPT_FAILS,
            severity: FindingSeverity::Error,
            ..finding
        },
        false => Finding {
            code: codes::NO_FUNCTION,
            ..finding
        },
    }
}

/// Builds the finding about a call with a wrong number of arguments.
fn wrong_argument_count_finding(used: &ScriptUse<'_>, name: &ScriptName, arguments: &ScriptCallMismatch) -> Finding {
    let counted = |count: usize| match count {
        0 => "no arguments".to_owned(),
        1 => "1 argument".to_owned(),
        _ => format!("{count} arguments"),
    };
    let takes = match arguments.takes.as_slice() {
        [] => "which cannot be called on a value".to_owned(),
        [one] => format!("which takes {}", counted(*one)),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            format!("which takes {} or {last}", first.join(", "))
        }
    };
    let argument_count = counted(arguments.given);
    let message = format!(
        "the script calls the function `{}` with {argument_count}, {takes}",
        name.name
    );
    let help = match arguments.is_method {
        true => {
            "change the number of arguments (the value before the dot does not count); an execution that reaches the call fails"
        }
        false => "change the number of arguments; an execution that reaches the call fails",
    };
    missing_function_finding(
        script_warning(used, name, message, help.to_owned()),
        arguments.is_certain,
    )
}

/// Reports requests of agents that do not exist, and requests by agents that may not make requests.
fn check_script_requests(graph: &CheckGraph<'_>, used: &ScriptUse<'_>) -> Vec<Finding> {
    let (Some(requests), Some(first)) = (&used.text.requests, used.agents.first()) else {
        return Vec::new();
    };
    let vain = |name: &ScriptName, message: String, help: String| {
        let mut finding = script_warning(used, name, message, help);
        finding.code = codes::VAIN_REQUEST;
        finding
    };
    let is_permitted = |at: &usize| graph.agent_at(*at).conversation.triggers_conversation;
    if !used.agents.iter().any(is_permitted) {
        let name = graph.agent_name(*first);
        let message = format!("the script requests agents, but `{name}` has no `triggers_conversation: true`");
        let help = format!(
            "add `conversation: {{triggers_conversation: true}}` to `{name}`; without this key, its requests are ignored"
        );
        return vec![vain(requests, message, help)];
    }
    let unknown = used
        .text
        .requested
        .iter()
        .filter(|one| graph.find_agent_index(&one.name).is_none());
    let finding = |one: &ScriptName| {
        let message = format!("the script requests the agent `{}`, which does not exist", one.name);
        let names = (0..graph.agent_count()).map(|at| graph.agent_name(at));
        let help = match find_similar_word(&one.name, names) {
            Some(similar_name) => format!("did you mean `{similar_name}`?"),
            None => "request an agent of this ensemble; a request for another agent is ignored".to_owned(),
        };
        vain(one, message, help)
    };
    unknown.map(finding).collect()
}

/// Returns a warning if the script reads a key that cannot exist in the variable.
fn missing_key_finding(
    graph: &CheckGraph<'_>,
    used: &ScriptUse<'_>,
    read: &ScriptVariableKeyRead,
    outputs: &mut OutputKeyCache<'_>,
) -> Option<Finding> {
    let key = read.key.name.as_str();
    let of = |message: String, known: BTreeSet<&str>, or_else: &str| {
        let help = match find_similar_word(key, known.iter().copied()) {
            Some(similar_name) => format!("did you mean `{similar_name}`?"),
            None => or_else.to_owned(),
        };
        script_warning(used, &read.key, message, help)
    };
    match read.variable.as_str() {
        "dependencies" | "failures" => {
            let edges = used.agents.iter().flat_map(|at| graph.dependency_edges(*at));
            let dependency_names: BTreeSet<&str> = edges.map(|edge| graph.agent_name(edge.from)).collect();
            if dependency_names.contains(key) {
                return None;
            }
            let name = graph.agent_name(used.agents[0]);
            let what = if read.variable == "failures" {
                "failure"
            } else {
                "output"
            };
            let message = format!("the script reads the {what} of `{key}`, on which `{name}` does not depend");
            if let Some(agent) = graph.find_agent_index(key).map(|at| graph.agent_at(at)) {
                let stored = agent.state_key();
                let help = format!("add `{key}` to the dependencies of `{name}`, or read `context.{stored}`");
                return Some(script_warning(used, &read.key, message, help));
            }
            Some(of(
                message,
                dependency_names,
                "read an agent that `dependencies` or `depends_on` names",
            ))
        }
        "parameters" => {
            let configs = used.agents.iter().map(|at| &graph.agent_at(*at).config);
            let config_keys: BTreeSet<&str> = configs.flat_map(|config| config.keys().map(String::as_str)).collect();
            let is_slip = || find_similar_word(key, config_keys.iter().copied()).is_some();
            if config_keys.contains(key) || (read.may_be_missing && !is_slip()) {
                return None;
            }
            let names: Vec<String> = used
                .agents
                .iter()
                .take(3)
                .map(|at| format!("`{}`", graph.agent_name(*at)))
                .collect();
            let message = format!(
                "the script reads the parameter `{key}`, which is not in the `config` of {}",
                names.join(" or ")
            );
            let or_else = format!("add it to the `config`, or read it as `parameters.get(\"{key}\", DEFAULT)`");
            Some(of(message, config_keys, &or_else))
        }
        "inputs" if graph.ensemble.find_input(key).is_none() => {
            let declared = graph.ensemble.inputs.iter().flatten();
            let input_names = declared.map(|input| &*input.name).collect();
            let message = format!("the script reads the input `{key}`, which is not declared");
            Some(of(message, input_names, "declare it under `inputs`"))
        }
        "context" if !OUTER_CONTEXT_KEYS.contains(&key) => {
            let help = condition_keys::suggest_context_key(graph, key, outputs)?;
            let message = format!("the script reads `{key}` of the context, which no agent writes");
            Some(script_warning(used, &read.key, message, help))
        }
        _ => None,
    }
}
