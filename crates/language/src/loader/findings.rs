//! The findings about one file so far, up to a limit.

use crate::diagnostic::{Finding, FindingSeverity};

/// The maximum number of findings for one file. Further findings are only counted.
pub const MAX_FINDINGS: usize = 100;

/// The findings of one file so far, up to a limit.
#[derive(Debug, Default)]
pub(super) struct LimitedFindingList {
    list: Vec<Finding>,
    errors: usize,
    dropped: usize,
}

impl LimitedFindingList {
    /// Adds a finding, or only counts it beyond the limit.
    pub(super) fn push(&mut self, finding: Finding) {
        self.errors += usize::from(finding.severity == FindingSeverity::Error);
        if self.list.len() < MAX_FINDINGS {
            self.list.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds an error whose message is expensive to create. Beyond the limit, only counts the error.
    pub(super) fn push_error(&mut self, finding: impl FnOnce() -> Finding) {
        if self.list.len() < MAX_FINDINGS {
            self.push(finding());
        } else {
            self.errors += 1;
            self.dropped += 1;
        }
    }

    /// Returns whether no errors were added.
    pub(super) fn has_no_errors(&self) -> bool {
        self.errors == 0
    }

    /// Returns all findings. The help of the last one contains the number of findings that were only counted.
    pub(super) fn into_list(mut self) -> Vec<Finding> {
        if self.dropped > 0
            && let Some(last) = self.list.last_mut()
        {
            let more = format!("further findings of this file that are not shown: {}", self.dropped);
            last.help = Some(last.help.take().map_or(more.clone(), |help| format!("{help}\n{more}")));
        }
        self.list
    }
}
