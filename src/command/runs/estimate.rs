//! `ensemble estimate`: tokens, cost and time of a run, estimated from a recorded run.

use super::opened;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::OutputForm;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use clap::Args;
use ensemble_history::AgentTotals;
use ensemble_language::ensemble::{Agent, AgentKind};
use ensemble_language::loader::{Side, changes};
use ensemble_language::profiles::Profiles;
use ensemble_project::prepare::profiles;
use ensemble_reports::report::story::{Estimate, Known, estimate as told, estimate_document};
use ensemble_runs::{EnsembleRef, Prepared};

/// `ensemble estimate`.
#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// The ensemble to run: a file, or the name of an ensemble
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: String,
    /// The recorded run that the estimate is based on
    #[arg(long, value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
    pub from: Option<String>,
    /// Base the estimate on the latest run
    #[arg(long, conflicts_with = "from")]
    pub last: bool,
    /// The output format
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}

/// `ensemble estimate`.
pub(crate) fn estimate(args: &EstimateArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let width = surroundings.streams.out_width();
    let text = block_on(estimated(
        &args.ensemble,
        args.from.as_deref(),
        surroundings,
        |estimate| match args.output {
            OutputForm::Human => told(estimate, width),
            OutputForm::Json => format!("{:#}\n", estimate_document(estimate)),
        },
    ))?;
    surroundings.print_as(args.output, &text);
    Ok(exit::SUCCESS)
}

/// The estimate of an ensemble from a record, or from the latest run, as a document.
pub(crate) async fn document(
    ensemble: &str,
    from: Option<&str>,
    surroundings: &Surroundings,
) -> Result<serde_json::Value, CliError> {
    estimated(ensemble, from, surroundings, estimate_document).await
}

async fn estimated<T>(
    ensemble: &str,
    from: Option<&str>,
    surroundings: &Surroundings,
    told: impl FnOnce(&Estimate<'_>) -> T,
) -> Result<T, CliError> {
    let path = surroundings.project.ensemble_file(ensemble)?;
    let planned = surroundings.runs().prepare(&EnsembleRef::file(ensemble))?;
    let opened = opened(from, surroundings).await?;
    let (state, story) = (opened.state(), opened.story);
    let recorded = opened.prepared;
    let totals = story.history.totals();
    let prices = profiles(
        planned.plan.ensemble(),
        &planned.folder,
        Vec::new(),
        &surroundings.project,
    )?;
    let estimate = Estimate {
        ensemble: &path.display().to_string(),
        story: &story,
        state,
        agents: known(&planned, recorded.as_ref(), &|name| {
            let agent = totals.agents.get(name).copied()?;
            Some(priced(agent, planned.plan.ensemble().agent(name), &prices))
        }),
        gone: totals
            .agents
            .keys()
            .filter(|name| planned.plan.id(name).is_none())
            .cloned()
            .collect(),
        recorded: &totals,
        compared: recorded.is_some(),
    };
    Ok(told(&estimate))
}

/// The usage at the current price of the agent's profile; without a price, the recorded cost.
fn priced(mut totals: AgentTotals, agent: Option<&Agent>, profiles: &Profiles) -> AgentTotals {
    let Some(AgentKind::Llm(llm)) = agent.map(|agent| &agent.kind) else {
        return totals;
    };
    let resolved = profiles.resolve(&llm.model).ok();
    let price = resolved.and_then(|resolved| resolved.chain.first()?.profile.cost);
    let usage = &mut totals.usage;
    usage.cost = price.map(|price| price.of(usage)).or(usage.cost);
    totals
}

/// Each agent of the file, with its data in the recorded run.
fn known(
    planned: &Prepared,
    recorded: Option<&Prepared>,
    share: &dyn Fn(&str) -> Option<AgentTotals>,
) -> Vec<(std::sync::Arc<str>, Known)> {
    let documents = planned.loaded.document.as_ref();
    let documents = documents.zip(recorded.and_then(|recorded| recorded.loaded.document.as_ref()));
    let changes = documents.map(|(planned, recorded)| changes(Side::of_text(recorded), Side::of_text(planned)));
    let agents = planned.plan.ensemble().agents.iter().map(|agent| {
        let name = &agent.name;
        let was_there = recorded.is_none_or(|recorded| recorded.plan.id(name).is_some());
        let is_same = changes.as_ref().is_none_or(|changes| !changes.concern(name));
        let known = match (share(name), was_there, is_same) {
            (Some(share), true, true) => Known::Ran(share),
            (share, true, false) => Known::Changed(share.unwrap_or_default()),
            (None, true, true) => Known::Idle,
            (_, false, _) => Known::New,
        };
        (name.clone(), known)
    });
    agents.collect()
}
