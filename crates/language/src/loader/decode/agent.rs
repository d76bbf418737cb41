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
use super::provider_access;
use super::sandbox;
use super::tool;
use super::tool::DeclaredTools;
use super::{AgentNameIndex, decode_reference};
use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::{
    AcpAgent, Agent, AgentKind, AgentTrigger, ConversationSpec, LlmSpec, MemoryMode, ModelChoice, OnError, OnResume,
    RetryPolicy,
};
use crate::loader::codes;
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::key_messages::{find_probable_key, format_choices, quote_excerpt};
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_count, decode_count_or_zero, decode_list, decode_name, decode_nonblank_texts,
    decode_seconds, decode_text, decode_word_value,
};
use crate::vocabulary::{AgentType, FileSection, SectionKey, TYPE_CHOOSING_KEYS, chooses_agent_type};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Decodes the agent at `index`, and reports all its problems.
pub(super) fn decode_agent(
    at: &NodeCursor<'_>,
    index: usize,
    names: &AgentNameIndex<'_>,
    tools: &DeclaredTools<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Agent> {
    let fields = SectionFields::from_map(at, FileSection::Agent, findings)?;
    let name = fields.decode_required("name", "every agent must have a name", findings, decode_name);
    let kind = decode_kind(&fields, tools, findings);
    let config = decode_config(&fields, findings);
    let dependencies = dependency::decode_dependencies(&fields, names, findings);
    let conversation = match fields.get("conversation") {
        Some(at) => decode_conversation(&at, Some(index), names, findings),
        None => Some(ConversationSpec::default()),
    };
    let for_each = match &kind {
        // A person is asked once, which is reported with the other keys of other types.
        Some(AgentKind::Input(_)) | None => None,
        Some(_) => fields.decode_optional("for_each", findings, |at, findings| {
            let dependencies = dependencies.as_deref().unwrap_or_default();
            for_each::decode_for_each(at, &for_each::ReservedNames { dependencies, names }, findings)
        }),
    };
    let CommonAgentKeys {
        description,
        output_schema,
        timeout,
        retry,
        on_error,
        required,
        sandbox,
    } = decode_common_keys(&fields, findings);
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
        required: required.unwrap_or_default(),
        sandbox: SandboxChoice::into_sandbox(sandbox),
    })
}

/// Decodes `defaults` only to report wrong values, also those that no agent uses.
pub(super) fn check_defaults_section(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    tools: &DeclaredTools<'_>,
    findings: &mut LimitedFindingList,
) {
    let Some(fields) = SectionFields::from_map(at, FileSection::Defaults, findings) else {
        return;
    };
    fields.decode_optional("type", findings, |at, findings| {
        decode_word_value(at, &AgentType::WORDS, findings)
    });
    for key in ["script", "model_profile", "ensemble"] {
        fields.decode_optional(key, findings, decode_reference);
    }
    fields.decode_optional("model", findings, decode_model);
    fields.decode_optional("input", findings, input::check_default_input);
    for key in ["prompt", "system_prompt", "stdin"] {
        fields.decode_optional(key, findings, decode_text);
    }
    fields.decode_optional("acp", findings, acp::decode_acp_program);
    fields.decode_optional("permissions", findings, acp::decode_acp_permissions);
    fields.decode_optional("attachments", findings, decode_attachments);
    fields.decode_optional("inputs", findings, inputs::decode_input_values);
    fields.decode_optional("tool", findings, |at, findings| tools.decode_server_tool(at, findings));
    fields.decode_optional("arguments", findings, json::decode_json_map);
    fields.decode_optional("tools", findings, |at, findings| tools.decode_tool_uses(at, findings));
    fields.decode_optional("env", findings, tool::decode_env);
    fields.decode_optional("args", findings, |at, findings| {
        decode_list(at, "a list of strings", findings, decode_text)
    });
    for key in ["max_iterations", "max_parallel_tools"] {
        fields.decode_optional(key, findings, decode_count);
    }
    fields.decode_optional("context_window", findings, context_window::decode_context_window);
    fields.decode_optional("conversation", findings, |at, findings| {
        decode_memory(at, findings);
        decode_conversation(at, None, names, findings)
    });
    fields.decode_optional("for_each", findings, |at, findings| {
        let reserved_names = for_each::ReservedNames {
            dependencies: &[],
            names,
        };
        for_each::decode_for_each(at, &reserved_names, findings)
    });
    decode_config(&fields, findings);
    decode_common_keys(&fields, findings);
}

