//! Only a few files know the standard streams, so that no report goes round the door of `docs/security.md`.

use std::collections::BTreeSet;

use super::sources::files;

const STREAMS: &str = "src/terminal/streams.rs";
/// The process of a sandbox, whose stderr is a pipe to the run.
const IN_A_SANDBOX: &str = "crates/process/src/confine/helper.rs";
const SPINNER: &str = "crates/reports/src/report/console/spinner.rs";

/// What reaches a terminal or signs a text without the door, and the files that use it.
const AROUND: [(&str, &[&str]); 9] = [
    // The built-in external agent, whose stdout is a pipe to the run.
    (
        "io::stdout(",
        &[
            "src/command/shared/simulated_agent.rs",
            STREAMS,
            "src/terminal/write_errors.rs",
        ],
    ),
    ("io::stderr(", &[STREAMS, IN_A_SANDBOX]),
    ("Term::stdout(", &[STREAMS]),
    ("Term::stderr(", &[STREAMS, SPINNER]),
    (
        "ProgressDrawTarget::stderr(",
        &["src/command/run/batch/progress.rs", "src/command/run/replay.rs"],
    ),
    ("ProgressDrawTarget::term_like(", &[SPINNER]),
    ("Stdio::inherit(", &[]),
    // Styles of a text that another crate has rendered.
    (
        "mark_styles_as_trusted(",
        &[
            "src/command/mod.rs",
            "crates/reports/src/report/diagnostics.rs",
            "crates/reports/src/report/sanitized_writer/mod.rs",
        ],
    ),
    (
        "mark_trusted_styles(",
        &[
            "crates/reports/src/report/sanitized_writer/trusted_style.rs",
            "crates/reports/src/report/sanitized_writer/mod.rs",
        ],
    ),
];

#[test]
fn only_these_files_reach_a_stream_without_the_door() {
    let files = files();
    for (call, known) in AROUND {
        let users = files.iter().filter(|file| file.text.contains(call));
        let users: BTreeSet<String> = users.map(|file| file.name()).collect();
        let known: BTreeSet<String> = known.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(users, known, "who calls `{call}…)`");
    }
}
