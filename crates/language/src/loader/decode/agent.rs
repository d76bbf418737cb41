//! One item of `agents`.

use super::sandbox::SandboxChoice;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::acp;
use super::context_window;
use super::dependency;
use super::for_each;
use super::input;
use super::inputs;
use super::limits;
use super::remote;
use super::sandbox;
use super::tool;
use super::tool::Tools;
use super::{Names, reference};
use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::{
    Acp, Agent, AgentKind, Conversation, Llm, Memory, ModelChoice, OnError, OnResume, Retry, Trigger,
};
use crate::loader::codes;
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::json;
use crate::loader::reader::{Cursor, count, count_or_none, filled_texts, flag, name, seconds, text, word};
use crate::loader::words::{meant_key, one_of, quoted};
use crate::vocabulary::{AgentType, CHOOSERS, Key, Section, chooses_type};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Reads the agent at `index`.
pub(super) fn read(
    at: &Cursor<'_>,
    index: usize,
    names: &Names<'_>,
    tools: &Tools<'_>,
    findings: &mut Findings,
) -> Option<Agent> {
    let fields = Fields::open(at, Section::Agent, findings)?;
    let name = fields.required("name", "every agent must have a name", findings, name);
    let kind = kind(&fields, tools, findings);
    let config = config(&fields, findings);
    let dependencies = dependency::all(&fields, names, findings);
    let conversation = match fields.get("conversation") {
        Some(at) => conversation(&at, Some(index), names, findings),
        None => Some(Conversation::default()),
    };
    let for_each = match &kind {
        // A person is asked once, which is reported with the other keys of other types.
        Some(AgentKind::Input(_)) | None => None,
        Some(_) => fields.read("for_each", findings, |at, findings| {
            let dependencies = dependencies.as_deref().unwrap_or_default();
            for_each::read(at, &for_each::Taken { dependencies, names }, findings)
        }),
    };
    let OfAllKinds {
        description,
        output_schema,
        timeout,
        retry,
        on_error,
        sandbox,
    } = of_all_kinds(&fields, findings);
    Some(Agent {
        name: name?,
        description,
        kind: kind?,
        config: config?,
        dependencies: dependencies?,
        for_each,
        conversation: conversation?,
        output_schema,
        timeout,
        retry: retry.unwrap_or_default(),
        on_error: on_error.unwrap_or_default(),
        sandbox: SandboxChoice::chosen_by(sandbox),
    })
}

/// Reads `defaults` by itself, so that a wrong value is found also where no agent takes it.
pub(super) fn defaults(at: &Cursor<'_>, names: &Names<'_>, tools: &Tools<'_>, findings: &mut Findings) {
    let Some(fields) = Fields::open(at, Section::Defaults, findings) else {
        return;
    };
    fields.read("type", findings, |at, findings| word(at, &AgentType::WORDS, findings));
    for key in ["script", "model_profile", "ensemble"] {
        fields.read(key, findings, reference);
    }
    fields.read("model", findings, model);
    fields.read("input", findings, input::default);
    for key in ["prompt", "system_prompt"] {
        fields.read(key, findings, text);
    }
    fields.read("acp", findings, acp::program);
    fields.read("permissions", findings, acp::permissions);
    fields.read("attachments", findings, attachments);
    fields.read("inputs", findings, inputs::given);
    fields.read("tool", findings, |at, findings| tools.called(at, findings));
    fields.read("arguments", findings, json::map);
    fields.read("tools", findings, |at, findings| tools.uses(at, findings));
    fields.read("env", findings, tool::env);
    for key in ["max_iterations", "max_parallel_tools"] {
        fields.read(key, findings, count);
    }
    fields.read("context_window", findings, context_window::read);
    fields.read("conversation", findings, |at, findings| {
        llm_conversation(at, findings);
        conversation(at, None, names, findings)
    });
    fields.read("for_each", findings, |at, findings| {
        let taken = for_each::Taken {
            dependencies: &[],
            names,
        };
        for_each::read(at, &taken, findings)
    });
    config(&fields, findings);
    of_all_kinds(&fields, findings);
}

