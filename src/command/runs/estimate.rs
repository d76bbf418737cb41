//! `ensemble estimate`: tokens, cost and time of a run, or of the next message of a run, estimated from a recorded run.

use std::sync::Arc;

use super::batches::print_batch_estimate;
use super::next_message::{LastMessage, add_thread_growth};
use super::{find_batch, load_record};
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_history::AgentTotals;
use ensemble_language::ensemble::{Agent, AgentKind};
use ensemble_language::loader::{ComparedEnsemble, compare_ensembles};
use ensemble_language::profiles::ModelProfiles;
use ensemble_project::prepare::collect_profiles;
use ensemble_reports::report::story::{
    AgentEstimate, NextMessageEstimate, RememberedThread, RunEstimate, estimate_to_json, render_estimate as told,
};
use ensemble_runs::{EnsembleRef, PreparedEnsemble};

/// `ensemble estimate`.
#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// The ensemble to estimate: a file, or the name of an ensemble
    #[arg(value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: String,
    /// Base the estimate on this recorded run, or on the rows of this batch
    #[arg(long, value_name = "RUN|BATCH", add = completions::complete_runs(), required_unless_present = "last")]
    pub from: Option<String>,
    /// Base the estimate on the latest run
    #[arg(long, conflicts_with = "from")]
    pub last: bool,
    /// Estimate the next message of the recorded run, with the threads that its agents keep
    #[arg(long)]
    pub next_message: bool,
    /// Choose the output format
    #[arg(long, alias = "format", value_enum, default_value_t = DocumentFormat::Human, value_name = "FORM")]
    pub output: DocumentFormat,
}

/// Prints the expected tokens, cost and time of a run, from a recorded run or a batch (`ensemble estimate`).
pub(crate) fn print_estimate(args: &EstimateArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    if let Some(batch) = args
        .from
        .as_deref()
        .map(|from| find_batch(from, surroundings))
        .transpose()?
        .flatten()
    {
        if args.next_message {
            let message = "--next-message needs a run, and not a batch";
            return Err(CliError::usage_error_with_help(message, "name the run of a row"));
        }
        let as_json = args.output == DocumentFormat::Json;
        return print_batch_estimate(&args.ensemble, &batch, as_json, surroundings);
    }
    let width = surroundings.streams.out_width();
    let text = block_on(estimate_and_render(
        &args.ensemble,
        args.from.as_deref(),
        args.next_message,
        surroundings,
        |estimate| match args.output {
            DocumentFormat::Human => told(estimate, width),
            DocumentFormat::Json => format!("{:#}\n", estimate_to_json(estimate)),
        },
    ))?;
    surroundings.print_out_in_format(args.output, &text);
    Ok(exit::SUCCESS)
}

/// Builds the estimate of an ensemble from the record `from`, or from the latest run, as JSON.
pub(crate) async fn build_estimate_json(
    ensemble: &str,
    from: Option<&str>,
    surroundings: &CliEnvironment,
) -> Result<serde_json::Value, CliError> {
    estimate_and_render(ensemble, from, false, surroundings, estimate_to_json).await
}

/// Estimates the ensemble from a record, and passes the estimate to `told`. Returns the result of `told`.
/// With `is_next_message`, estimates the next message of the recorded run.
async fn estimate_and_render<T>(
    ensemble: &str,
    from: Option<&str>,
    is_next_message: bool,
    surroundings: &CliEnvironment,
    told: impl FnOnce(&RunEstimate<'_>) -> T,
) -> Result<T, CliError> {
    let path = surroundings.project.resolve_ensemble_file(ensemble)?;
    let planned = surroundings
        .runs_without_operator()
        .load_prepared_ensemble(&EnsembleRef::from_file_or_name(ensemble))?;
    let last_message = match is_next_message {
        true => Some(LastMessage::load(from, surroundings).await?),
        false => None,
    };
    let opened = load_record(from, surroundings).await?;
    let (state, story) = (opened.run_state(), opened.story);
    let recorded = opened.prepared;
    let totals = match &last_message {
        Some(last) => last.totals.clone(),
        None => story.history.run_totals(),
    };
    let prices = collect_profiles(
        planned.plan.ensemble(),
        &planned.folder,
        Vec::new(),
        &surroundings.project,
    )?;
    let kept_threads: Vec<(Arc<str>, RememberedThread)> = last_message
        .iter()
        .flat_map(|last| {
            let agents = planned.plan.ensemble().agents.iter();
            agents.filter_map(|agent| Some((agent.name.clone(), last.measure_kept_thread(agent, &prices)?)))
        })
        .collect();
    let estimate = RunEstimate {
        ensemble: &path.display().to_string(),
        story: &story,
        state,
        agents: estimate_agents(&planned, recorded.as_ref(), &|name| {
            let mut agent = totals.agents.get(name).copied()?;
            if last_message.is_some() {
                let kept = kept_threads.iter().find(|(keeper, _)| **keeper == *name);
                agent = add_thread_growth(agent, kept.map(|(_, kept)| kept));
            }
            Some(apply_current_price(
                agent,
                planned.plan.ensemble().find_agent(name),
                &prices,
            ))
        }),
        removed_agents: totals
            .agents
            .keys()
            .filter(|name| planned.plan.find_agent_id(name).is_none())
            .cloned()
            .collect(),
        recorded_totals: &totals,
        next_message: last_message.as_ref().map(|last| NextMessageEstimate {
            first_turn: last.first_turn,
            kept_threads: kept_threads.clone(),
        }),
        can_compare: recorded.is_some(),
    };
    Ok(told(&estimate))
}

/// Replaces the cost by the usage at the current price of the agent's profile. Keeps the recorded cost without a price.
fn apply_current_price(mut totals: AgentTotals, agent: Option<&Agent>, profiles: &ModelProfiles) -> AgentTotals {
    let Some(AgentKind::Llm(llm)) = agent.map(|agent| &agent.kind) else {
        return totals;
    };
    let resolved = profiles.resolve_chain(&llm.model).ok();
    let price = resolved.and_then(|resolved| resolved.chain.first()?.profile.cost);
    let usage = &mut totals.usage;
    usage.cost = price.map(|price| price.cost_for_usage(usage)).or(usage.cost);
    totals
}

/// Estimates each agent of the planned file. `share` returns the recorded totals of an agent.
fn estimate_agents(
    planned: &PreparedEnsemble,
    recorded: Option<&PreparedEnsemble>,
    share: &dyn Fn(&str) -> Option<AgentTotals>,
) -> Vec<(Arc<str>, AgentEstimate)> {
    let documents = planned.loaded.document.as_ref();
    let documents = documents.zip(recorded.and_then(|recorded| recorded.loaded.document.as_ref()));
    let changes = documents.map(|(planned, recorded)| {
        compare_ensembles(
            ComparedEnsemble::from_text(recorded),
            ComparedEnsemble::from_text(planned),
        )
    });
    let agents = planned.plan.ensemble().agents.iter().map(|agent| {
        let name = &agent.name;
        let was_there = recorded.is_none_or(|recorded| recorded.plan.find_agent_id(name).is_some());
        let is_same = changes.as_ref().is_none_or(|changes| !changes.invalidates_agent(name));
        let estimate = match (share(name), was_there, is_same) {
            (Some(share), true, true) => AgentEstimate::Ran(share),
            (share, true, false) => AgentEstimate::Changed(share.unwrap_or_default()),
            (None, true, true) => AgentEstimate::Idle,
            (_, false, _) => AgentEstimate::New,
        };
        (name.clone(), estimate)
    });
    agents.collect()
}