/// Decodes the kind of the agent with the keys that only this kind has. These keys are errors for other kinds.
fn decode_kind(
    fields: &SectionFields<'_>,
    tools: &DeclaredTools<'_>,
    findings: &mut LimitedFindingList,
) -> Option<AgentKind> {
    let declared = fields.decode_optional("type", findings, |at, findings| {
        decode_word_value(at, &AgentType::WORDS, findings)
    });
    let kind_keys: Vec<_> = TYPE_CHOOSING_KEYS
        .iter()
        .filter(|(key, _)| fields.get(key).is_some())
        .collect();
    let Some((key, kind)) = kind_keys.first().copied() else {
        // A misspelt key is already reported, with a suggestion.
        if !has_misspelt_kind(fields) {
            report_missing_kind(fields, declared, findings);
        }
        return None;
    };
    for (other, _) in &kind_keys[1..] {
        let place = |key: &str| fields.at.route().with_key(key).into_key_location();
        let message = format!("{} has both `{key}` and `{other}`", describe_agent(fields));
        let finding = Finding::new_error(codes::TWO_KINDS, place(other), message).with_related(place(key), "the first");
        findings.push(finding.with_help(match (*kind, *other) {
            (AgentType::Llm, "tool") => "write a list of the tools that the model can call: `tools: [name]`",
            _ => "an agent must run exactly one thing: keep one of the two keys",
        }));
    }
    if let Some(declared) = declared.filter(|declared| declared != kind) {
        let at = fields.at.route().with_key("type").into_value_location();
        let message = format!("`type: {}` contradicts `{key}`", declared.word());
        let change = RouteEdit::WriteText(at.clone(), kind.word().to_owned());
        let finding = Finding::new_error(codes::KIND_MISMATCH, at, message)
            .with_fix(RouteFix::new_unsafe(format!("write `type: {}`", kind.word()), change));
        let finding = finding.with_related(
            fields.at.route().with_key(*key).into_key_location(),
            "this key defines what the agent runs",
        );
        findings.push(finding.with_help(format!("write `type: {}`, or remove `type`", kind.word())));
    }
    if kind_keys.len() == 1 {
        report_other_type_keys(fields, *kind, findings);
    }
    let at = fields.get(key)?;
    match kind {
        AgentType::Script => {
            let env = fields
                .decode_optional("env", findings, tool::decode_env)
                .unwrap_or_default();
            let args = match fields.get("args") {
                Some(at) => decode_list(&at, "a list of strings", findings, decode_text),
                None => Some(Vec::new()),
            };
            let stdin = fields.decode_optional("stdin", findings, decode_text);
            Some(AgentKind::Script {
                script: decode_reference(&at, findings)?.to_string(),
                args: args?,
                stdin,
                env,
            })
        }
        AgentType::Ensemble => {
            let prompt = fields.decode_optional("prompt", findings, decode_text);
            let inputs = match fields.get("inputs") {
                Some(at) => inputs::decode_input_values(&at, findings),
                None => Some(JsonMap::new()),
            };
            Some(AgentKind::Ensemble {
                ensemble: decode_reference(&at, findings)?.to_string(),
                prompt,
                inputs: inputs?,
            })
        }
        AgentType::Input => input::decode_input(&at, findings).map(AgentKind::Input),
        AgentType::Acp => decode_acp_agent(fields, &at, tools, findings),
        AgentType::Tool => {
            let arguments = match fields.get("arguments") {
                Some(at) => json::decode_json_map(&at, findings),
                None => Some(JsonMap::new()),
            };
            Some(AgentKind::Tool {
                used: tools.decode_server_tool(&at, findings)?,
                arguments: arguments?,
            })
        }
        AgentType::Llm => decode_llm(fields, &at, *key == "model_profile", tools, findings),
    }
}

/// Returns `agent 'x'`, or `this agent` for an agent without a name.
fn describe_agent(fields: &SectionFields<'_>) -> String {
    match fields.get("name").and_then(|at| at.node.string_text().cloned()) {
        Some(name) => format!("agent {}", quote_excerpt(&name)),
        None => "this agent".to_owned(),
    }
}

