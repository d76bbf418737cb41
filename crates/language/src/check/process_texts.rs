//! Templates in command lines, folders and environments of processes, and variables of a shell in texts that nothing expands.

use super::check_subject::CheckSubject;
use super::templates::{collect_json_texts, list_templates};
use crate::diagnostic::Finding;
use crate::ensemble::{
    AcpProgram, Agent, AgentKind, CommandLine, ConfiguredHeader, Ensemble, EnvOrHeaderValue, ForEachItems, McpServer,
    PreparedResponses, ResultSpec, ToolDefinition, ToolKind,
};
use crate::loader::codes;
use crate::names::is_identifier_char;
use crate::source::{Route, RouteStep, Span};

/// A text of an ensemble in which an author may expect templates or shell variables to be expanded.
struct ProcessText<'e> {
    text: &'e str,
    route: Route,
    /// The key that the message names.
    key: &'static str,
    /// Whether a template in the text is an error.
    refuses_templates: bool,
    /// Whether a shell or nothing expands `${NAME}`.
    is_expanded: bool,
}

/// Reports templates in `script`, `cwd` and `env`, and `${NAME}` in texts that no shell reads.
pub(super) fn check_process_texts(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let mut texts = Vec::new();
    collect_agent_texts(subject.ensemble, &mut texts);
    collect_tool_texts(subject.ensemble, &mut texts);
    collect_profile_texts(subject.ensemble, &mut texts);
    collect_run_texts(subject.ensemble, &mut texts);
    for (text, route) in list_templates(subject.ensemble) {
        let key = find_template_key(&route);
        add_texts_with_allowed_templates(std::iter::once((text, route)), key, &mut texts);
    }
    texts
        .iter()
        .flat_map(|text| [refused_template_finding(text), unexpanded_variable_finding(text)])
        .flatten()
        .collect()
}

/// Returns the key of the template at this route.
fn find_template_key(route: &Route) -> &'static str {
    let keys = ["system_prompt", "attachments", "args", "stdin", "inputs", "arguments"];
    let has_key = |key: &&str| {
        let is_key = |step: &RouteStep| matches!(step, RouteStep::Key(name) if **name == **key);
        route.0.iter().any(is_key)
    };
    keys.into_iter().find(has_key).unwrap_or("prompt")
}

/// Adds the texts of all agents: configuration, conditions, scripts, command lines and environments.
fn collect_agent_texts<'e>(ensemble: &'e Ensemble, texts: &mut Vec<ProcessText<'e>>) {
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let route = Agent::route_at(at);
        let config_route = route.with_key("config");
        let mut values = Vec::new();
        for (name, value) in &agent.config {
            collect_json_texts(value, config_route.with_key(name.as_str()), &mut values);
        }
        add_texts_with_allowed_templates(values.into_iter(), "config", texts);
        let conditions = agent.dependencies.iter().filter_map(|dependency| {
            let place = dependency.route_in(&route).with_key("condition");
            Some((&**dependency.condition.as_ref()?.text(), place))
        });
        add_texts_with_allowed_templates(conditions, "condition", texts);
        collect_for_each_texts(agent, &route, texts);
        match &agent.kind {
            AgentKind::Script { script, env, .. } => {
                texts.push(ProcessText::from_script(script, &route));
                collect_environment_texts(env, &route, "env", texts);
            }
            AgentKind::Llm(llm) => {
                let program = llm.acp_agent().map(|acp| &acp.program);
                if let Some(AcpProgram::Command {
                    command,
                    args,
                    env,
                    cwd,
                }) = program
                {
                    let route = route.with_key("acp");
                    add_texts_with_allowed_templates(
                        std::iter::once((command.as_str(), route.with_key("command"))).chain(
                            args.iter()
                                .enumerate()
                                .map(|(at, text)| (text.as_str(), route.with_key("args").with_index(at))),
                        ),
                        "acp",
                        texts,
                    );
                    collect_environment_texts(env, &route, "env", texts);
                    texts.extend(
                        cwd.as_deref()
                            .map(|cwd| ProcessText::new(cwd, route.with_key("cwd"), "cwd")),
                    );
                }
            }
            AgentKind::Input(input) => {
                let route = route.with_key("input");
                let responses_route = route.with_key("responses");
                match &input.responses {
                    Some(PreparedResponses::Script(script)) => {
                        texts.push(ProcessText::from_script(script, &responses_route));
                    }
                    Some(PreparedResponses::List(list)) => {
                        add_list_texts(list, &responses_route, "responses", texts);
                    }
                    Some(PreparedResponses::Profile(_)) | None => {}
                }
                add_list_texts(&input.choices, &route.with_key("choices"), "choices", texts);
                let default = input.default.as_deref();
                let default = default.map(|text| (text, route.with_key("default")));
                add_texts_with_allowed_templates(default.into_iter(), "default", texts);
            }
            AgentKind::Ensemble { ensemble, .. } => add_ensemble_name(ensemble, &route, texts),
            AgentKind::Tool { .. } => {}
        }
    }
}