/// Returns the kind of the agent. Keys that only one kind can have are decoded here, and are errors for the other
/// kinds.
fn kind(fields: &Fields<'_>, tools: &Tools<'_>, findings: &mut Findings) -> Option<AgentKind> {
    let declared = fields.read("type", findings, |at, findings| word(at, &AgentType::WORDS, findings));
    let chosen: Vec<_> = CHOOSERS.iter().filter(|(key, _)| fields.get(key).is_some()).collect();
    let Some((key, kind)) = chosen.first().copied() else {
        // A misspelt key is already reported, with a suggestion.
        if !misspells_kind(fields) {
            no_kind(fields, declared, findings);
        }
        return None;
    };
    for (other, _) in &chosen[1..] {
        let place = |key: &str| fields.at.route().key(key).as_key();
        let message = format!("{} has both `{key}` and `{other}`", title(fields));
        let finding = Finding::error(codes::TWO_KINDS, place(other), message).also(place(key), "the first");
        findings.push(finding.help(match (*kind, *other) {
            (AgentType::Llm, "tool") => "the tools that a model may call are a list: write `tools: [name]`",
            _ => "an agent must run exactly one thing: keep one of the two keys",
        }));
    }
    if let Some(declared) = declared.filter(|declared| declared != kind) {
        let at = fields.at.route().key("type").value();
        let message = format!("`type: {}` contradicts `{key}`", declared.word());
        let change = RouteEdit::WriteText(at.clone(), kind.word().to_owned());
        let finding = Finding::error(codes::KIND_MISMATCH, at, message)
            .with_fix(RouteFix::safe(format!("write `type: {}`", kind.word()), change));
        let finding = finding.also(
            fields.at.route().key(*key).as_key(),
            "this key defines what the agent runs",
        );
        findings.push(finding.help(format!("write `type: {}`, or remove `type`", kind.word())));
    }
    if chosen.len() == 1 {
        refuse_other_types(fields, *kind, findings);
    }
    let at = fields.get(key)?;
    match kind {
        AgentType::Script => {
            let env = fields.read("env", findings, tool::env).unwrap_or_default();
            reference(&at, findings).map(|script| AgentKind::Script {
                script: script.to_string(),
                env,
            })
        }
        AgentType::Ensemble => {
            let prompt = fields.read("prompt", findings, text);
            let inputs = match fields.get("inputs") {
                Some(at) => inputs::given(&at, findings),
                None => Some(JsonMap::new()),
            };
            Some(AgentKind::Ensemble {
                ensemble: reference(&at, findings)?.to_string(),
                prompt,
                inputs: inputs?,
            })
        }
        AgentType::Input => input::read(&at, findings).map(AgentKind::Input),
        AgentType::Acp => external(fields, &at, tools, findings),
        AgentType::Tool => {
            let arguments = match fields.get("arguments") {
                Some(at) => json::map(&at, findings),
                None => Some(JsonMap::new()),
            };
            Some(AgentKind::Tool {
                used: tools.called(&at, findings)?,
                arguments: arguments?,
            })
        }
        AgentType::Llm => llm(fields, &at, *key == "model_profile", tools, findings),
    }
}

/// `agent 'x'`, or a description of an agent without a name.
fn title(fields: &Fields<'_>) -> String {
    match fields.get("name").and_then(|at| at.node.text().cloned()) {
        Some(name) => format!("agent {}", quoted(&name)),
        None => "this agent".to_owned(),
    }
}

/// Returns whether an unknown key of the agent is probably a misspelt key for what it runs.
fn misspells_kind(fields: &Fields<'_>) -> bool {
    let mut meant = fields.keys().filter_map(|key| meant_key(key, Section::Agent));
    meant.any(chooses_type)
}

fn no_kind(fields: &Fields<'_>, declared: Option<AgentType>, findings: &mut Findings) {
    let route = fields.at.route();
    let at = match fields.get("name") {
        Some(_) => route.key("name").value(),
        None => route.value(),
    };
    let finding = Finding::error(codes::NO_KIND, at, format!("{} has nothing to run", title(fields)));
    findings.push(finding.help(match declared {
        Some(AgentType::Llm) => "add `model_profile: name` or `model: provider/model`".to_owned(),
        Some(kind) => format!("add `{}: …`", kind.word()),
        None => "add one of `script`, `model_profile` (or `model`), `input`, `ensemble`, `acp` or `tool`".to_owned(),
    }));
}

/// Reports the keys that only agents of other types have, and those of `conversation`.
fn refuse_other_types(fields: &Fields<'_>, agent_type: AgentType, findings: &mut Findings) {
    let (word, owner) = (agent_type.word(), format!("an agent of type {}", agent_type.word()));
    let help = |key: &Key| help_for_other_type(key, agent_type);
    fields.refuse_other_kinds(word, &owner, findings, help);
    let conversation = fields.get("conversation");
    let conversation = conversation
        .as_ref()
        .and_then(|at| Fields::open(at, Section::Conversation, &mut Findings::default()));
    if let Some(conversation) = conversation {
        conversation.refuse_other_kinds(word, &owner, findings, help);
    }
}

