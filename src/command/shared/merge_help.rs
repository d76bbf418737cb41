//! The help texts for runs that cannot be merged.

use ensemble_core::conversation::RecordsMergeError;
use ensemble_runs::RunMergeError;

/// Returns the help text for an error in the merge of two runs.
pub(crate) fn merge_error_help(error: &RunMergeError) -> String {
    const SHARED: &str =
        "merge a run with a fork of the run: `ensemble fork RUN --at-turn N`, then `ensemble continue`";
    match error {
        RunMergeError::SameRun(_) => SHARED.to_owned(),
        RunMergeError::Running { .. } => "wait until the other process ends, or stop it".to_owned(),
        RunMergeError::Records(error) => match error {
            RecordsMergeError::DifferentEnsembles { .. } => {
                "merge runs of one text of the ensemble; `ensemble continue --ensemble FILE` changes the text".to_owned()
            }
            RecordsMergeError::DifferentStart { .. } | RecordsMergeError::NoCommonBeginning { .. } => SHARED.to_owned(),
            RecordsMergeError::PartedInFirstMessage { .. } => {
                "a merge adds whole messages with their turns: fork at the last turn of a message, then `ensemble continue`"
                    .to_owned()
            }
            RecordsMergeError::NothingAdded { run, other } => {
                format!("`{other}` contains all messages of `{run}`: `ensemble continue {other}` continues both")
            }
            RecordsMergeError::AlreadyMerged { other, .. } => {
                format!("`ensemble continue {other}` adds a message to the merge")
            }
            RecordsMergeError::OpenRun { run, .. } => format!("`ensemble resume {run}` ends the last message"),
            _ => "`ensemble replay RUN` names the damaged record".to_owned(),
        },
    }
}