/// Returns whether an unknown key of the agent is probably a misspelled key that chooses its kind.
fn has_misspelt_kind(fields: &SectionFields<'_>) -> bool {
    let mut intended_keys = fields
        .keys()
        .filter_map(|key| find_probable_key(key, FileSection::Agent));
    intended_keys.any(chooses_agent_type)
}

/// Reports that the agent has nothing to run; `declared`: the value of its `type`.
fn report_missing_kind(fields: &SectionFields<'_>, declared: Option<AgentType>, findings: &mut LimitedFindingList) {
    let route = fields.at.route();
    let at = match fields.get("name") {
        Some(_) => route.with_key("name").into_value_location(),
        None => route.into_value_location(),
    };
    let finding = Finding::new_error(
        codes::NO_KIND,
        at,
        format!("{} has nothing to run", describe_agent(fields)),
    );
    findings.push(finding.with_help(match declared {
        Some(AgentType::Llm) => "add `model_profile: name` or `model: provider/model`".to_owned(),
        Some(kind) => format!("add `{}: …`", kind.word()),
        None => "add one of `script`, `model_profile` (or `model`), `input`, `ensemble`, `acp` or `tool`".to_owned(),
    }));
}

/// Reports keys that only agents of other types have, also in `conversation`.
fn report_other_type_keys(fields: &SectionFields<'_>, agent_type: AgentType, findings: &mut LimitedFindingList) {
    let (word, owner) = (agent_type.word(), format!("an agent of type {}", agent_type.word()));
    let help = |key: &SectionKey| other_type_help(key, agent_type);
    fields.report_other_kind_keys(word, &owner, findings, help);
    let conversation = fields.get("conversation");
    let conversation = conversation
        .as_ref()
        .and_then(|at| SectionFields::from_map(at, FileSection::Conversation, &mut LimitedFindingList::default()));
    if let Some(conversation) = conversation {
        conversation.report_other_kind_keys(word, &owner, findings, help);
    }
}

/// Returns the advice for a key that agents of this type do not have.
fn other_type_help(key: &SectionKey, agent_type: AgentType) -> String {
    match (agent_type, key.name) {
        (AgentType::Input, "prompt") => "write the question as `input.prompt`",
        (AgentType::Script, "prompt") => {
            "a script receives the run's input as `input` and its `config` as `parameters`; `stdin` replaces them by a text"
        }
        (AgentType::Tool, "tools") => "an agent with a `tool` calls this one tool and no others",
        (AgentType::Tool, "prompt") => {
            "an agent with a `tool` has no model: write what the tool receives as `arguments`"
        }
        (AgentType::Acp, "attachments" | "context_window" | "max_iterations" | "max_parallel_tools") => {
            "the external agent has its own model and its own limits"
        }
        (AgentType::Ensemble, "arguments") => "an agent with an `ensemble` passes values by name with `inputs`",
        (AgentType::Script, "arguments") => "write the arguments of the process as `args`",
        (AgentType::Acp, "args") => "write the arguments of the program in `acp`: `acp: {command: PROGRAM, args: [...]}`",
        (AgentType::Tool, "args") => "write what the tool receives as `arguments`",
        (_, "args" | "stdin") => "only an agent with a `script` starts a process that reads it",
        (AgentType::Llm | AgentType::Input | AgentType::Acp, "history") => {
            "the history is a variable of the agent's templates: write `{{ transcript }}` or `{{ history }}`"
        }
        (_, "for_each") => {
            "a person answers one question in an execution; let another agent write one question for the whole list"
        }
        _ => return allowed_agents_help(key),
    }
    .to_owned()
}

/// Returns the sentence that names the kinds of agents that have the key.
fn allowed_agents_help(key: &SectionKey) -> String {
    let types = key.section_kinds().iter().filter_map(|word| AgentType::from_word(word));
    let choosers = format_choices(types.flat_map(AgentType::choosing_keys));
    let also = match key.name {
        "sandbox" => ", tools with a `script` and servers with a `command`",
        "inputs" => "; the inputs of the run are declared at the top of the file",
        "permissions" => "; each tool has its own `permission`",
        _ => "",
    };
    format!("this key is only allowed for agents with {choosers}{also}")
}

