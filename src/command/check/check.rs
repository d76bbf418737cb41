//! `ensemble check`: explores all conversations that an ensemble and its nested ensembles can have.

#![expect(
    clippy::disallowed_methods,
    reason = "the time of an exploration is bounded, and the exploration has no clock"
)]

use std::cell::Cell;
use std::time::Instant;

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_explore::{Exploration, ExplorationBudget, KnownNestedResults, explore_while_time_remains};
use ensemble_language::loader::codes::UNANSWERED;
use ensemble_project::nested::{LoadedNestedEnsemble, load_with_nested};
use ensemble_reports::report::diagnostics;
use ensemble_reports::report::exploration::{ExploredEnsemble, render_explorations, render_explorations_json};
use ensemble_runs::exploration::explore_with_nested;
use std::time::Duration;

/// `ensemble check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The ensemble: a file, or the name of an ensemble
    #[arg(value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: String,
    /// Choose the output format
    #[arg(long, alias = "format", value_enum, default_value_t = DocumentFormat::Human, value_name = "FORM")]
    pub output: DocumentFormat,
    /// Stop after this number of states, and report what was explored
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_states: u32,
    /// Stop after this total time for all files, and report what was explored
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub max_time: Duration,
    /// Explore runs in CI, where no user answers; warn of questions without an answer
    #[arg(long)]
    pub ci: bool,
}

/// Executes `ensemble check`: explores the ensemble and its nested ensembles, and prints their outcomes. Returns the exit code.
pub(crate) fn explore_and_print(args: &CheckArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let project = &surroundings.project;
    let path = project.resolve_ensemble_file(&args.ensemble)?;
    let (outer, inner, warnings) = load_with_nested(&path, project, args.ci, UNANSWERED)?;
    if !warnings.is_empty() {
        surroundings.print_err(&diagnostics::render_diagnostics(
            &warnings,
            surroundings.colors_on_stderr(),
        ));
    }
    // Each ensemble has an equal part of the time that is left.
    let start_time = Instant::now();
    let remaining_ensembles = Cell::new(u32::try_from(inner.len() + 1).unwrap_or(u32::MAX));
    let mut explore = |named: &LoadedNestedEnsemble, inside: &KnownNestedResults| {
        let now = Instant::now();
        let part = args.max_time.saturating_sub(now - start_time)
            / remaining_ensembles.replace(remaining_ensembles.get().saturating_sub(1).max(1));
        let has_time = || now.elapsed() < part;
        let budget = ExplorationBudget {
            states: u64::from(args.max_states),
            nobody_answers: args.ci,
            inside: Some(inside),
        };
        explore_while_time_remains(&named.prepared.plan, budget, &has_time)
    };
    let (of_outer, of_inner) = explore_with_nested(&outer, &inner, project, &mut explore);
    let explored = |(named, found): (&LoadedNestedEnsemble, Exploration)| {
        ExploredEnsemble::new(&named.prepared.plan, &named.path, found)
    };
    let outer = explored((&outer, of_outer));
    let inner: Vec<ExploredEnsemble> = inner.iter().zip(of_inner).map(explored).collect();
    let text = match args.output {
        DocumentFormat::Human => render_explorations(&outer, &inner),
        DocumentFormat::Json => render_explorations_json(&outer, &inner),
    };
    surroundings.print_out_in_format(args.output, &text);
    Ok(exit::SUCCESS)
}
