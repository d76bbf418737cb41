//! `man` through the binary: a page for every command, which `man` can show.

#![expect(clippy::disallowed_methods, reason = "tests start programs and read files")]

use std::process::Command;

use crate::support::Workspace;

/// The commands that the help lists.
fn commands(help: &str) -> Vec<String> {
    let list = help
        .split("Usage:")
        .nth(1)
        .and_then(|rest| rest.split("Options:").next());
    let names = list
        .into_iter()
        .flat_map(str::lines)
        // What is wrapped stands further in.
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_its_page() {
    let workspace = Workspace::new();
    let told = workspace
        .run(["man", "--output", "share/man/man1"])
        .expect_code(0)
        .stdout;
    let names = commands(&workspace.run(["--help"]).expect_code(0).stdout);
    assert!(names.len() > 10, "{names:?}");
    let inner = commands(&workspace.run(["runs", "--help"]).expect_code(0).stdout);
    let inner = inner.iter().map(|name| format!("runs-{name}"));
    for name in names.iter().cloned().chain(inner) {
        let file = format!("share/man/man1/ensemble-{name}.1");
        assert!(told.contains(&format!("wrote {file}\n")), "{name}: {told}");
        let page = workspace.read(&file);
        assert!(page.contains(&format!(".TH ensemble-{name} 1")), "{page}");
        assert!(page.contains("\n.SH SYNOPSIS\n"), "{page}");
        // The same page alone, for `man -l -`.
        assert_eq!(workspace.run(["man", name.as_str()]).expect_code(0).stdout, page);
        // Every option of the help stands on the page.
        let words: Vec<&str> = name.split('-').chain(["--help"]).collect();
        let plain = page.replace('\\', "");
        for option in workspace.run(words).expect_code(0).stdout.split_whitespace() {
            let option = option.trim_end_matches(',');
            if option.starts_with("--") && option.len() > 2 {
                assert!(plain.contains(option), "{name}: no {option}");
            }
        }
    }
}

#[test]
fn the_programs_page_says_what_its_exit_codes_mean() {
    let workspace = Workspace::new();
    let page = workspace.run(["man"]).expect_code(0).stdout;
    for code in ["0", "1", "2", "3", "4", "5", "130, 143"] {
        assert!(page.contains(&format!("\n.B {code}\n")), "{code}");
    }
    let unknown = workspace.run(["man", "walk"]).expect_code(2);
    assert!(
        unknown.stderr.contains("the commands with a manual page are run, "),
        "{}",
        unknown.stderr
    );
}

/// Where `man` is installed it shows every page and warns of nothing.
#[test]
fn man_shows_the_pages() {
    let workspace = Workspace::new();
    workspace.run(["man", "--output", "pages"]).expect_code(0);
    for entry in std::fs::read_dir(workspace.path().join("pages"))
        .expect("a folder")
        .flatten()
    {
        let shown = Command::new("man")
            .args(["--warnings=all", "-l"])
            .arg(entry.path())
            .env("MANWIDTH", "100")
            .env("LC_ALL", "C.UTF-8")
            .output();
        // Another kind of `man`, or none: the structure is tested above.
        let Ok(shown) = shown else { return };
        if !shown.status.success() {
            return;
        }
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(text.contains("SYNOPSIS"), "{text}");
        assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "{}", entry.path().display());
    }
}