/// Decodes an LLM agent. `profile`: the value at `at` is the name of a profile, otherwise a model.
fn decode_llm(
    fields: &SectionFields<'_>,
    at: &NodeCursor<'_>,
    profile: bool,
    tools: &DeclaredTools<'_>,
    findings: &mut LimitedFindingList,
) -> Option<AgentKind> {
    let model = if profile {
        decode_reference(at, findings).map(ModelChoice::Profile)
    } else {
        decode_model(at, findings)
    };
    let prompt = fields.decode_optional("prompt", findings, decode_text);
    let system_prompt = fields.decode_optional("system_prompt", findings, decode_text);
    let attachments = fields.decode_optional("attachments", findings, decode_attachments);
    let conversation = fields.get("conversation");
    let memory = conversation.and_then(|conversation| decode_memory(&conversation, findings));
    let used = match fields.get("tools") {
        Some(at) => tools.decode_tool_uses(&at, findings),
        None => Some(Vec::new()),
    };
    let max_iterations = fields.decode_optional("max_iterations", findings, decode_count);
    let max_parallel_tools = fields.decode_optional("max_parallel_tools", findings, decode_count);
    Some(AgentKind::Llm(LlmSpec {
        model: model?,
        prompt,
        system_prompt,
        attachments: attachments.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        context_window: fields.decode_optional("context_window", findings, context_window::decode_context_window),
        tools: used?,
        max_iterations: max_iterations.unwrap_or(LlmSpec::MAX_ITERATIONS),
        max_parallel_tools: max_parallel_tools.unwrap_or(LlmSpec::MAX_PARALLEL_TOOLS),
    }))
}

