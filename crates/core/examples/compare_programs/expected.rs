//! Differences between two builds that are wanted.

/// A difference that is wanted.
struct Expected {
    /// Kinds of documents that begin with this text.
    kind: &'static str,
    /// Cases whose name contains this text.
    case: &'static str,
    /// A part of the place.
    place: &'static str,
    /// Returns whether the old value may become the new one.
    is_wanted: fn(&str, &str) -> bool,
    reason: &'static str,
}

fn is_new(old: &str, _: &str) -> bool {
    old == "null"
}

fn is_anything(_: &str, _: &str) -> bool {
    true
}

fn has_another_state(old: &str, new: &str) -> bool {
    old.replace("waiting_for_input", "waiting") == new
}

const STATE: &str = "every command has the same names of states";
const TOTALS: &str = "every command counts turns, executions and usage in the same way, and lists them";
const INTERRUPTED_USAGE: &str = "requests of interrupted executions count in every command";

/// The differences that are wanted. Empty this list when a new build becomes the old one.
const EXPECTED: &[Expected] = &[
    Expected {
        kind: "journals",
        case: "",
        place: ".data.definitions",
        is_wanted: is_new,
        reason: "a run records the definition of each agent, so that a later change of it is seen",
    },
    Expected {
        kind: "",
        case: "",
        place: ".state",
        is_wanted: is_new,
        reason: STATE,
    },
    Expected {
        kind: "runs show",
        case: "",
        place: ".stdout.state",
        is_wanted: is_anything,
        reason: STATE,
    },
    Expected {
        kind: "fixture, runs show",
        case: "",
        place: ".stdout.state",
        is_wanted: is_anything,
        reason: STATE,
    },
    Expected {
        kind: "",
        case: "",
        place: ".stdout",
        is_wanted: has_another_state,
        reason: STATE,
    },
    Expected {
        kind: "",
        case: "",
        place: ".stdout.turn_count",
        is_wanted: is_new,
        reason: TOTALS,
    },
    Expected {
        kind: "",
        case: "",
        place: ".stdout.executions",
        is_wanted: is_new,
        reason: TOTALS,
    },
    Expected {
        kind: "",
        case: "",
        place: ".stdout.failed",
        is_wanted: is_new,
        reason: TOTALS,
    },
    Expected {
        kind: "runs list",
        case: "",
        place: ".usage",
        is_wanted: is_new,
        reason: TOTALS,
    },
    Expected {
        kind: "estimate",
        case: "permission",
        place: "usage",
        is_wanted: is_anything,
        reason: INTERRUPTED_USAGE,
    },
    Expected {
        kind: "runs show",
        case: "permission",
        place: "usage",
        is_wanted: is_anything,
        reason: INTERRUPTED_USAGE,
    },
    Expected {
        kind: "runs export, markdown",
        case: "permission",
        place: ".stdout",
        is_wanted: is_anything,
        reason: INTERRUPTED_USAGE,
    },
];

/// Returns the reason for a difference, or `None` if it is not wanted.
pub(crate) fn find_reason(kind: &str, case: &str, place: &str, [old, new]: &[String; 2]) -> Option<&'static str> {
    let is_it = |expected: &&Expected| {
        kind.starts_with(expected.kind)
            && case.contains(expected.case)
            && place.contains(expected.place)
            && (expected.is_wanted)(old, new)
    };
    EXPECTED.iter().find(is_it).map(|expected| expected.reason)
}
