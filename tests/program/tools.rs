//! Tools and processes: what happens to them when a run is stopped or killed in the middle of a call.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use crate::support::exchange::tool_calls;
use crate::support::{Workspace, eventually};
use serde_json::json;

/// An agent that calls `quick`, then `hang`, which waits for a file called `go`.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("quick.sh", "echo quick >> performed.txt; echo fine");
    workspace.write(
        "hang.sh",
        "echo \"hang $ENSEMBLE_ATTEMPT\" >> performed.txt\nsleep 300 & echo $! > child.pid; echo $$ > tool.pid\n\
         if [ -e go ]; then kill $!; else wait; fi\necho went",
    );
    workspace.write(
        "a.yaml",
        "name: hanging\nagents:\n  - {name: a, model_profile: m, tools: [quick, hang]}\nmodel_profiles:\n  m:\n    \
         provider: simulated\n    script: sim.rhai\ntools:\n  quick: {script: quick.sh, parameters: {type: object}}\n  \
         hang: {script: hang.sh, parameters: {type: object}, timeout_seconds: 600}\n",
    );
    workspace.write(
        "sim.rhai",
        "let calls = 0;\nfor message in messages { calls += message.get(\"tool_calls\", []).len(); }\n\
         if calls == 0 { #{ tool_calls: [#{ name: \"quick\" }] } }\n\
         else if calls == 1 { #{ tool_calls: [#{ name: \"hang\" }] } }\nelse { \"done\" }",
    );
    workspace
}

fn dies(workspace: &Workspace, file: &str) {
    let pid = workspace.read(file);
    eventually(&format!("the end of {file}"), || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn stopping_or_killing_a_run_kills_its_tools_and_resume_calls_none_again() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("KILL", 137)] {
        let workspace = workspace();
        let running = workspace.spawn(["run", "a.yaml"]);
        eventually("the hanging tool", || {
            let text = std::fs::read_to_string(workspace.path().join("tool.pid")).ok()?;
            text.ends_with('\n').then_some(())
        });
        running.signal(signal);
        let stopped = running.finish().expect_code(code);
        if code != 137 {
            let told = "a was interrupted after 2 replies of its model; `ensemble resume` continues from there";
            assert!(stopped.stderr.contains(told), "{signal}: {}", stopped.stderr);
            assert!(!stopped.stderr.contains("never ran"), "{signal}: {}", stopped.stderr);
        }
        dies(&workspace, "tool.pid");
        dies(&workspace, "child.pid");
        workspace.write("go", "");
        let resumed = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
        let result = resumed.json();
        assert_eq!(result["final_state"]["response"], "done", "{signal}");
        assert_eq!(result["conversation_history"][0]["attempt"], 2, "{signal}");
        let performed = workspace.read("performed.txt");
        let performed: Vec<&str> = performed.lines().collect();
        assert_eq!(performed, ["quick", "hang 1"], "{signal}: no tool is called again");
        let journal = workspace.journal();
        let calls = tool_calls(&journal, "a", 1);
        assert_eq!(calls.len(), 3, "{signal}: {calls:?}");
        assert_eq!(calls[0][0]["result"], json!("fine"), "{signal}");
        let told = calls[1][0]["error"].as_str().expect("an error");
        assert!(
            told.contains("it is not known whether it has taken effect"),
            "{signal}: {told}"
        );
        let warning = &result["warnings"][0];
        assert!(
            warning
                .as_str()
                .is_some_and(|text| text.contains("call of `hang` was not repeated")),
            "{signal}: {warning}"
        );
    }
}
