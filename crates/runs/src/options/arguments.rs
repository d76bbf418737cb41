//! The checks of a run's options against its ensemble, before the run starts.
//!
//! Invariant: an answer or a permission for an unknown agent or tool is an error.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ensemble_agents::agent::kinds::input::{PreparedAnswers, check_answer};
use ensemble_core::request::{AnswerRefusal, PendingRequest, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_language::data::OperatorQuestion;
use ensemble_language::diagnostic::find_similar_word;
use ensemble_language::ensemble::{AcpToolKind, Agent, AgentKind, Ensemble, ToolDefinition, ToolKind};
use ensemble_language::profiles::ModelOverride;
use ensemble_models::ReplyCache;

use crate::error::RunError;
use crate::options::run_options::ReplyCacheFolder;
use crate::project::Project;

/// Parses the overrides of models.
///
/// # Errors
///
/// The first override that is invalid.
pub fn parse_model_overrides(models: &[String]) -> Result<Vec<ModelOverride>, RunError> {
    let parse = |model: &String| {
        let read: Result<ModelOverride, _> = model.parse();
        read.map_err(|error| RunError::Model {
            given: model.clone(),
            reason: error.to_string(),
        })
    };
    models.iter().map(parse).collect()
}

/// Opens the cache of replies in this folder. Returns `None` without a folder.
pub(crate) fn open_reply_cache(
    given: Option<&ReplyCacheFolder>,
    project: &Project,
) -> Result<Option<ReplyCache>, RunError> {
    let Some(ReplyCacheFolder {
        folder,
        is_read_only: only,
    }) = given
    else {
        return Ok(None);
    };
    let path = project.folder.join(folder);
    let opened = if *only {
        ReplyCache::open_read_only(path)
    } else {
        ReplyCache::open_read_write(path)
    };
    let failed = |source| RunError::Cache {
        folder: folder.clone(),
        only: *only,
        source,
    };
    opened.map(Some).map_err(failed)
}

/// The questions of all input agents of an ensemble and of its nested ensembles. Incomplete if an agent with nested ensembles was not
/// built.
#[derive(Debug, Default)]
pub(crate) struct InputAgentQuestions {
    /// Their questions before a run, each with an address without keys of parts.
    questions: Mutex<Vec<PendingRequest>>,
    /// True if a stub replaces an ensemble, so that the agents in the ensemble are unknown.
    is_open: AtomicBool,
}

impl InputAgentQuestions {
    /// Adds the input agents of the ensemble at this address.
    pub(crate) fn add_input_agents(&self, ensemble: &Ensemble, address: &RequestAddress) {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        questions.extend(ensemble.agents.iter().filter_map(|agent| {
            let AgentKind::Input(spec) = &agent.kind else {
                return None;
            };
            Some(PendingRequest {
                address: address.append_agent(agent.name.clone()),
                agent: agent.name.clone(),
                execution: 1,
                digest: RequestDigest::default(),
                question: OperatorQuestion {
                    output_schema: agent.output_schema.clone().map(Box::new),
                    ..OperatorQuestion::new("", spec.choices.clone())
                },
                position: Vec::new(),
            })
        }));
    }

    /// Marks the questions as incomplete if the agent, which a stub replaces, could contain nested ensembles.
    pub(crate) fn mark_agent_unbuilt(&self, agent: &Agent) {
        let holds_ensembles = match &agent.kind {
            AgentKind::Ensemble { .. } => true,
            AgentKind::Llm(llm) => !llm.tools.is_empty(),
            AgentKind::Script { .. } | AgentKind::Input(_) | AgentKind::Tool { .. } => false,
        };
        if holds_ensembles {
            self.is_open.store(true, Ordering::Relaxed);
        }
    }

    /// Checks all answers of options before a run: their addresses, choices and schemas. In a file, a bare name means every agent with the
    /// name. In an option, the name must be unique.
    ///
    /// # Errors
    /// The first answer that no question can take.
    pub(crate) fn check_answers(&self, answers: &PreparedAnswers) -> Result<(), RunError> {
        let questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let next_count = answers.next_answers().len();
        for (at, (given, text)) in answers.option_answers().enumerate() {
            let asking = self.resolve_named_questions(given, &questions)?;
            // A path means every part and every call, but the next question is one.
            let means_one = |question: &PendingRequest| at < next_count || question.address.ends_with_agent(given);
            if let all @ [first, _, ..] = asking.as_slice()
                && means_one(first)
            {
                return Err(RunError::Answer(AnswerRefusal::Ambiguous {
                    given: given.to_owned(),
                    pending: all.iter().map(|question| question.address.clone()).collect(),
                }));
            }
            for question in asking {
                check_answer(question, &RequestAnswer::Text(text.to_owned()), false)?;
            }
        }
        for address in answers.file_addresses() {
            self.resolve_named_questions(address, &questions)?;
        }
        for (given, text) in answers.file_answers() {
            for question in self.resolve_named_questions(given, &questions)? {
                check_answer(question, &RequestAnswer::Text(text.clone()), false)?;
            }
        }
        Ok(())
    }

    /// Finds the questions that a text names most precisely. Returns an empty list if none matches and the questions are incomplete.
    ///
    /// # Errors
    ///
    /// No question, or several questions, have the name.
    fn resolve_named_questions<'q>(
        &self,
        given: &str,
        questions: &'q [PendingRequest],
    ) -> Result<Vec<&'q PendingRequest>, RunError> {
        let precision = |question: &PendingRequest| question.address.match_declared_precision(given);
        let best = questions.iter().filter_map(precision).max();
        let mut asking: Vec<&PendingRequest> = Vec::new();
        for question in questions
            .iter()
            .filter(|question| best.is_some() && precision(question) == best)
        {
            // An agent that is made ready twice is one agent.
            if !asking.iter().any(|known| known.address == question.address) {
                asking.push(question);
            }
        }
        if asking.is_empty() && !self.is_open.load(Ordering::Relaxed) {
            return Err(RunError::AnswerForNobody {
                agent: given.to_owned(),
                inputs: sorted_addresses(questions),
            });
        }
        Ok(asking)
    }
}

