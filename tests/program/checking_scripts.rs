//! `validate --check-scripts`: interpreters parse the scripts that ensembles name, and execute nothing of them.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use super::following::{Row, expect};
use crate::support::Workspace;

#[test]
fn interpreters_parse_scripts_if_they_are_asked() {
    let of = |script: &str| format!("name: t\nagents:\n- {{name: a, script: {script}}}\n");
    let team: String = of("a.sh");
    let python: String = of("a.py");
    let by_hand: String = of("python3 tools/a.py");
    let direct: String = of("./go");
    let node: String = of("a.js");
    let rows: &[Row<'_>] = &[
        (&[("t.yaml", &team), ("a.sh", "echo\nif then\n")], &["E073 a.sh:2:1"]),
        (&[("t.yaml", &python), ("a.py", "x = 1\n  y = 2\n")], &["E073 a.py:2:2"]),
        (&[("t.yaml", &python), ("a.py", "return 1\n")], &["E073 a.py:1:1"]),
        (
            &[("t.yaml", &by_hand), ("tools/a.py", "def f(:\n")],
            &["E073 tools/a.py:1:7"],
        ),
        (
            &[("t.yaml", &direct), ("go", "#!/usr/bin/env bash\nfi\n")],
            &["E073 go:2:1"],
        ),
        (
            &[("t.yaml", &direct), ("go", "#!/usr/bin/env -S bash -e\nfi\n")],
            &["E073 go:2:1"],
        ),
        (
            &[("t.yaml", &node), ("a.js", "let x = 1;\nlet y = ;\n")],
            &["E073 a.js:2:9"],
        ),
        (&[("t.yaml", &team), ("a.sh", "exit 3\n")], &[]),
        (
            &[("t.yaml", &python), ("a.py", "import sys, nothing_here\nsys.exit(3)\n")],
            &[],
        ),
        (&[("t.yaml", &node), ("a.js", "process.exit(3);\n")], &[]),
        (&[("t.yaml", &direct), ("go", "#!/bin/sh\nexit 3\n")], &[]),
    ];
    let interpreters = [("a.py", "python3"), ("a.js", "node"), ("go", "bash"), ("a.sh", "sh")];
    let needed = |row: &&Row<'_>| {
        let (script, _) = row.0[1];
        let known = interpreters.iter().find(|(name, _)| script.ends_with(name));
        is_installed(known.expect("an interpreter").1)
    };
    let rows: Vec<Row<'_>> = rows.iter().filter(needed).copied().collect();
    expect(&rows, &["--check-scripts"]);
}

#[expect(clippy::print_stderr, reason = "a test that checks less says so")]
fn say_untried(interpreter: &str) {
    eprintln!("{interpreter} is not installed: its scripts are not tried");
}

/// Whether the interpreter is there; without it, its rows say so and are left out.
fn is_installed(interpreter: &str) -> bool {
    let is_there = std::process::Command::new(interpreter)
        .arg("--version")
        .output()
        .is_ok();
    if !is_there && interpreter != "sh" {
        say_untried(interpreter);
    }
    // Every Unix has `sh`; some of them have no `--version`.
    is_there || interpreter == "sh"
}

#[test]
fn nothing_of_a_project_is_executed_and_nothing_is_left_by_parsers() {
    let workspace = Workspace::new();
    // A parser is not started in the folder of the project, so the file has its whole path.
    let executed = workspace.path().join("executed");
    let executed = executed.display();
    let mark = format!("touch {executed}\n");
    workspace.write(
        "t.yaml",
        "name: t\nagents:\n- {name: a, script: a.sh}\n- {name: b, script: b.py, depends_on: [a]}\n\
         - {name: c, script: c.js, depends_on: [b]}\n- {name: d, script: ./d, depends_on: [c]}\n",
    );
    workspace.write("a.sh", format!("{mark}$(touch {executed})\n"));
    let python = format!("open('{executed}', 'w')\n");
    workspace.write("b.py", format!("import ast, helper\n{python}"));
    for module in ["ast.py", "helper.py", "sitecustomize.py", "sys.py"] {
        workspace.write(module, &python);
    }
    let node = format!("require('fs').writeFileSync('{executed}', '');\n");
    workspace.write("c.js", &node);
    workspace.write("load.js", &node);
    workspace.script("d", &format!("#!/bin/bash\n{mark}"));
    workspace.write("env.sh", &mark);
    let before = names(&workspace);
    let folder = workspace.path();
    let folder = folder.display();
    let mut command = workspace.command(["validate", "t.yaml", "--check-scripts"]);
    command
        .env("BASH_ENV", format!("{folder}/env.sh"))
        .env("ENV", format!("{folder}/env.sh"))
        .env("NODE_OPTIONS", format!("--require {folder}/load.js"))
        .env("PYTHONPATH", folder.to_string())
        .env("PYTHONSTARTUP", format!("{folder}/b.py"));
    let told = command.output().expect("it runs");
    assert!(told.status.success(), "{told:?}");
    assert_eq!(names(&workspace), before);
}

