//! `ensemble estimate`: what a run would take, from what a recorded one took.
use super::args::EstimateArgs;
use super::error::CliError;
use super::project::Surroundings;

/// `ensemble estimate`.
pub fn estimate(_args: &EstimateArgs, _surroundings: &Surroundings) -> Result<u8, CliError> {
    Err(CliError::usage("not yet"))
}