/// Adds the texts in the list and in the expressions of `for_each`.
fn collect_for_each_texts<'e>(agent: &'e Agent, route: &Route, texts: &mut Vec<ProcessText<'e>>) {
    let Some(for_each) = &agent.for_each else { return };
    let route = route.with_key("for_each");
    let mut found = Vec::new();
    match &for_each.items {
        ForEachItems::Expression(text) => found.push((text.as_str(), route.with_key("in"))),
        ForEachItems::List(items) => {
            for (at, item) in items.iter().enumerate() {
                collect_json_texts(item, route.with_key("in").with_index(at), &mut found);
            }
        }
        ForEachItems::Times(_) => {}
    }
    found.extend(for_each.key.as_deref().map(|text| (text, route.with_key("key"))));
    let combine = for_each.combine.keyed_expression();
    found.extend(combine.map(|(key, text)| (text, route.with_key("combine").with_key(key))));
    add_texts_with_allowed_templates(found.into_iter(), "for_each", texts);
}

/// Adds the texts of the run itself.
fn collect_run_texts<'e>(ensemble: &'e Ensemble, texts: &mut Vec<ProcessText<'e>>) {
    let root = Route::root();
    for input in ensemble.inputs.iter().flatten() {
        let route = root.with_key("inputs").with_key(input.name.clone()).with_key("default");
        let mut values = Vec::new();
        if let Some(default) = input.schema.get("default") {
            collect_json_texts(default, route, &mut values);
        }
        add_texts_with_allowed_templates(values.into_iter(), "default", texts);
    }
    let default_task = ensemble.default_task.as_deref();
    let default_task = default_task.map(|text| (text, root.with_key("default_task")));
    add_texts_with_allowed_templates(default_task.into_iter(), "default_task", texts);
    if let Some(ResultSpec::Map(entries)) = &ensemble.result {
        let route = root.with_key("result");
        let entries = entries.iter();
        let expressions = entries.map(|(key, text)| (text.as_str(), route.with_key(key.clone())));
        add_texts_with_allowed_templates(expressions, "result", texts);
    }
    let success = ensemble.success.as_ref();
    let success = success.map(|condition| (&**condition.text(), root.with_key("success")));
    add_texts_with_allowed_templates(success.into_iter(), "success", texts);
}

/// Adds the texts of a list, such as `choices`.
fn add_list_texts<'e>(list: &'e [String], route: &Route, key: &'static str, texts: &mut Vec<ProcessText<'e>>) {
    let list = list.iter().enumerate();
    add_texts_with_allowed_templates(list.map(|(at, text)| (text.as_str(), route.with_index(at))), key, texts);
}

/// Adds the texts of all tools: scripts, commands, folders, addresses, environments and headers.
fn collect_tool_texts<'e>(ensemble: &'e Ensemble, texts: &mut Vec<ProcessText<'e>>) {
    for (name, tool) in &ensemble.tools {
        let route = ToolDefinition::route_for(name);
        match &tool.kind {
            ToolKind::Script { script, env, .. } => {
                texts.push(ProcessText::from_script(script, &route));
                collect_environment_texts(env, &route, "env", texts);
            }
            ToolKind::Mcp(McpServer::Command { command, env, cwd, .. }) => {
                let route = route.with_key("mcp");
                if let CommandLine::Words(words) = command {
                    let command_route = route.with_key("command");
                    let words = words.iter().enumerate();
                    add_texts_with_allowed_templates(
                        words.map(|(at, word)| (word.as_str(), command_route.with_index(at))),
                        "command",
                        texts,
                    );
                }
                collect_environment_texts(env, &route, "env", texts);
                texts.extend(
                    cwd.as_deref()
                        .map(|cwd| ProcessText::new(cwd, route.with_key("cwd"), "cwd")),
                );
            }
            ToolKind::Mcp(McpServer::Url { url, headers }) => {
                let route = route.with_key("mcp");
                add_texts_with_allowed_templates(std::iter::once((url.as_str(), route.with_key("url"))), "url", texts);
                let start = texts.len();
                collect_environment_texts(headers, &route, "headers", texts);
                texts[start..]
                    .iter_mut()
                    .for_each(|text| text.refuses_templates = false);
            }
            ToolKind::Ensemble { ensemble, .. } => add_ensemble_name(ensemble, &route, texts),
            ToolKind::Mcp(McpServer::Client) | ToolKind::Agent { .. } => {}
        }
    }
}