/// Decodes an agent with an external agent program. `tools` names the servers that the program gets in addition to its own tools.
fn decode_acp_agent(
    fields: &SectionFields<'_>,
    at: &NodeCursor<'_>,
    tools: &DeclaredTools<'_>,
    findings: &mut LimitedFindingList,
) -> Option<AgentKind> {
    let program = acp::decode_acp_program(at, findings);
    let permissions = fields.decode_optional("permissions", findings, acp::decode_acp_permissions);
    let prompt = fields.decode_optional("prompt", findings, decode_text);
    let system_prompt = fields.decode_optional("system_prompt", findings, decode_text);
    let conversation = fields.get("conversation");
    let memory = conversation.and_then(|conversation| decode_memory(&conversation, findings));
    let used = match fields.get("tools") {
        Some(at) => tools.decode_tool_uses(&at, findings),
        None => Some(Vec::new()),
    };
    Some(AgentKind::Llm(LlmSpec {
        model: ModelChoice::Acp(Arc::new(AcpAgent {
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
        max_parallel_tools: LlmSpec::MAX_PARALLEL_TOOLS,
    }))
}

/// Decodes `attachments`: paths, which may be templates.
fn decode_attachments(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<String>> {
    decode_nonblank_texts(at, "a list of paths", findings)
}

/// Decodes `memory` from the value of `conversation`.
fn decode_memory(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<MemoryMode> {
    let fields = SectionFields::from_map(at, FileSection::Conversation, &mut LimitedFindingList::default())?;
    fields.decode_optional("memory", findings, |at, findings| {
        decode_word_value(
            at,
            &[("conversation", MemoryMode::Conversation), ("none", MemoryMode::None)],
            findings,
        )
    })
}

/// The keys that agents of every kind have and that refer to nothing else.
struct CommonAgentKeys {
    description: Option<String>,
    output_schema: Option<Value>,
    timeout: Option<Duration>,
    retry: Option<RetryPolicy>,
    on_error: Option<OnError>,
    required: Option<bool>,
    /// Scripts only.
    sandbox: Option<SandboxChoice>,
}

/// Decodes the keys that agents of every kind have.
fn decode_common_keys(fields: &SectionFields<'_>, findings: &mut LimitedFindingList) -> CommonAgentKeys {
    CommonAgentKeys {
        description: fields.decode_optional("description", findings, decode_text),
        output_schema: fields.decode_optional("output_schema", findings, json::decode_json_schema),
        timeout: fields.decode_optional("timeout_seconds", findings, decode_seconds),
        retry: fields.decode_optional("retry", findings, limits::decode_retry),
        on_error: fields.decode_optional("on_error", findings, |at, findings| {
            decode_word_value(
                at,
                &[
                    ("fail", OnError::Fail),
                    ("continue", OnError::Continue),
                    ("stop", OnError::Stop),
                ],
                findings,
            )
        }),
        required: fields.decode_optional("required", findings, decode_bool),
        sandbox: fields.decode_optional("sandbox", findings, sandbox::decode_sandbox),
    }
}

/// Decodes `provider/model`, and checks the provider.
fn decode_model(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<ModelChoice> {
    let text = decode_reference(at, findings)?;
    match text.split_once('/') {
        Some((provider, model)) if !provider.trim().is_empty() && !model.trim().is_empty() => {
            if !provider_access::is_provider_name(provider.trim()) {
                findings.push(provider_access::unknown_provider_finding(provider.trim(), at));
                return None;
            }
            Some(ModelChoice::Model {
                provider: provider.trim().into(),
                model: model.trim().into(),
            })
        }
        _ => {
            let message = format!("{} does not have the form `provider/model`", quote_excerpt(&text));
            let finding = Finding::new_error(codes::BAD_MODEL, at.value_location(), message);
            findings.push(
                finding.with_help("for example, write `model: ollama/llama3`, or use a profile with `model_profile`"),
            );
            None
        }
    }
}

/// Decodes `config`, or `parameters` with the same meaning as in llm-orc.
fn decode_config(fields: &SectionFields<'_>, findings: &mut LimitedFindingList) -> Option<JsonMap> {
    if let (Some(config), Some(parameters)) = (fields.get("config"), fields.get("parameters")) {
        let message = "`parameters` is another spelling of `config`, and the agent has both".to_owned();
        let fix = RouteFix::new_unsafe("remove `parameters`", RouteEdit::Remove(parameters.route()));
        findings.push(
            Finding::new_error(codes::TWO_SPELLINGS, parameters.key_location(), message)
                .with_related(config.key_location(), "first here")
                .with_fix(fix),
        );
    }
    match fields.get("config").or_else(|| fields.get("parameters")) {
        Some(at) => json::decode_json_map(&at, findings),
        None => Some(JsonMap::new()),
    }
}

/// Decodes `conversation`. `agent`: the index of the agent, or `None` in `defaults`.
fn decode_conversation(
    at: &NodeCursor<'_>,
    agent: Option<usize>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<ConversationSpec> {
    let fields = SectionFields::from_map(at, FileSection::Conversation, findings)?;
    let max_turns = fields.decode_optional("max_turns", findings, decode_count);
    let state_key = fields.decode_optional("state_key", findings, |at, findings| {
        decode_state_key(at, agent, names, findings)
    });
    let triggers_conversation = fields.decode_optional("triggers_conversation", findings, decode_bool);
    let trigger = fields.decode_optional("trigger", findings, |at, findings| {
        decode_word_value(
            at,
            &[
                ("news", AgentTrigger::News),
                ("every_turn", AgentTrigger::EveryTurn),
                ("request", AgentTrigger::Request),
            ],
            findings,
        )
    });
    let on_resume = fields.decode_optional("on_resume", findings, |at, findings| {
        decode_word_value(at, &[("reuse", OnResume::Reuse), ("rerun", OnResume::Rerun)], findings)
    });
    let history = fields.decode_optional("history", findings, decode_count_or_zero);
    let defaults = ConversationSpec::default();
    Some(ConversationSpec {
        max_turns: max_turns.unwrap_or(defaults.max_turns),
        state_key,
        triggers_conversation: triggers_conversation.unwrap_or(defaults.triggers_conversation),
        trigger: trigger.unwrap_or(defaults.trigger),
        on_resume: on_resume.unwrap_or(defaults.on_resume),
        history: history.unwrap_or(defaults.history),
    })
}

/// Decodes `state_key`, and reports a key that is the name of another agent.
fn decode_state_key(
    at: &NodeCursor<'_>,
    agent: Option<usize>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Arc<str>> {
    let key = decode_name(at, findings)?;
    let Some(other_agent) = names.find_index(&key).filter(|taken| Some(*taken) != agent) else {
        return Some(key);
    };
    let message = format!("the `state_key` `{key}` is the name of another agent");
    let finding = Finding::new_error(codes::STATE_KEY_TAKEN, at.value_location(), message);
    let finding = finding.with_related(
        AgentNameIndex::name_location(other_agent),
        "this agent stores its output under this key",
    );
    findings.push(finding.with_help("choose another key"));
    None
}
