//! Which files `validate` finds in folders, and which it leaves out.

#![expect(clippy::disallowed_methods, reason = "tests make folders and links")]

use std::path::Path;
use std::process::Command;

use crate::support::{Outcome, Workspace};

const FAULTY: &str = "name: faulty\nagents: [{name: a, script: \"true\", unknown: 1}]\n";

/// A workspace with these files, all of them with an error.
fn with(files: &[&str]) -> Workspace {
    let workspace = Workspace::new();
    for file in files {
        workspace.write(file, FAULTY);
    }
    workspace
}

fn link(workspace: &Workspace, target: impl AsRef<Path>, name: &str) {
    std::os::unix::fs::symlink(target, workspace.path().join(name)).expect("a link");
}

fn files(outcome: &Outcome) -> Vec<String> {
    let report = outcome.json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    let files = diagnostics.iter().filter_map(|one| one["file"].as_str());
    files.map(|file| file.trim_start_matches("./").to_owned()).collect()
}

/// The files in which errors are found.
fn found(workspace: &Workspace, arguments: &[&str]) -> Vec<String> {
    let outcome = workspace.run([&["validate", "--output", "json"], arguments].concat());
    assert_eq!(outcome.stderr, "", "{arguments:?}");
    files(&outcome)
}

#[test]
fn ignore_files_are_respected() {
    let workspace = with(&[
        "a.yaml",
        "draft.yaml",
        "e/draft.yaml",
        "e/kept/draft.yaml",
        "out/b.yaml",
        "out/kept/c.yaml",
        "e/out.d/f.yaml",
        "g.yaml",
        "h/g.yaml",
        "i.yaml",
    ]);
    workspace.write(".gitignore", "# drafts\ndraft.yaml\nout/\n/g.yaml\n[\ni.yaml\n");
    workspace.write("e/kept/.gitignore", "!draft.yaml\n");
    // What is in an ignored folder cannot be taken in again, and `.ignore` comes before `.gitignore`.
    workspace.write("out/.gitignore", "!kept/\n");
    workspace.write(".ignore", "!i.yaml\n");
    let expected = ["a.yaml", "e/kept/draft.yaml", "e/out.d/f.yaml", "h/g.yaml", "i.yaml"];
    assert_eq!(found(&workspace, &["."]), expected);
    // From a folder inside, and by a pattern, the same rules hold.
    assert_eq!(found(&workspace, &["e"]), ["e/kept/draft.yaml", "e/out.d/f.yaml"]);
    assert_eq!(
        found(&workspace, &["-C", "e", "."]),
        ["kept/draft.yaml", "out.d/f.yaml"]
    );
    assert_eq!(found(&workspace, &["**/*.yaml"]), expected);
    assert_eq!(found(&workspace, &[".", "--no-ignore"]).len(), 10);
    // Above a repository, other rules hold.
    workspace.write("e/.git/info/exclude", "out.d\n");
    assert_eq!(found(&workspace, &["e"]), ["e/draft.yaml", "e/kept/draft.yaml"]);
}

#[test]
fn what_the_user_ignores_everywhere_is_ignored_in_repositories() {
    let workspace = with(&["e/a.yaml", "e/mine.yaml"]);
    workspace.write("home/.config/git/ignore", "mine.yaml\n");
    assert_eq!(found(&workspace, &["e"]).len(), 2);
    workspace.write("e/.git/HEAD", "");
    assert_eq!(found(&workspace, &["e"]), ["e/a.yaml"]);
}

