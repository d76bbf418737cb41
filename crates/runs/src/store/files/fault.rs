//! Deliberate faults: the process kills itself at a chosen append, to test crashes.
//!
//! Only builds for tests have faults.
//!
//! Appends are counted over all journals of the process, including those of nested runs.

#[cfg(debug_assertions)]
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fault that kills the process at an append with this number, at a point of the append.
#[cfg_attr(not(debug_assertions), expect(unreachable_pub, reason = "only tests name a fault"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendFault {
    point: AppendFaultPoint,
    /// The append, from 1.
    append: u64,
}

/// A point of an append at which the process can be killed.
#[cfg_attr(not(debug_assertions), expect(dead_code, reason = "only tests have faults"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppendFaultPoint {
    /// Nothing of the record is written.
    Before,
    /// Half of it is.
    Torn,
    /// The whole record is written. No effect or report has followed.
    Written,
    /// The record is applied, reported and synced, and no further work has started.
    Synced,
}

static ARMED: OnceLock<AppendFault> = OnceLock::new();
static APPENDS: AtomicU64 = AtomicU64::new(0);

#[cfg(debug_assertions)]
impl AppendFault {
    /// Sets this fault for the process. Only the first call has an effect.
    pub fn arm_for_process(self) {
        // The first one counts.
        let _ = ARMED.set(self);
    }
}

#[cfg(debug_assertions)]
/// `torn:17`: in the middle of the 17th append.
impl FromStr for AppendFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not one of before:N, torn:N, written:N and synced:N, with N from 1");
        let (point, append) = text.split_once(':').ok_or_else(wrong)?;
        let point = match point {
            "before" => AppendFaultPoint::Before,
            "torn" => AppendFaultPoint::Torn,
            "written" => AppendFaultPoint::Written,
            "synced" => AppendFaultPoint::Synced,
            _ => return Err(wrong()),
        };
        match append.parse() {
            Ok(append @ 1..) => Ok(Self { point, append }),
            _ => Err(wrong()),
        }
    }
}

/// Returns whether the process has a fault, now or at a later append.
pub(crate) fn is_fault_armed() -> bool {
    ARMED.get().is_some()
}

/// Counts an append, and returns the fault for this append, if any.
pub(crate) fn count_append_fault() -> Option<AppendFaultPoint> {
    let fault = ARMED.get()?;
    let append = APPENDS.fetch_add(1, Ordering::Relaxed) + 1;
    (append == fault.append).then_some(fault.point)
}

/// Kills this process immediately, without cleanup.
pub(crate) fn kill_own_process() -> ! {
    #[cfg(unix)]
    {
        use rustix::process::{Signal, getpid, kill_process};
        let _killed = kill_process(getpid(), Signal::KILL);
    }
    std::process::abort()
}
