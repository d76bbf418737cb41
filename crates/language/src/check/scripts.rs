//! Rhai scripts that read what cannot be there: a variable that does not exist, the output of an agent that is no
//! dependency, an input that is not declared, a key of the context that nobody writes.
//!
//! A key that the script tests (`"a" in dependencies`, `dependencies.a != ()`, `get`) may be missing.

use super::subject::Subject;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::graph::Graph;
use super::keys;
use super::output_keys::Outputs;
use super::script::{
    MODEL_VARIABLES, SCRIPT_VARIABLES, ScriptArguments, ScriptKey, ScriptName, ScriptText, WINDOW_VARIABLES,
};
use crate::condition::PartNames;
use crate::diagnostic::{Finding, did_you_mean};
use crate::ensemble::{Agent, AgentKind, Ensemble, Responses, Simulated, Strategy, Tool, ToolKind};
use crate::loader::codes;
use crate::source::{At, Place, Route, Source};

/// The variable of a script that answers for a person, in addition to those of agents.
const QUESTION: &str = "prompt";
/// The keys of the context that an outer ensemble writes.
const OF_OUTER: [&str; 2] = ["dependencies", "request"];
/// The highest number of findings, because each is compared with many names.
const MOST: usize = 100;

/// A script, its variables, and the agents that it runs for.
struct Used<'s> {
    text: Arc<ScriptText>,
    at: At,
    variables: Vec<&'s str>,
    /// The agents; empty if the script has no data of an agent.
    agents: Vec<usize>,
}

/// The place at which an agent names its script, or the one that answers for a person.
fn named_at(agent: usize, is_answer: bool) -> At {
    let route = Agent::route(agent);
    match is_answer {
        true => route.key("input").key("responses").key("script").value(),
        false => route.key("script").value(),
    }
}

/// Warns of every such name.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let outputs = &mut *subject.outputs.borrow_mut();
    let script = &|script: &str| subject.context.script(script);
    let mut findings = Vec::new();
    let agents = of_agents(graph, script).into_iter();
    for used in agents
        .chain(of_tools(graph.ensemble, script))
        .chain(of_models(graph, script))
    {
        let free = used
            .text
            .free
            .iter()
            .filter(|one| !used.variables.contains(&&*one.name));
        findings.extend(free.map(|name| unknown(&used, name)));
        let in_functions = used.text.free_in_functions.iter();
        findings.extend(in_functions.map(|name| in_function(&used, name)));
        findings.extend(used.text.unknown_functions.iter().map(|call| no_function(&used, call)));
        let miscalled = used.text.miscalled.iter();
        findings.extend(miscalled.map(|(name, arguments)| miscall(&used, name, arguments)));
        findings.extend(vain_requests(graph, &used));
        let keys = used.text.keys.iter().filter(|_| !used.agents.is_empty());
        findings.extend(keys.filter_map(|key| missing(graph, &used, key, outputs)));
        if findings.len() >= MOST {
            break;
        }
    }
    findings
}

/// The Rhai scripts of agents, and those that answer for a person; one that several agents have is there once, at the
/// first of them.
fn of_agents<'e>(graph: &Graph<'e>, script: &dyn Fn(&str) -> Option<Arc<ScriptText>>) -> Vec<Used<'e>> {
    let mut by_name: BTreeMap<(&str, bool), Vec<usize>> = BTreeMap::new();
    for at in 0..graph.len() {
        match &graph.agent(at).kind {
            AgentKind::Script { script, .. } => by_name.entry((script.as_str(), false)).or_default().push(at),
            AgentKind::Input(input) => {
                if let Some(Responses::Script(script)) = &input.responses {
                    by_name.entry((script.as_str(), true)).or_default().push(at);
                }
            }
            AgentKind::Llm(_) | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {}
        }
    }
    let of_tools: HashSet<&str> = graph.ensemble.agent_tools().map(|(_, agent)| &**agent).collect();
    let used = by_name.into_iter().filter_map(|((name, is_answer), agents)| {
        let at = named_at(*agents.first()?, is_answer);
        // An agent that is a tool has the data of the agent that calls it.
        let is_tool = agents.iter().any(|at| of_tools.contains(graph.name(*at)));
        Some(Used {
            text: script(name)?,
            at,
            variables: SCRIPT_VARIABLES
                .into_iter()
                .chain(is_answer.then_some(QUESTION))
                .chain(agents.iter().flat_map(|at| of_parts(graph.agent(*at))))
                .collect(),
            agents: if is_tool { Vec::new() } else { agents },
        })
    });
    used.collect()
}

