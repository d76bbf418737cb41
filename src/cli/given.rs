//! What the command line gives a run: input, context, answers, models.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::args::{AnsweringArgs, RunArgs};
use super::error::CliError;
use super::project::{Surroundings, read_source, read_stdin};
use ensemble_agents::agent::input::Answers;
use ensemble_agents::model::{Cache, Override};
use ensemble_language::data::Context;
use ensemble_language::diagnostic::did_you_mean;
use ensemble_language::ensemble::{Ensemble, Tool, ToolKind};
use ensemble_language::loader;

/// The run's input: what was given, else the ensemble's `default_task`, else nothing.
pub(super) fn input(args: &RunArgs, ensemble: &Ensemble, surroundings: &Surroundings) -> Result<Arc<str>, CliError> {
    match args.input.as_deref() {
        None => Ok(ensemble.default_task.as_deref().unwrap_or_default().into()),
        Some(given) => text(given, surroundings),
    }
}

/// A text, `@FILE`, or `-` for standard input.
pub(super) fn text(given: &str, surroundings: &Surroundings) -> Result<Arc<str>, CliError> {
    if given == "-" {
        return Ok(read_stdin()?.into());
    }
    match given.strip_prefix('@') {
        Some(file) => Ok(read_source(&surroundings.folder.join(file))?.text().clone()),
        None => Ok(given.into()),
    }
}

/// The context before the first turn: `--context`, then every `--set`.
pub(super) fn context(file: Option<&Path>, set: &[String], surroundings: &Surroundings) -> Result<Context, CliError> {
    let mut context = Context::default();
    if let Some(file) = file {
        let source = read_source(&surroundings.folder.join(file))?;
        for (key, value) in loader::context(&source).map_err(CliError::Invalid)? {
            context.insert(key.into(), Arc::new(value));
        }
    }
    for (key, value) in self::set(set)?.iter() {
        context.insert(key.clone(), value.clone());
    }
    Ok(context)
}

/// Every `--set`.
pub(super) fn set(given: &[String]) -> Result<Context, CliError> {
    let mut context = Context::default();
    for set in given {
        let (key, value) = pair(set, "--set", "KEY=VALUE")?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        context.insert(key.into(), Arc::new(value));
    }
    Ok(context)
}

/// `--answers`, then every `--answer`.
pub(super) fn answers(args: &AnsweringArgs, surroundings: &Surroundings) -> Result<Answers, CliError> {
    let mut answers = Answers::default();
    if let Some(file) = &args.answers {
        let source = read_source(&surroundings.folder.join(file))?;
        for (agent, given) in loader::answers(&source).map_err(CliError::Invalid)? {
            let value = match given {
                loader::Answers::Always(value) => value,
                loader::Answers::Each(values) => Value::Array(values),
            };
            answers.insert(&*agent, value);
        }
    }
    for answer in &args.answer {
        let (agent, text) = pair(answer, "--answer", "AGENT=TEXT")?;
        answers.insert(agent, Value::String(text.to_owned()));
    }
    Ok(answers)
}

/// Every `--model`.
pub(super) fn overrides(models: &[String]) -> Result<Vec<Override>, CliError> {
    let parse = |model: &String| {
        let read: Result<Override, _> = model.parse();
        read.map_err(|error| CliError::usage(format!("--model {model}: {error}")))
    };
    models.iter().map(parse).collect()
}

/// `--cache` and `--cache-only`.
pub(super) fn cache(args: &AnsweringArgs, surroundings: &Surroundings) -> Result<Option<Cache>, CliError> {
    let Some(given) = &args.cache else {
        return Ok(None);
    };
    let folder = surroundings.relative(&surroundings.folder.join(given)).to_owned();
    let shown = given.display();
    if !args.cache_only {
        let cache = Cache::filled(folder).map_err(|error| CliError::usage(format!("--cache {shown}: {error}")))?;
        return Ok(Some(cache));
    }
    let cache = Cache::only(folder).map_err(|error| {
        let help = "run once without --cache-only to fill it";
        CliError::usage_with_help(format!("--cache {shown}: {error}"), help)
    });
    cache.map(Some)
}

/// Complains about answers for agents that ask nobody.
pub(super) fn check_answers(answers: &Answers, ensemble: &Ensemble) -> Result<(), CliError> {
    let asks = |name: &str| ensemble.agent(name).is_some_and(|agent| agent.kind_name() == "input");
    let may_hold = |name: &str| ensemble.agents.iter().any(|agent| agent.kind_name() == "ensemble") || asks(name);
    match answers.agents().find(|name| !may_hold(name)) {
        None => Ok(()),
        Some(name) => {
            let inputs: Vec<&str> = ensemble
                .agents
                .iter()
                .filter(|agent| agent.kind_name() == "input")
                .map(|agent| &*agent.name)
                .collect();
            let help = match inputs.as_slice() {
                [] => "this ensemble has no input agents".to_owned(),
                inputs => format!("its input agents are {}", inputs.join(", ")),
            };
            Err(CliError::usage_with_help(
                format!("an answer is given for `{name}`, which is no input agent"),
                help,
            ))
        }
    }
}

/// Complains about permissions for tools that are not there. Inner ensembles have tools of their own, which are not
/// looked at.
pub(super) fn check_tools(allowed: &[String], ensemble: &Ensemble) -> Result<(), CliError> {
    let holds_others = ensemble.agents.iter().any(|agent| agent.kind_name() == "ensemble")
        || ensemble
            .tools
            .iter()
            .any(|(_, tool)| matches!(tool.kind, ToolKind::Ensemble { .. }));
    let is_known = |name: &str| {
        let (tool, member) = name
            .split_once('.')
            .map_or((name, None), |(tool, member)| (tool, Some(member)));
        let is_server = |tool: &Tool| matches!(tool.kind, ToolKind::Mcp(_));
        let found = ensemble.tool(tool);
        name == "*" || found.is_some_and(|tool| member.is_none() || is_server(tool))
    };
    match allowed.iter().find(|name| !is_known(name)) {
        Some(name) if !holds_others => {
            let names: Vec<&str> = ensemble.tools.iter().map(|(name, _)| &**name).collect();
            let help = match (did_you_mean(name, names.iter().copied()), names.as_slice()) {
                (Some(guess), _) => format!("did you mean `{guess}`?"),
                (None, []) => "this ensemble has no tools".to_owned(),
                (None, names) => format!("its tools are {}", names.join(", ")),
            };
            Err(CliError::usage_with_help(
                format!("--allow-tool {name}: there is no such tool"),
                help,
            ))
        }
        _ => Ok(()),
    }
}

fn pair<'a>(text: &'a str, option: &str, shape: &str) -> Result<(&'a str, &'a str), CliError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => Err(CliError::usage(format!("{option} takes {shape}, not `{text}`"))),
    }
}