/// Returns what to write instead of a key that agents of this type do not have.
fn help_for_other_type(key: &Key, agent_type: AgentType) -> String {
    match (agent_type, key.name) {
        (AgentType::Input, "prompt") => "write the question as `input.prompt`",
        (AgentType::Script, "prompt") => {
            "a script receives the run's input as `input` and its `config` as `parameters`"
        }
        (AgentType::Tool, "tools") => "an agent with a `tool` calls this one tool and no others",
        (AgentType::Tool, "prompt") => {
            "an agent with a `tool` has no model: write what the tool receives as `arguments`"
        }
        (AgentType::Acp, "attachments" | "context_window" | "max_iterations" | "max_parallel_tools") => {
            "the external agent has its own model and its own limits"
        }
        (AgentType::Ensemble, "arguments") => "an agent with an `ensemble` gives values by name with `inputs`",
        (AgentType::Script, "arguments") => "a script receives the `config` of its agent as `parameters`",
        (AgentType::Llm | AgentType::Input | AgentType::Acp, "history") => {
            "the history is a variable of its templates: write `{{ transcript }}` or `{{ history }}`"
        }
        (_, "for_each") => "a person is asked once in an execution; let another agent make one question of the list",
        _ => return only_allowed_for(key),
    }
    .to_owned()
}

/// Returns the sentence that says which agents have the key.
fn only_allowed_for(key: &Key) -> String {
    let types = key.kinds().iter().filter_map(|word| AgentType::from_word(word));
    let choosers = one_of(types.flat_map(AgentType::choosers));
    let also = match key.name {
        "sandbox" => ", tools with a `script` and servers with a `command`",
        "inputs" => "; the inputs of the run are declared at the top of the file",
        "permissions" => "; tools have a `permission` each",
        _ => "",
    };
    format!("this key is only allowed for agents with {choosers}{also}")
}

fn llm(
    fields: &Fields<'_>,
    at: &Cursor<'_>,
    profile: bool,
    tools: &Tools<'_>,
    findings: &mut Findings,
) -> Option<AgentKind> {
    let model = if profile {
        reference(at, findings).map(ModelChoice::Profile)
    } else {
        model(at, findings)
    };
    let prompt = fields.read("prompt", findings, text);
    let system_prompt = fields.read("system_prompt", findings, text);
    let attachments = fields.read("attachments", findings, attachments);
    let conversation = fields.get("conversation");
    let memory = conversation.and_then(|conversation| llm_conversation(&conversation, findings));
    let used = match fields.get("tools") {
        Some(at) => tools.uses(&at, findings),
        None => Some(Vec::new()),
    };
    let max_iterations = fields.read("max_iterations", findings, count);
    let max_parallel_tools = fields.read("max_parallel_tools", findings, count);
    Some(AgentKind::Llm(Llm {
        model: model?,
        prompt,
        system_prompt,
        attachments: attachments.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        context_window: fields.read("context_window", findings, context_window::read),
        tools: used?,
        max_iterations: max_iterations.unwrap_or(Llm::MAX_ITERATIONS),
        max_parallel_tools: max_parallel_tools.unwrap_or(Llm::MAX_PARALLEL_TOOLS),
    }))
}

/// An external program, which is told and answers like a model. It has tools and limits of its own; `tools` names servers
/// that it is given in addition.
fn external(fields: &Fields<'_>, at: &Cursor<'_>, tools: &Tools<'_>, findings: &mut Findings) -> Option<AgentKind> {
    let program = acp::program(at, findings);
    let permissions = fields.read("permissions", findings, acp::permissions);
    let prompt = fields.read("prompt", findings, text);
    let system_prompt = fields.read("system_prompt", findings, text);
    let conversation = fields.get("conversation");
    let memory = conversation.and_then(|conversation| llm_conversation(&conversation, findings));
    let used = match fields.get("tools") {
        Some(at) => tools.uses(&at, findings),
        None => Some(Vec::new()),
    };
    Some(AgentKind::Llm(Llm {
        model: ModelChoice::Acp(Arc::new(Acp {
            program: program?,
            permissions: permissions.unwrap_or_default(),
        })),
        prompt,
        system_prompt,
        attachments: Vec::new(),
        memory: memory.unwrap_or_default(),
        context_window: None,
        tools: used?,
        max_iterations: NonZeroU32::MAX,
        max_parallel_tools: Llm::MAX_PARALLEL_TOOLS,
    }))
}

/// Reads `attachments`: paths, which may be templates.
fn attachments(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    filled_texts(at, "a list of paths", findings)
}