/// The variables that the script of an agent with parts has in addition.
fn of_parts(agent: &Agent) -> impl Iterator<Item = &str> {
    let spec = agent.for_each.iter();
    spec.flat_map(|spec| [&*spec.item_name, PartNames::PART])
}

/// The Rhai scripts of tools.
fn of_tools<'e>(ensemble: &'e Ensemble, script: &dyn Fn(&str) -> Option<Arc<ScriptText>>) -> Vec<Used<'e>> {
    let used = ensemble.tools.iter().filter_map(|(name, tool)| {
        let ToolKind::Script { script: named, .. } = &tool.kind else {
            return None;
        };
        let at = Tool::route(name).key("script").value();
        Some(without_agent(script(named)?, at, &SCRIPT_VARIABLES))
    });
    used.collect()
}

/// The Rhai scripts that simulate models, and those that select messages.
fn of_models<'e>(graph: &Graph<'e>, script: &dyn Fn(&str) -> Option<Arc<ScriptText>>) -> Vec<Used<'e>> {
    let profiles = graph.ensemble.model_profiles.iter().filter_map(|(name, profile)| {
        let Some(Simulated::Script(path)) = &profile.simulated else {
            return None;
        };
        let at = Route::root()
            .key("model_profiles")
            .key(name.clone())
            .key("script")
            .value();
        Some(without_agent(script(path)?, at, &MODEL_VARIABLES))
    });
    let windows = graph.ensemble.agents.iter().enumerate().filter_map(|(at, agent)| {
        let AgentKind::Llm(llm) = &agent.kind else { return None };
        let Strategy::Custom(path) = &llm.context_window.as_ref()?.strategy else {
            return None;
        };
        let route = Agent::route(at).key("context_window").key("strategy");
        Some(without_agent(
            script(path)?,
            route.key("custom").value(),
            &WINDOW_VARIABLES,
        ))
    });
    profiles.chain(windows).collect()
}

