//! `ensemble check`: explores all conversations that an ensemble can hold.

use super::args::{CheckArgs, OutputForm};
use super::error::CliError;
use super::exit;
use super::surroundings::Surroundings;
use ensemble_core::explore::{Budget, explore};
use ensemble_reports::report::exploration::{human, json};
use ensemble_runs::EnsembleRef;

/// `ensemble check`.
pub(super) fn check(args: &CheckArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let prepared = surroundings.runs().prepare(&EnsembleRef::file(&*args.ensemble))?;
    let budget = Budget {
        states: u64::from(args.max_states),
    };
    let found = explore(&prepared.plan, budget);
    let name = &prepared.plan.ensemble().name;
    surroundings.print(&match args.output {
        OutputForm::Human => human(name, &found),
        OutputForm::Json => json(name, &found),
    });
    Ok(exit::SUCCESS)
}