/// Returns the addresses of the questions, sorted and without duplicates.
fn sorted_addresses(questions: &[PendingRequest]) -> Vec<String> {
    let addresses: BTreeSet<String> = questions.iter().map(|question| question.address.to_string()).collect();
    addresses.into_iter().collect()
}

/// Returns whether a permission can have this name: a tool, an external agent, the address of a call, or `*`. Accepts every name if the
/// ensemble has nested ensembles, whose tools are unknown here.
pub fn is_possible_permission_name(name: &str, ensemble: &Ensemble) -> bool {
    let has_nested_ensembles = ensemble.agents.iter().any(|agent| agent.kind_name() == "ensemble")
        || ensemble
            .tools
            .iter()
            .any(|(_, tool)| matches!(tool.kind, ToolKind::Ensemble { .. }));
    let (tool, member) = name
        .split_once('.')
        .map_or((name, None), |(tool, member)| (tool, Some(member)));
    let is_server = |tool: &ToolDefinition| matches!(tool.kind, ToolKind::Mcp(_));
    let tool_definition = ensemble.find_tool(tool);
    // The address of a call, which is checked when the call is asked for.
    let is_address = name.contains('#') && name.parse::<RequestAddress>().is_ok();
    has_nested_ensembles
        || is_address
        || name == "*"
        || is_external_agent_name(ensemble, name)
        || tool_definition.is_some_and(|tool| member.is_none() || is_server(tool))
}

/// Checks that permissions name existing tools. `is_denied` selects the error message: denials instead of permissions.
///
/// # Errors
///
/// The first unknown name.
pub(crate) fn check_permission_names(allowed: &[String], is_denied: bool, ensemble: &Ensemble) -> Result<(), RunError> {
    match allowed.iter().find(|name| !is_possible_permission_name(name, ensemble)) {
        Some(name) => {
            let externals = ensemble.agents.iter().filter(|agent| agent.kind_name() == "acp");
            let tools = ensemble.tools.iter().map(|(name, _)| &**name);
            let names: Vec<&str> = tools.chain(externals.map(|agent| &*agent.name)).collect();
            Err(RunError::NoTool {
                tool: name.clone(),
                is_denied,
                similar: find_similar_word(name, names.iter().copied()).map(str::to_owned),
                tools: names.into_iter().map(str::to_owned).collect(),
            })
        }
        None => Ok(()),
    }
}

/// Returns whether the name is that of an external agent, or of a kind of its tools (`coder.edit`).
fn is_external_agent_name(ensemble: &Ensemble, name: &str) -> bool {
    let of_agent = |agent: &Agent| {
        let suffix = name.strip_prefix(&*agent.name);
        let kind = suffix.and_then(|rest| rest.strip_prefix('.'));
        suffix == Some("") || kind.is_some_and(|kind| AcpToolKind::ALL.iter().any(|(word, _)| *word == kind))
    };
    let mut externals = ensemble.agents.iter().filter(|agent| agent.kind_name() == "acp");
    externals.any(of_agent)
}
