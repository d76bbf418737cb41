//! The findings about one file so far, up to a limit.

use crate::diagnostic::{Finding, FindingSeverity};

/// The highest number of findings for one file; further findings are only counted.
pub const MAX_FINDINGS: usize = 100;

/// The findings of one file so far.
#[derive(Debug, Default)]
pub(super) struct LimitedFindingList {
    list: Vec<Finding>,
    errors: usize,
    dropped: usize,
}

impl LimitedFindingList {
    /// Adds a finding.
    pub(super) fn push(&mut self, finding: Finding) {
        self.errors += usize::from(finding.severity == FindingSeverity::Error);
        if self.list.len() < MAX_FINDINGS {
            self.list.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds an error whose message is expensive to create; beyond the limit it is only counted.
    pub(super) fn push_error(&mut self, finding: impl FnOnce() -> Finding) {
        if self.list.len() < MAX_FINDINGS {
            self.push(finding());
        } else {
            self.errors += 1;
            self.dropped += 1;
        }
    }

    /// Returns whether there are no errors.
    pub(super) fn has_no_errors(&self) -> bool {
        self.errors == 0
    }

    /// Returns all findings; if some were only counted, the last one contains their number.
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
