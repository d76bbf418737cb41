//! The program from outside: commands, their output, exit codes and files. One module for each subject.

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

mod program {
    mod allowances;
    mod asked_safely;
    mod at_the_terminal;
    mod bad_input;
    mod cache;
    mod chat;
    mod check;
    mod completing;
    mod context_window;
    mod continue_and_fork;
    mod continuing;
    mod edited;
    mod edited_inputs;
    mod environment;
    mod explain;
    mod foreseen;
    mod format_versions;
    mod formats;
    mod graph;
    mod import;
    mod init;
    mod keys;
    mod large_outputs;
    mod latest;
    mod layout;
    mod limits;
    mod listing;
    mod live_events;
    mod lookback;
    mod man;
    mod mcp;
    mod messages;
    mod model_ends;
    mod model_pace;
    mod model_reasoning;
    mod model_replies;
    mod model_requests;
    mod models;
    mod parts;
    mod private_files;
    mod providers;
    mod runs;
    mod sandbox;
    mod scripts;
    mod searching;
    mod settings;
    mod showing;
    mod shown_from_afar;
    mod shown_safely;
    mod side_by_side;
    mod special_files;
    mod started_in;
    mod stories;
    mod strays;
    mod sub_ensembles;
    mod tool_files;
    mod tools;
    mod trust;
    mod trust_owners;
    mod unwritten;
    mod validating;
}
