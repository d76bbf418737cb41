//! The options of a run on the command line: input, context, answers, models.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::command::check::files::inputs::read_stdin;
use crate::command::run::arguments::{AnsweringArgs, DrivingArgs};
use crate::command::run::reporters::Showing;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::Surroundings;
use ensemble_agents::agent::kinds::input::Answers;
use ensemble_core::request::RequestAddress;
use ensemble_language::loader;
use ensemble_project::ProjectError;
use ensemble_project::project::read_source;
use ensemble_runs::{CacheFolder, ClientServers, Host, RunOptions};

/// The options that every run has, with its reporter and its live output.
pub(crate) fn options(
    answering: &AnsweringArgs,
    driving: &DrivingArgs,
    showing: Showing,
    surroundings: &Surroundings,
) -> Result<RunOptions, CliError> {
    let mut options = self::answering(answering, surroundings)?.durability(driving.durability());
    options.reporters.push(showing.reporter);
    options.live_output = showing.live_output;
    options.tracer = surroundings
        .telemetry
        .begin(&driving.telemetry, |text| surroundings.print_err(text));
    if driving.live {
        let Some(events) = showing.events else {
            return Err(CliError::usage("--live needs `--output events`"));
        };
        options.live_output = Some(Arc::new(events));
    }
    Ok(options)
}

/// The options for answers and models.
pub(crate) fn answering(args: &AnsweringArgs, surroundings: &Surroundings) -> Result<RunOptions, CliError> {
    Ok(RunOptions {
        answers: answers(args, surroundings)?,
        models: args.model.clone(),
        allowed_tools: args.allow_tool.clone(),
        denied_tools: args.deny_tool.clone(),
        servers: Arc::new(servers(args.mcp_config.as_deref(), surroundings)?),
        cache: args.cache.clone().map(|folder| CacheFolder {
            folder,
            only: args.cache_only,
        }),
        ..RunOptions::default()
    })
}

/// A text, `@FILE`, or `-` for standard input.
pub(crate) fn text(given: &str, surroundings: &Surroundings) -> Result<Arc<str>, CliError> {
    if given == "-" {
        return Ok(read_stdin()?.into());
    }
    match given.strip_prefix('@') {
        Some(file) => Ok(read_source(&surroundings.project.folder.join(file))?.text().clone()),
        None => Ok(given.into()),
    }
}

/// The inputs, or the context before the first turn: `--context`, then every `--set`.
pub(crate) fn with_values(
    mut options: RunOptions,
    file: Option<&Path>,
    set: &[String],
    surroundings: &Surroundings,
) -> Result<RunOptions, CliError> {
    if let Some(file) = file {
        let source = read_source(&surroundings.project.folder.join(file))?;
        for (key, value) in loader::context(&source).map_err(ProjectError::Invalid)? {
            options.context.insert(key.into(), Arc::new(value));
        }
    }
    with_set(options, set)
}

/// The values of all `--set` options.
pub(crate) fn with_set(mut options: RunOptions, given: &[String]) -> Result<RunOptions, CliError> {
    for set in given {
        let (key, value) = pair(set, "--set", "KEY=VALUE")?;
        options = options.set_text(key, value);
    }
    Ok(options)
}

/// The values of all `--stub` and `--respond` options.
pub(crate) fn with_substitutes(
    mut options: RunOptions,
    stubs: &[String],
    responders: &[String],
    surroundings: &Surroundings,
) -> Result<RunOptions, CliError> {
    for stub in stubs {
        let (agent, text) = pair(stub, "--stub", "AGENT=TEXT or AGENT=@FILE")?;
        let text = match text {
            "-" => "-".into(),
            text => self::text(text, surroundings)?,
        };
        options.stubs.insert(agent.into(), text);
    }
    for respond in responders {
        let (agent, profile) = pair(respond, "--respond", "AGENT=PROFILE")?;
        options.responders.insert(agent.into(), profile.into());
    }
    Ok(options)
}

/// The servers of tools of `--mcp-config`.
pub(crate) fn servers(file: Option<&Path>, surroundings: &Surroundings) -> Result<ClientServers, CliError> {
    let Some(file) = file else {
        return Ok(ClientServers::default());
    };
    let source = read_source(&surroundings.project.folder.join(file))?;
    let host = Host::system();
    let read = ClientServers::read(source.text(), &|name| host.variable(name));
    read.map_err(|error| {
        CliError::usage_with_help(
            format!("--mcp-config {}: {error}", file.display()),
            r#"the file has this form: {"mcpServers": {"NAME": {"command": "...", "args": [], "env": {}}, "OTHER": {"url": "https://..."}}}"#,
        )
    })
}

/// The answers of `--answers`, `--answer` and `--always-answer`.
fn answers(args: &AnsweringArgs, surroundings: &Surroundings) -> Result<Answers, CliError> {
    let mut answers = Answers::default();
    if let Some(file) = &args.answers {
        let source = read_source(&surroundings.project.folder.join(file))?;
        for (agent, given) in loader::answers(&source).map_err(ProjectError::Invalid)? {
            let value = match given {
                loader::Answers::Always(value) => value,
                loader::Answers::Each(values) => Value::Array(values),
            };
            answers.insert(&*agent, value);
        }
    }
    for answer in &args.answer {
        let (address, text) = assignment(answer, "--answer")?;
        answers.push_next(address, text);
    }
    for answer in &args.always_answer {
        let (address, text) = assignment(answer, "--always-answer")?;
        answers.insert_always(address, text);
    }
    Ok(answers)
}

/// The address and the text of an answer.
fn assignment<'a>(given: &'a str, option: &str) -> Result<(&'a str, &'a str), CliError> {
    match RequestAddress::split_assignment(given) {
        Some((address, text)) if !address.is_empty() => Ok((address, text)),
        _ => Err(CliError::usage(format!("{option} takes ADDRESS=TEXT, not `{given}`"))),
    }
}

fn pair<'a>(text: &'a str, option: &str, shape: &str) -> Result<(&'a str, &'a str), CliError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => Err(CliError::usage(format!("{option} takes {shape}, not `{text}`"))),
    }
}
