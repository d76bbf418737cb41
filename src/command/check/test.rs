//! `ensemble test`: holds the conversations of test files, and compares them with what is expected.
//!
//! Files are tried on all cores; results are printed in the order of the files.

mod case;
mod coverage_picture;
mod dependencies;
mod files;
mod mutations;
mod report;
mod suggestions;
mod trial;
mod updates;
mod watch;

use crate::command::args::TestArgs;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::Surroundings;

/// `ensemble test`.
pub(crate) fn test(args: &TestArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    updates::allowed(args)?;
    match args.watch {
        true => watch::watch(args, surroundings),
        false => report::once(args, &files::test_files(args, surroundings)?, surroundings),
    }
}