/// Adds the models, addresses, headers and options of the model profiles.
fn collect_profile_texts<'e>(ensemble: &'e Ensemble, texts: &mut Vec<ProcessText<'e>>) {
    for (name, profile) in &ensemble.model_profiles {
        let route = Route::root().with_key("model_profiles").with_key(name.clone());
        let model = std::iter::once((profile.model.as_ref(), route.with_key("model")));
        add_texts_with_allowed_templates(model, "model", texts);
        let address = profile.base_url.as_deref();
        add_texts_with_allowed_templates(
            address.into_iter().map(|url| (url, route.with_key("base_url"))),
            "base_url",
            texts,
        );
        let headers_route = route.with_key("headers");
        let headers = profile.headers.iter().filter_map(|(name, header)| match header {
            ConfiguredHeader::Text(text) => Some((text.as_str(), headers_route.with_key(name.as_str()))),
            ConfiguredHeader::Env(_) => None,
        });
        add_texts_with_allowed_templates(headers, "headers", texts);
        let options_route = route.with_key("options");
        let mut values = Vec::new();
        for (name, value) in &profile.options {
            collect_json_texts(value, options_route.with_key(name.as_str()), &mut values);
        }
        add_texts_with_allowed_templates(values.into_iter(), "options", texts);
    }
}

/// Adds the name of a nested ensemble.
fn add_ensemble_name<'e>(named: &'e str, owner: &Route, texts: &mut Vec<ProcessText<'e>>) {
    add_texts_with_allowed_templates(std::iter::once((named, owner.with_key("ensemble"))), "ensemble", texts);
}

/// Adds texts in which a template is not refused.
fn add_texts_with_allowed_templates<'e>(
    words: impl Iterator<Item = (&'e str, Route)>,
    key: &'static str,
    texts: &mut Vec<ProcessText<'e>>,
) {
    texts.extend(words.map(|(text, route)| ProcessText {
        refuses_templates: false,
        ..ProcessText::new(text, route, key)
    }));
}

fn collect_environment_texts<'e>(
    settings: &'e [(String, EnvOrHeaderValue)],
    owner: &Route,
    key: &'static str,
    texts: &mut Vec<ProcessText<'e>>,
) {
    let route = owner.with_key(key);
    texts.extend(settings.iter().filter_map(|(name, setting)| match setting {
        EnvOrHeaderValue::Text(text) => Some(ProcessText::new(text, route.with_key(name.as_str()), key)),
        EnvOrHeaderValue::Inherited | EnvOrHeaderValue::FromEnvironment { .. } => None,
    }));
}

impl<'e> ProcessText<'e> {
    /// Creates an entry in which templates are refused and shell variables are not expanded.
    fn new(text: &'e str, route: Route, key: &'static str) -> Self {
        Self {
            text,
            route,
            key,
            refuses_templates: true,
            is_expanded: false,
        }
    }

    /// Creates the entry for `script`. A shell expands variables in a script, so `$` is not reported.
    fn from_script(script: &'e str, owner: &Route) -> Self {
        Self {
            is_expanded: true,
            ..Self::new(script, owner.with_key("script"), "script")
        }
    }
}

/// Returns an error if the text contains a template where none is expanded.
fn refused_template_finding(text: &ProcessText<'_>) -> Option<Finding> {
    let start = text.text.find("{{").filter(|_| text.refuses_templates)?;
    let end = text.text[start..]
        .find("}}")
        .map_or(text.text.len(), |length| start + length + 2);
    let message = format!("`{}` is not a template, so `{{{{` has no meaning in it", text.key);
    let at = text.route.clone().into_text_location(Span::new(start, end));
    Some(Finding::new_error(codes::TEMPLATE_PLACE, at, message).with_help(
        "write templates in `args`, the arguments of a script's process, or in `stdin`, the text that it reads",
    ))
}

/// Returns a warning if the text contains `${NAME}` and nothing expands it.
fn unexpanded_variable_finding(text: &ProcessText<'_>) -> Option<Finding> {
    let (span, name) = find_shell_variable(text.text).filter(|_| !text.is_expanded)?;
    let message = format!("nothing expands `${{{name}}}` in `{}`", text.key);
    let help = match text.key {
        "env" | "headers" => format!("write `{{env: {name}}}` as the value"),
        "args" | "stdin" => {
            format!("write `env: {{{name}: {{env: {name}}}}}`, and let the script read the variable `{name}`")
        }
        _ => format!("only the values of `env` and `headers` come from the environment: `{{env: {name}}}`"),
    };
    let at = text.route.clone().into_text_location(span);
    Some(Finding::new_warning(codes::UNEXPANDED_VARIABLE, at, message).with_help(help))
}

/// Finds the first `${NAME}` with its name; the name of `${NAME:-default}` is `NAME`.
fn find_shell_variable(text: &str) -> Option<(Span, &str)> {
    for (start, _) in text.match_indices("${") {
        let rest = &text[start + 2..];
        let length = rest.find(|c: char| !is_identifier_char(c)).unwrap_or(rest.len());
        let name = &rest[..length];
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let end = rest.find('}').filter(|_| rest[length..].starts_with(['}', ':', '-']));
        if let Some(end) = end.filter(|_| is_name) {
            return Some((Span::new(start, start + 2 + end + 1), name));
        }
    }
    None
}
