//! `ensemble test`: holds the conversations of test files, and compares them with what is expected.
//!
//! Files are tried on all cores; results are printed in the order of the files.

mod files;
mod mutating;
mod once;
mod suggesting;
mod tried;
mod trying;
mod updating;
mod watched;
mod watching;

use super::args::TestArgs;
use super::error::CliError;
use super::surroundings::Surroundings;

/// `ensemble test`.
pub(super) fn test(args: &TestArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    updating::allowed(args)?;
    match args.watch {
        true => watching::watch(args, surroundings),
        false => once::once(args, &files::test_files(args, surroundings)?, surroundings),
    }
}