/// `conversation.memory`.
fn llm_conversation(at: &Cursor<'_>, findings: &mut Findings) -> Option<Memory> {
    let fields = Fields::open(at, Section::Conversation, &mut Findings::default())?;
    fields.read("memory", findings, |at, findings| {
        word(
            at,
            &[("conversation", Memory::Conversation), ("none", Memory::None)],
            findings,
        )
    })
}

/// Keys without a connection to others, which agents of every kind have.
struct OfAllKinds {
    description: Option<String>,
    output_schema: Option<Value>,
    timeout: Option<Duration>,
    retry: Option<Retry>,
    on_error: Option<OnError>,
    /// Scripts only.
    sandbox: Option<SandboxChoice>,
}

fn of_all_kinds(fields: &Fields<'_>, findings: &mut Findings) -> OfAllKinds {
    OfAllKinds {
        description: fields.read("description", findings, text),
        output_schema: fields.read("output_schema", findings, json::schema),
        timeout: fields.read("timeout_seconds", findings, seconds),
        retry: fields.read("retry", findings, limits::retry),
        on_error: fields.read("on_error", findings, |at, findings| {
            word(
                at,
                &[("fail", OnError::Fail), ("continue", OnError::Continue)],
                findings,
            )
        }),
        sandbox: fields.read("sandbox", findings, sandbox::read),
    }
}

fn model(at: &Cursor<'_>, findings: &mut Findings) -> Option<ModelChoice> {
    let text = reference(at, findings)?;
    match text.split_once('/') {
        Some((provider, model)) if !provider.trim().is_empty() && !model.trim().is_empty() => {
            if !remote::is_provider(provider.trim()) {
                findings.push(remote::unknown_provider(provider.trim(), at));
                return None;
            }
            Some(ModelChoice::Model {
                provider: provider.trim().into(),
                model: model.trim().into(),
            })
        }
        _ => {
            let message = format!("{} does not have the form `provider/model`", quoted(&text));
            let finding = Finding::error(codes::BAD_MODEL, at.value(), message);
            findings
                .push(finding.help("for example, write `model: ollama/llama3`, or use a profile with `model_profile`"));
            None
        }
    }
}

/// `config`, or `parameters`, as in llm-orc.
fn config(fields: &Fields<'_>, findings: &mut Findings) -> Option<JsonMap> {
    if let (Some(config), Some(parameters)) = (fields.get("config"), fields.get("parameters")) {
        let message = "`parameters` is another spelling of `config`, and both are given".to_owned();
        let fix = RouteFix::not_safe("remove `parameters`", RouteEdit::Remove(parameters.route()));
        findings.push(
            Finding::error(codes::TWO_SPELLINGS, parameters.key(), message)
                .also(config.key(), "first here")
                .with_fix(fix),
        );
    }
    match fields.get("config").or_else(|| fields.get("parameters")) {
        Some(at) => json::map(&at, findings),
        None => Some(JsonMap::new()),
    }
}

fn conversation(
    at: &Cursor<'_>,
    agent: Option<usize>,
    names: &Names<'_>,
    findings: &mut Findings,
) -> Option<Conversation> {
    let fields = Fields::open(at, Section::Conversation, findings)?;
    let max_turns = fields.read("max_turns", findings, count);
    let state_key = fields.read("state_key", findings, |at, findings| {
        state_key(at, agent, names, findings)
    });
    let triggers_conversation = fields.read("triggers_conversation", findings, flag);
    let trigger = fields.read("trigger", findings, |at, findings| {
        word(
            at,
            &[("news", Trigger::News), ("every_turn", Trigger::EveryTurn)],
            findings,
        )
    });
    let on_resume = fields.read("on_resume", findings, |at, findings| {
        word(at, &[("reuse", OnResume::Reuse), ("rerun", OnResume::Rerun)], findings)
    });
    let history = fields.read("history", findings, count_or_none);
    let defaults = Conversation::default();
    Some(Conversation {
        max_turns: max_turns.unwrap_or(defaults.max_turns),
        state_key,
        triggers_conversation: triggers_conversation.unwrap_or(defaults.triggers_conversation),
        trigger: trigger.unwrap_or(defaults.trigger),
        on_resume: on_resume.unwrap_or(defaults.on_resume),
        history: history.unwrap_or(defaults.history),
    })
}

fn state_key(at: &Cursor<'_>, agent: Option<usize>, names: &Names<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let key = name(at, findings)?;
    let Some(taken) = names.get(&key).filter(|taken| Some(*taken) != agent) else {
        return Some(key);
    };
    let message = format!("the `state_key` `{key}` is the name of another agent");
    let finding = Finding::error(codes::STATE_KEY_TAKEN, at.value(), message);
    let finding = finding.also(Names::place(taken), "this agent stores its output under this key");
    findings.push(finding.help("choose another key"));
    None
}
