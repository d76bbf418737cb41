//! The program that is meant, and what it needs to run.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

/// A project with the ensemble file in a folder of its own.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        for name in ["ensembles", "scripts"] {
            fs::create_dir(folder.path().join(name)).expect("created");
        }
        Self(folder)
    }

    fn places(&self) -> ScriptFolders {
        ScriptFolders {
            ensemble_dir: self.path("ensembles"),
            project_root: self.0.path().to_owned(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permitted");
        path
    }

    fn resolved(&self, script: &str) -> ResolvedScript {
        resolve_script(script, &self.places()).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn unavailable(&self, script: &str) -> ScriptLookupError {
        resolve_script(script, &self.places()).expect_err(script)
    }
}

fn invocation(program: impl Into<PathBuf>, arguments: &[&str]) -> ResolvedScript {
    resolved_process(program, arguments.iter().map(OsString::from).collect())
}

fn shell(line: &str) -> ResolvedScript {
    invocation("sh", &["-c", line])
}

#[test]
fn a_script_is_sought_beside_the_ensemble_then_in_the_root_then_in_scripts() {
    let project = Project::new();
    for folder in ["scripts/", "", "ensembles/"] {
        let path = project.write(&format!("{folder}a.rhai"), "1", 0o644);
        assert_eq!(project.resolved("a.rhai"), ResolvedScript::Rhai(path));
    }
    let other = TempDir::new().expect("a folder");
    let absolute = other.path().join("b.rhai");
    fs::write(&absolute, "1").expect("written");
    assert_eq!(
        project.resolved(&absolute.to_string_lossy()),
        ResolvedScript::Rhai(absolute)
    );
}

#[test]
fn a_run_needs_the_first_word_of_a_script() {
    let project = Project::new();
    project.write("here.sh", "true", 0o755);
    let rows = [
        ("./here.sh | cat", None),
        ("./gone.sh | cat", Some(true)),
        ("no-such-program | cat", Some(false)),
        ("no-such-program", Some(false)),
        ("gone.rhai", Some(true)),
        ("X=1 no-such-program", None),
        ("exit 3", None),
        ("if true; then echo; fi", None),
        ("f() { echo; }; f", None),
        ("> out.txt echo", None),
        ("$PROGRAM x", None),
        ("python3 gone.py", None),
    ];
    for (script, missing_file) in rows {
        let found = resolve_needed_program(script, &project.places());
        assert_eq!(found.err().map(|error| error.is_missing_file), missing_file, "{script}");
    }
}

#[test]
fn a_line_with_arguments_needs_a_shell_only_outside_of_quotes() {
    let project = Project::new();
    let resolved = |script: &str| resolve_script_for_args(script, &project.places());
    assert_eq!(
        resolved("sh -c 'echo \"$1\"' zero"),
        Ok(invocation("sh", &["-c", "echo \"$1\"", "zero"]))
    );
    assert_eq!(
        resolved("echo \"$1\" | cat"),
        Ok(invocation("sh", &["-c", "echo \"$1\" | cat", "sh"]))
    );
    assert_eq!(resolved("echo a"), Ok(invocation("echo", &["a"])));
    for unused in ["echo $HOME", "echo a | cat", "echo \"$0\" > x"] {
        let error = resolved(unused).expect_err(unused);
        assert!(error.message.contains("does not use its `args`"), "{error}");
        assert_eq!(find_unused_arguments_error(unused, &project.places()), Some(error));
    }
    assert_eq!(find_unused_arguments_error("no-such-program", &project.places()), None);
}

#[test]
fn the_extension_says_how_a_file_is_run() {
    let project = Project::new();
    let shell_script = project.write("scripts/a.sh", "#!/bin/false\n", 0o755);
    let program = project.write("scripts/tool", "#!/bin/sh\n", 0o755);
    let named = project.write("scripts/my tool (1).sh", "", 0o644);
    assert_eq!(
        project.resolved("a.sh"),
        invocation("sh", &[&shell_script.to_string_lossy()])
    );
    assert_eq!(project.resolved("scripts/a.sh -v 'x y'"), {
        invocation("sh", &[&shell_script.to_string_lossy(), "-v", "x y"])
    });
    assert_eq!(project.resolved("tool"), invocation(&program, &[]));
    assert_eq!(project.resolved(" tool  --x\n"), invocation(&program, &["--x"]));
    assert_eq!(
        project.resolved("my tool (1).sh"),
        invocation("sh", &[&named.to_string_lossy()])
    );
    assert_eq!(ScriptKind::from_extension(Path::new("a/b.py")), ScriptKind::Python);
    assert_eq!(ScriptKind::from_extension(Path::new("a/b.js")), ScriptKind::JavaScript);
    assert_eq!(ScriptKind::from_extension(Path::new("a.py/b")), ScriptKind::Program);
}

#[test]
fn an_interpreter_that_is_not_installed_is_named() {
    let places = Project::new().places();
    let unavailable =
        resolve_interpreted_script("no-such-python", Vec::new(), "a.py", &places).expect_err("unavailable");
    assert_eq!(
        unavailable.to_string(),
        "no-such-python is not installed or not on PATH, and `a.py` needs it; \
         install no-such-python, or write the script in Rhai, which needs nothing installed"
    );
}

#[test]
fn a_command_line_is_run_without_a_shell_where_none_is_needed() {
    let project = Project::new();
    assert_eq!(project.resolved("true"), invocation("true", &[]));
    assert_eq!(
        project.resolved("head -n 1 'a b' \"c\""),
        invocation("head", &["-n", "1", "a b", "c"])
    );
    assert_eq!(project.resolved("head --lines=1"), invocation("head", &["--lines=1"]));
}

#[test]
fn a_shell_runs_what_only_a_shell_understands() {
    let project = Project::new();
    for line in [
        "cat | head",
        "true && false",
        "a; b",
        "cat < in > out",
        "echo $HOME",
        "echo `date`",
        "ls *.txt",
        "ls ?",
        "(true)",
        "ls ~",
        "true # comment",
        "true\nfalse",
        "NAME=value env",
        "_N1= env",
        "exit 3",
        "! true",
    ] {
        assert_eq!(project.resolved(line), shell(line));
    }
    assert_eq!(project.resolved("cat | head\n"), shell("cat | head"));
}

#[test]
fn a_file_comes_before_a_command_unless_it_cannot_be_run() {
    let project = Project::new();
    project.write("true", "no program", 0o644);
    assert_eq!(project.resolved("true"), invocation("true", &[]));
    assert_eq!(project.resolved("true --x"), invocation("true", &["--x"]));
    let own = project.write("scripts/true", "#!/bin/sh\n", 0o755);
    fs::remove_file(project.path("true")).expect("removed");
    assert_eq!(project.resolved("true --x"), invocation(&own, &["--x"]));
    let exit = project.write("scripts/exit", "#!/bin/sh\n", 0o755);
    assert_eq!(project.resolved("exit 3"), invocation(&exit, &["3"]));
}

#[test]
fn what_is_missing_is_told_with_every_place() {
    let project = Project::new();
    for script in ["gone.rhai", "gone.sh --x", "./gone", "sub/gone -v"] {
        let unavailable = project.unavailable(script);
        let name = script.split(' ').next().unwrap_or_default().trim_start_matches("./");
        assert!(unavailable.message.starts_with("there is no file"), "{unavailable}");
        for place in ["ensembles/", "", "scripts/"] {
            let path = project.path(&format!("{place}{name}"));
            assert!(
                unavailable.message.contains(&format!("`{}`", path.display())),
                "{unavailable}"
            );
        }
        assert!(!unavailable.message.contains("PATH"), "{unavailable}");
    }
    let unavailable = project.unavailable("no-such-command-anywhere --x");
    assert!(
        unavailable.message.contains("neither a file nor a command"),
        "{unavailable}"
    );
    assert!(
        unavailable.message.contains("scripts/no-such-command-anywhere`"),
        "{unavailable}"
    );
    assert!(unavailable.message.contains("PATH"), "{unavailable}");
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let project = Project::new();
    project.write("scripts/tool.rb", "", 0o644);
    project.write("scripts/a tool", "", 0o644);
    project.write("scripts/a.rhai", "", 0o644);
    for (script, message, help) in [
        ("tool.rb", "`scripts/tool.rb` is not executable", "chmod +x"),
        ("tool.rb --x", "`scripts/tool.rb` is not executable", "chmod +x"),
        ("a tool", "`scripts/a tool` is not executable", "chmod +x"),
        ("a.rhai --x", "can take none", "`config`"),
        ("./scripts", "is a folder", "file in it"),
        (" \n", "blank", "name a file"),
        ("echo 'open", "left open", "close"),
    ] {
        let unavailable = project.unavailable(script);
        assert!(unavailable.message.contains(message), "{script}: {unavailable}");
        assert!(unavailable.help.contains(help), "{script}: {unavailable}");
    }
}