#[test]
fn a_file_that_is_named_is_checked_unless_exclusion_is_forced() {
    let workspace = with(&[
        "a.yaml",
        "out/b.yaml",
        "vendor/c.yaml",
        ".hidden/d.yaml",
        "target/e.yaml",
    ]);
    workspace.write(".gitignore", "out/\n");
    workspace.write(".ensemble/config.yaml", "validate: {exclude: [vendor/]}\n");
    let all = [
        "a.yaml",
        "out/b.yaml",
        "vendor/c.yaml",
        ".hidden/d.yaml",
        "target/e.yaml",
    ];
    assert_eq!(found(&workspace, &["."]), ["a.yaml"]);
    assert_eq!(found(&workspace, &all), all);
    // A folder that is named is searched too.
    for folder in ["out", "vendor", ".hidden", "target"] {
        assert_eq!(found(&workspace, &[folder]).len(), 1, "{folder}");
    }
    let forced = [&["--force-exclude"], &all[..]].concat();
    assert_eq!(found(&workspace, &forced), ["a.yaml"]);
    assert_eq!(
        found(&workspace, &["-C", "out", "--force-exclude", "b.yaml"]),
        ["b.yaml"]
    );
    // Whoever names only what is left out, as a hook may, has done nothing wrong.
    for named in [&["out/b.yaml", "vendor/c.yaml"], &["out", "vendor"]] {
        let outcome = workspace.run([&["validate", "--force-exclude"], &named[..]].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert_eq!(outcome.stderr, "0 files checked: 0 errors, 0 warnings, 0 hints\n");
    }
    // Named after it was found, it is still no file among others.
    workspace.write("other.yaml", "services: {}\n");
    workspace
        .run(["validate", ".", "other.yaml", "--output", "json"])
        .expect_code(2);
    assert!(found(&workspace, &[".", "other.yaml"]).contains(&"other.yaml".to_owned()));
}

#[test]
fn folders_of_tools_and_hidden_folders_are_not_searched() {
    let workspace = with(&[
        "node_modules/a.yaml",
        "deep/node_modules/a.yaml",
        "target/a.yaml",
        ".git/a.yaml",
        ".venv/a.yaml",
        "env/a.yaml",
        "targets/a.yaml",
        ".ensemble/ensembles/a.yaml",
        ".ensemble/runs/r/ensemble.yaml",
    ]);
    workspace.write("env/pyvenv.cfg", "home = /usr/bin\n");
    assert_eq!(
        found(&workspace, &["."]),
        [".ensemble/ensembles/a.yaml", "targets/a.yaml"]
    );
    assert_eq!(found(&workspace, &["**/a.yaml"]), ["targets/a.yaml"]);
    workspace.write(
        ".ensemble/config.yaml",
        "validate: {exclude: ['!target/', '!.venv/', '/targets']}\n",
    );
    let expected = [".ensemble/ensembles/a.yaml", ".venv/a.yaml", "target/a.yaml"];
    assert_eq!(found(&workspace, &["."]), expected);
    // From `.ensemble` on, no link is followed.
    let linked = with(&["e/a.yaml", "there/b.yaml"]);
    linked.write(".ensemble/x", "");
    link(&linked, "../there", ".ensemble/ensembles");
    link(&linked, "there", "e/.ensemble");
    assert_eq!(found(&linked, &["."]), ["e/a.yaml", "there/b.yaml"]);
}

#[test]
fn links_among_many_folders_end() {
    let workspace = Workspace::new();
    // Every folder leads to every other, and two of them to their parent as well.
    for at in 0..12 {
        workspace.write(&format!("p/{at:02}/e.yaml"), FAULTY);
        for other in (0..12).filter(|other| *other != at) {
            link(&workspace, format!("../{other:02}"), &format!("p/{at:02}/to{other:02}"));
        }
    }
    link(&workspace, "..", "p/00/up");
    link(&workspace, "..", "p/01/up");
    link(&workspace, "p/05", "q");
    let expected: Vec<String> = (0..12).map(|at| format!("p/{at:02}/e.yaml")).collect();
    assert_eq!(found(&workspace, &["p"]), expected);
    assert_eq!(found(&workspace, &["p/**/*.yaml"]), expected);
    assert_eq!(found(&workspace, &["."]), expected);
    // Where a link is the only way, its name is that of the files.
    let by_link = found(&workspace, &["q"]);
    assert_eq!(by_link.len(), 12, "{by_link:?}");
    assert_eq!(by_link[0], "q/e.yaml");
    assert!(by_link[1].starts_with("q/to00/"), "{by_link:?}");
}

#[test]
fn a_folder_that_cannot_be_read_is_reported_and_the_rest_is_checked() {
    let workspace = with(&["e/a.yaml", "e/z.yaml"]);
    // Also for root: the path of a folder is longer than the system takes.
    let deep = |length: usize| vec!["d".repeat(200); length].join("/");
    let (outer, inner) = (
        workspace.path().join("e").join(deep(15)),
        workspace.path().join(deep(15)),
    );
    std::fs::create_dir_all(&outer).expect("folders");
    std::fs::create_dir_all(&inner).expect("folders");
    std::fs::rename(workspace.path().join("d".repeat(200)), outer.join("more")).expect("moved");
    let outcome = workspace.run(["validate", "e", "--output", "json"]).expect_code(2);
    assert_eq!(files(&outcome)[..1], ["e/a.yaml"]);
    assert!(files(&outcome).contains(&"e/z.yaml".to_owned()), "{}", outcome.stdout);
    assert!(
        format!("{}{}", outcome.stdout, outcome.stderr).contains("File name too long"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn what_holds_no_ensemble_is_an_error_that_says_what_was_left_out() {
    let workspace = with(&["out/a.yaml", "vendor/a.yaml", "none/readme.txt"]);
    workspace.write(".gitignore", "out/\n");
    let told = |arguments: &[&str]| {
        let outcome = workspace.run([&["validate"], arguments].concat()).expect_code(2);
        assert_eq!(outcome.stdout, "");
        outcome.stderr
    };
    let none = told(&["none"]);
    assert!(
        none.starts_with("error: none contains no .yaml or .yml file\n"),
        "{none}"
    );
    assert!(none.contains("hidden folders, `node_modules`"), "{none}");
    let left = told(&[".", "--exclude", "vendor/"]);
    assert!(left.contains("1 file or folder is excluded; `--no-config`"), "{left}");
    assert!(
        left.contains("1 file or folder is ignored by `.gitignore` or `.ignore`; `--no-ignore`"),
        "{left}"
    );
    let pattern = told(&["out/../o*/*.yaml"]);
    assert!(pattern.contains("no file matches out/../o*/*.yaml"), "{pattern}");
    let wrong = told(&[".", "--exclude", "[a"]);
    assert!(wrong.contains("--exclude [a is not a valid pattern"), "{wrong}");
}

#[test]
fn a_pipe_in_place_of_an_ignore_file_is_not_waited_for() {
    let workspace = with(&["e/a.yaml"]);
    let made = Command::new("mkfifo")
        .args(["e/.gitignore", "e/.ignore"])
        .current_dir(workspace.path())
        .status();
    assert!(made.expect("mkfifo is there").success());
    workspace.write(".gitignore", [&b"a.yaml\n"[..], &[b'#'; 300 << 10]].concat());
    assert_eq!(found(&workspace, &["e"]), ["e/a.yaml"]);
}
