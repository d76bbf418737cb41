//! Options of a run from the command line: input, context, answers, models.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::command::check::files::inputs::read_stdin;
use crate::command::run::arguments::{AnsweringArgs, RunExecutionArgs};
use crate::command::run::reporters::RunDisplay;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_agents::agent::kinds::input::PreparedAnswers;
use ensemble_core::request::RequestAddress;
use ensemble_language::data::strip_byte_order_mark;
use ensemble_language::loader;
use ensemble_project::ProjectError;
use ensemble_project::project::read_source;
use ensemble_project::review::load_trusted_mcp_config;
use ensemble_runs::{ClientServers, ReplyCacheFolder, RunHost, RunOptions};

/// Builds the options of a run, with its reporter and its receiver of live output. Starts the telemetry if the options ask for it.
pub(crate) fn run_options(
    answering: &AnsweringArgs,
    driving: &RunExecutionArgs,
    showing: RunDisplay,
    surroundings: &CliEnvironment,
) -> Result<RunOptions, CliError> {
    let mut options = self::answering_options(answering, surroundings)?.with_durability(driving.journal_durability());
    options.refuses_exhausted = driving.fail_on_limit;
    options.reporters.push(showing.reporter);
    options.live_output = showing.live_output;
    options.tracer = surroundings
        .telemetry
        .start_if_wanted(&driving.telemetry, |text| surroundings.print_err(text));
    if driving.live {
        let Some(events) = showing.events else {
            return Err(CliError::usage_error("--live needs `--output events`"));
        };
        options.live_output = Some(Arc::new(events));
    }
    Ok(options)
}

/// Builds the options of a run for answers, models, tools and the reply cache.
pub(crate) fn answering_options(args: &AnsweringArgs, surroundings: &CliEnvironment) -> Result<RunOptions, CliError> {
    Ok(RunOptions {
        answers: load_prepared_answers(args, surroundings)?,
        models: args.model.clone(),
        allowed_tools: args.allow_tool.clone(),
        denied_tools: args.deny_tool.clone(),
        servers: Arc::new(load_mcp_servers(args.mcp_config.as_deref(), surroundings)?),
        cache: args.cache.clone().map(|folder| ReplyCacheFolder {
            folder,
            is_read_only: args.cache_only,
        }),
        ..RunOptions::default()
    })
}

/// Returns the argument, or the text of the file in `@FILE`, or the text of standard input for `-`. Strips a byte order mark.
pub(crate) fn read_text_argument(given: &str, surroundings: &CliEnvironment) -> Result<Arc<str>, CliError> {
    if given == "-" {
        return Ok(strip_byte_order_mark(&read_stdin()?).into());
    }
    match given.strip_prefix('@') {
        Some(file) => {
            let source = read_source(&surroundings.project.folder.join(file))?;
            Ok(strip_byte_order_mark(source.text()).into())
        }
        None => Ok(given.into()),
    }
}

/// Adds the values of the `--context` file and then of every `--set` to the inputs or the context.
pub(crate) fn with_context_and_set_values(
    mut options: RunOptions,
    file: Option<&Path>,
    set: &[String],
    surroundings: &CliEnvironment,
) -> Result<RunOptions, CliError> {
    if let Some(file) = file {
        let source = read_source(&surroundings.project.folder.join(file))?;
        for (key, value) in loader::load_context(&source).map_err(ProjectError::Invalid)? {
            options.context.insert(key.into(), Arc::new(value));
        }
    }
    with_set_values(options, set)
}

/// Adds the values of all `--set` options to the inputs or the context.
pub(crate) fn with_set_values(mut options: RunOptions, given: &[String]) -> Result<RunOptions, CliError> {
    for set in given {
        let (key, value) = split_at_equals(set, "--set", "KEY=VALUE")?;
        options = options.with_text_value(key, value);
    }
    Ok(options)
}

/// Adds the stubs of `--stub` and the responders of `--respond`. Reads the text of a stub from a file for `AGENT=@FILE`.
pub(crate) fn with_stubs_and_responders(
    mut options: RunOptions,
    stubs: &[String],
    responders: &[String],
    surroundings: &CliEnvironment,
) -> Result<RunOptions, CliError> {
    for stub in stubs {
        let (agent, text) = split_at_equals(stub, "--stub", "AGENT=TEXT or AGENT=@FILE")?;
        let text = match text {
            "-" => "-".into(),
            text => self::read_text_argument(text, surroundings)?,
        };
        options.stubs.insert(agent.into(), text);
    }
    for respond in responders {
        let (agent, profile) = split_at_equals(respond, "--respond", "AGENT=PROFILE")?;
        options.responders.insert(agent.into(), profile.into());
    }
    Ok(options)
}

/// Loads the MCP servers of the file in `--mcp-config`. Returns no servers without a file.
pub(crate) fn load_mcp_servers(file: Option<&Path>, surroundings: &CliEnvironment) -> Result<ClientServers, CliError> {
    let Some(file) = file else {
        return Ok(ClientServers::default());
    };
    let config = load_trusted_mcp_config(file, &surroundings.project)?;
    let host = RunHost::from_system();
    let servers = ClientServers::from_config(config, &|name| host.read_variable(name));
    servers.map_err(|error| {
        CliError::usage_error_with_help(
            format!("--mcp-config {}: {error}", file.display()),
            r#"write the file in this form: {"mcpServers": {"NAME": {"command": "...", "args": [], "env": {}}, "OTHER": {"url": "https://..."}}}"#,
        )
    })
}

/// Loads the answers of `--answers`, `--answer` and `--always-answer`.
fn load_prepared_answers(args: &AnsweringArgs, surroundings: &CliEnvironment) -> Result<PreparedAnswers, CliError> {
    let mut answers = PreparedAnswers::default();
    answers.set_answering_user(surroundings.user.as_deref());
    if let Some(file) = &args.answers {
        let source = read_source(&surroundings.project.folder.join(file))?;
        for (agent, given) in loader::load_answers(&source).map_err(ProjectError::Invalid)? {
            let value = match given {
                loader::AgentAnswers::Always(value) => value,
                loader::AgentAnswers::Each(values) => Value::Array(values),
            };
            answers.insert_file_entry(&*agent, value);
        }
    }
    for answer in &args.answer {
        let (address, text) = split_answer(answer, "--answer")?;
        answers.push_next_answer(address, text);
    }
    for answer in &args.always_answer {
        let (address, text) = split_answer(answer, "--always-answer")?;
        answers.insert_always_answer(address, text);
    }
    Ok(answers)
}

/// Splits `ADDRESS=TEXT` into the address and the text. `option` names the option for the error.
fn split_answer<'a>(given: &'a str, option: &str) -> Result<(&'a str, &'a str), CliError> {
    match RequestAddress::split_address_assignment(given) {
        Some((address, text)) if !address.is_empty() => Ok((address, text)),
        _ => Err(CliError::usage_error(format!(
            "{option} takes ADDRESS=TEXT, not `{given}`"
        ))),
    }
}

/// Splits the text of an option at the first `=`. `option` and `shape` describe the option in the error.
fn split_at_equals<'a>(text: &'a str, option: &str, shape: &str) -> Result<(&'a str, &'a str), CliError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => Err(CliError::usage_error(format!("{option} takes {shape}, not `{text}`"))),
    }
}
