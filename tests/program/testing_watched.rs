//! `test --watch` through the binary, with real changes of files.

use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};

use crate::support::{Running, Workspace, eventually};

/// The program while it watches, and what it has printed.
struct Watching {
    running: Running,
    printed: Arc<Mutex<String>>,
    /// How much of it was examined.
    seen: usize,
}

impl Watching {
    fn start(workspace: &Workspace, arguments: &[&str]) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        // Both streams in one pipe keep their order.
        let child = workspace
            .command(["test", "--watch"].iter().chain(arguments))
            .stdout(writer.try_clone().expect("the pipe can be shared"))
            .stderr(writer)
            .spawn();
        let printed = Arc::<Mutex<String>>::default();
        let kept = printed.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                let mut printed = kept.lock().expect("no test has panicked here");
                printed.push_str(&line);
                printed.push('\n');
            }
        });
        Self {
            running: Running(child.expect("the program starts")),
            printed,
            seen: 0,
        }
    }

    /// What was printed until it waits for a change again.
    fn round(&mut self) -> String {
        let end = "; Ctrl-C ends the command\n";
        let (text, seen) = eventually("the next round", || {
            let printed = self.printed.lock().expect("no test has panicked here");
            let new = &printed[self.seen..];
            let end = new.find(end)? + end.len();
            Some((new[..end].to_owned(), self.seen + end))
        });
        self.seen = seen;
        text
    }
}

const RUN_BY_SCRIPT: &str = "name: NAME\nagents: [{name: a, script: NAME/say.rhai}]\n";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for name in ["one", "two"] {
        workspace.write(&format!("{name}.yaml"), RUN_BY_SCRIPT.replace("NAME", name));
        workspace.write(&format!("{name}/say.rhai"), "#{said: 1}");
        workspace.write(
            &format!("{name}.test.yaml"),
            "cases: [{name: says, expect: {outputs: {a: {said: 1}}}}]\n",
        );
    }
    workspace
}

#[test]
fn a_change_tries_the_files_again_on_which_it_has_an_effect() {
    let workspace = workspace();
    let mut watching = Watching::start(&workspace, &[]);
    let first = watching.round();
    assert!(first.contains("2 cases: 2 passed, 0 failed"), "{first}");
    let rows = [
        (
            "one/say.rhai",
            "#{said: 2}",
            "changed: one/say.rhai",
            "FAIL ./one.test.yaml: says",
        ),
        (
            "one/say.rhai",
            "#{said: 1}",
            "changed: one/say.rhai",
            "PASS ./one.test.yaml: says",
        ),
        (
            "two.test.yaml",
            "cases: [{name: says, expect: {outputs: {a: {said: 3}}}}]\n",
            "changed: two.test.yaml",
            "FAIL ./two.test.yaml: says",
        ),
        (
            "two.yaml",
            "name: two\nagents: [{name: a, script: other.rhai}]\n",
            "changed: two.yaml",
            "FAIL ./two.test.yaml: says",
        ),
        // A script that was not there.
        (
            "other.rhai",
            "#{said: 3}",
            "changed: other.rhai",
            "PASS ./two.test.yaml: says",
        ),
    ];
    for (file, text, changed, told) in rows {
        workspace.write(file, text);
        let round = watching.round();
        assert!(round.contains(changed) && round.contains(told), "{file}: {round}");
        assert!(round.contains("1 case: "), "only one file is tried: {round}");
    }
    watching.running.signal("INT");
    let ended = watching.running.0.wait().expect("it ends");
    assert_eq!(ended.code(), Some(130));
    eventually("the last words", || {
        let printed = watching.printed.lock().expect("no test has panicked here");
        printed.ends_with("watching has ended\n").then_some(())
    });
}

#[test]
fn a_broken_file_does_not_end_it_and_profiles_and_new_files_count() {
    let workspace = workspace();
    workspace.write(
        ".ensemble/config.yaml",
        "model_profiles: {p: {provider: simulated, replies: [a]}}\n",
    );
    workspace.write("two.yaml", "name: two\nagents: [{name: a, model_profile: p}]\n");
    workspace.write("two.test.yaml", "cases: [{name: says, expect: {outputs: {a: a}}}]\n");
    let mut watching = Watching::start(&workspace, &[]);
    let first = watching.round();
    assert!(first.contains("2 cases: 2 passed"), "{first}");
    workspace.write("one.test.yaml", "cases: []\n");
    let broken = watching.round();
    assert!(broken.contains("error[E018]"), "{broken}");
    workspace.write(
        "one.test.yaml",
        "cases: [{name: again, expect: {outputs: {a: {said: 1}}}}]\n",
    );
    let mended = watching.round();
    assert!(mended.contains("PASS ./one.test.yaml: again"), "{mended}");
    workspace.write(
        ".ensemble/config.yaml",
        "model_profiles: {p: {provider: simulated, replies: [b]}}\n",
    );
    // All tests of the project can use it.
    let round = watching.round();
    assert!(round.contains("FAIL ./two.test.yaml: says"), "{round}");
    workspace.write(
        "three.test.yaml",
        "ensemble: one.yaml\ncases: [{name: new, expect: {outcome: completed}}]\n",
    );
    let new = watching.round();
    assert!(
        new.contains("new: ./three.test.yaml") && new.contains("PASS ./three.test.yaml: new"),
        "{new}"
    );
    watching.running.signal("TERM");
    assert_eq!(watching.running.0.wait().expect("it ends").code(), Some(143));
    workspace.run(["test", "--watch", "--update"]).expect_code(2);
    workspace.run(["test", "--watch", "nothing"]).expect_code(2);
}