fn without_agent(text: Arc<ScriptText>, at: At, variables: &[&'static str]) -> Used<'static> {
    Used {
        text,
        at,
        variables: variables.to_vec(),
        agents: Vec::new(),
    }
}

/// A warning in the script, at this name.
fn warning(used: &Used<'_>, name: &ScriptName, message: String, help: String) -> Finding {
    let (line, column) = name.place;
    let source = Source::new(used.text.name.as_str(), used.text.text.as_str());
    let span = source.word_at(Place { line, column });
    Finding::warning(codes::SCRIPT_READS, used.at.clone(), message)
        .inside(source, span)
        .help(help)
}

fn unknown(used: &Used<'_>, name: &ScriptName) -> Finding {
    let variables = &used.variables;
    let message = format!("unknown variable `{}` in the script", name.name);
    let help = match did_you_mean(&name.name, variables.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the variables are {}", variables.join(", ")),
    };
    warning(used, name, message, help)
}

fn in_function(used: &Used<'_>, name: &ScriptName) -> Finding {
    let message = format!(
        "a function of the script reads the variable `{}`, which it does not have",
        name.name
    );
    let help = match used.variables.contains(&&*name.name) {
        true => "a function has no variables but its parameters: pass the value as a parameter",
        false => "a function has no variables but its parameters; define the variable in it, or pass it as a parameter",
    };
    warning(used, name, message, help.to_owned())
}

fn no_function(used: &Used<'_>, (name, near): &(ScriptName, Option<String>)) -> Finding {
    let message = format!("the script calls the function `{}`, which does not exist", name.name);
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "define it in the script: `fn NAME(…) { … }`".to_owned(),
    };
    let mut finding = warning(used, name, message, help);
    finding.code = codes::NO_FUNCTION;
    finding
}

fn miscall(used: &Used<'_>, name: &ScriptName, arguments: &ScriptArguments) -> Finding {
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
    let given = counted(arguments.given);
    let message = format!("the script calls the function `{}` with {given}, {takes}", name.name);
    let help = match arguments.is_method {
        true => "the value before the dot is not counted; an execution that comes to the call fails",
        false => "an execution that comes to the call fails",
    };
    let mut finding = warning(used, name, message, help.to_owned());
    finding.code = codes::NO_FUNCTION;
    finding
}

/// Requests of agents that do not exist, or by agents that are not permitted to make requests.
fn vain_requests(graph: &Graph<'_>, used: &Used<'_>) -> Vec<Finding> {
    let (Some(requests), Some(first)) = (&used.text.requests, used.agents.first()) else {
        return Vec::new();
    };
    let vain = |name: &ScriptName, message: String, help: String| {
        let mut finding = warning(used, name, message, help);
        finding.code = codes::VAIN_REQUEST;
        finding
    };
    let is_permitted = |at: &usize| graph.agent(*at).conversation.triggers_conversation;
    if !used.agents.iter().any(is_permitted) {
        let name = graph.name(*first);
        let message = format!("the script requests agents, and `{name}` has no `triggers_conversation: true`");
        let help = format!("add `conversation: {{triggers_conversation: true}}` to `{name}`; its requests are ignored");
        return vec![vain(requests, message, help)];
    }
    let unknown = used.text.requested.iter().filter(|one| graph.find(&one.name).is_none());
    let finding = |one: &ScriptName| {
        let message = format!("the script requests the agent `{}`, which does not exist", one.name);
        let names = (0..graph.len()).map(|at| graph.name(at));
        let help = match did_you_mean(&one.name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "a request of an agent that does not exist is ignored".to_owned(),
        };
        vain(one, message, help)
    };
    unknown.map(finding).collect()
}

/// The finding, if the key cannot exist.
fn missing(graph: &Graph<'_>, used: &Used<'_>, read: &ScriptKey, outputs: &mut Outputs<'_>) -> Option<Finding> {
    let key = read.key.name.as_str();
    let of = |message: String, known: BTreeSet<&str>, or_else: &str| {
        let help = match did_you_mean(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => or_else.to_owned(),
        };
        warning(used, &read.key, message, help)
    };
    match read.variable.as_str() {
        "dependencies" => {
            let edges = used.agents.iter().flat_map(|at| graph.edges(*at));
            let known: BTreeSet<&str> = edges.map(|edge| graph.name(edge.from)).collect();
            if known.contains(key) {
                return None;
            }
            let name = graph.name(used.agents[0]);
            let message = format!("the script reads the output of `{key}`, on which `{name}` does not depend");
            if let Some(agent) = graph.find(key).map(|at| graph.agent(at)) {
                let stored = agent.state_key();
                let help = format!("add `{key}` to the dependencies of `{name}`, or read `context.{stored}`");
                return Some(warning(used, &read.key, message, help));
            }
            Some(of(
                message,
                known,
                "the keys of `dependencies` are the agents that the agent depends on",
            ))
        }
        "parameters" => {
            let configs = used.agents.iter().map(|at| &graph.agent(*at).config);
            let known: BTreeSet<&str> = configs.flat_map(|config| config.keys().map(String::as_str)).collect();
            let is_slip = || did_you_mean(key, known.iter().copied()).is_some();
            if known.contains(key) || (read.may_be_missing && !is_slip()) {
                return None;
            }
            let names: Vec<String> = used
                .agents
                .iter()
                .take(3)
                .map(|at| format!("`{}`", graph.name(*at)))
                .collect();
            let message = format!(
                "the script reads the parameter `{key}`, which is not in the `config` of {}",
                names.join(" or ")
            );
            let or_else = format!("add it to the `config`, or read it as `parameters.get(\"{key}\", DEFAULT)`");
            Some(of(message, known, &or_else))
        }
        "inputs" if graph.ensemble.input(key).is_none() => {
            let declared = graph.ensemble.inputs.iter().flatten();
            let known = declared.map(|input| &*input.name).collect();
            let message = format!("the script reads the input `{key}`, which is not declared");
            Some(of(message, known, "declare it under `inputs`"))
        }
        "context" if !OF_OUTER.contains(&key) => {
            let help = keys::mistaken(graph, key, outputs)?;
            let message = format!("the script reads `{key}` of the context, which no agent writes");
            Some(warning(used, &read.key, message, help))
        }
        _ => None,
    }
}