#[test]
fn without_the_option_no_program_is_started() {
    let workspace = Workspace::new();
    let traps = workspace.path().join("traps");
    std::fs::create_dir(&traps).expect("made");
    for name in [
        "python3", "python", "sh", "bash", "node", "git", "env", "uv", "npx", "claude", "gemini",
    ] {
        workspace.script(&format!("traps/{name}"), "#!/bin/sh\n: > \"$0.started\"\n");
    }
    workspace.write(
        "t.yaml",
        "name: t\ndefault_task: x\nagents:\n- {name: a, script: a.sh}\n- {name: b, script: b.py, depends_on: [a]}\n\
         - {name: c, script: c.js, depends_on: [b]}\n- {name: d, script: ./d, depends_on: [c]}\n\
         - {name: e, acp: claude, depends_on: [d]}\n- {name: f, script: 'bash -c true', sandbox: true}\n\
         - {name: g, model_profile: {provider: simulated}, tools: [s, u]}\n\
         tools:\n  s: {mcp: {command: npx server}}\n  u: {script: python3 u.py, parameters: {type: object}}\n",
    );
    for name in ["a.sh", "b.py", "c.js", "u.py"] {
        workspace.write(name, "if then (\n");
    }
    workspace.script("d", &format!("#!{}/traps/bash\n", workspace.path().display()));
    let validate = |mut command: std::process::Command| {
        let told = command.env("PATH", &traps).args(["validate", ".", "-v"]).output();
        String::from_utf8_lossy(&told.expect("it runs").stdout).into_owned()
    };
    let told = validate(workspace.command([] as [&str; 0]));
    assert!(told.contains("t.yaml"), "{told}");
    let started: Vec<String> = names_in(&traps)
        .into_iter()
        .filter(|name| name.ends_with(".started"))
        .collect();
    assert!(started.is_empty(), "{started:?}");
    // The system knows of programs that are no trap.
    let log = workspace.path().join("log");
    let mut traced = std::process::Command::new("strace");
    traced
        .args(["-f", "-qq", "-e", "trace=execve,execveat", "-o"])
        .arg(&log);
    let program = workspace.command([] as [&str; 0]).get_program().to_owned();
    traced.arg(program).current_dir(workspace.path());
    match traced.arg("validate").arg(".").env("PATH", &traps).output() {
        Ok(_) if log.exists() => {
            let calls = std::fs::read_to_string(&log).expect("a text");
            let count = calls.lines().filter(|line| line.contains("execve")).count();
            assert_eq!(count, 1, "{calls}");
        }
        _ => say_untried("strace"),
    }
}

/// The files of a folder.
fn names_in(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// The files of the workspace.
fn names(workspace: &Workspace) -> Vec<String> {
    let folder = std::fs::read_dir(workspace.path()).expect("a folder");
    let mut names: Vec<String> = folder
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

#[test]
fn a_parser_that_is_not_installed_is_said_once() {
    let workspace = Workspace::new();
    workspace.write(
        "t.yaml",
        "name: t\nagents:\n- {name: a, script: python3 a.py}\n- {name: b, script: python3 b.py, depends_on: [a]}\n",
    );
    workspace.write("a.py", "x = = 1\n");
    workspace.write("b.py", "x = 1\n");
    let mut command = workspace.command(["validate", "t.yaml", "--check-scripts", "--format", "json"]);
    let told = command.env("PATH", workspace.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    // The program itself is missing, too.
    assert!(String::from_utf8_lossy(&told.stdout).contains("W003"), "{told:?}");
    assert_eq!(said, "");
    // A script that says `bash`, with a PATH without it.
    workspace.write(
        "t.yaml",
        "name: t\nagents:\n- {name: a, script: ./d}\n- {name: b, script: ./e, depends_on: [a]}\n",
    );
    for name in ["d", "e"] {
        workspace.script(name, "#!/bin/bash\nif then\n");
    }
    let mut command = workspace.command(["validate", "t.yaml", "--check-scripts", "--format", "json"]);
    let told = command.env("PATH", workspace.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(
        said,
        "warning: bash is not installed or not on PATH: 2 scripts were not checked\n"
    );
}
