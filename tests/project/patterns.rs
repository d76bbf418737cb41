//! The pages of patterns show the templates of `ensemble init`, each with its tests and with its success.

use crate::support::Workspace;
use crate::support::blocks::blocks;
use crate::support::files::{pages, read};

const INDEX: &str = "docs/patterns.md";
const PAGES: &str = "docs/patterns";

/// The largest number of words of a page.
const MOST_WORDS: usize = 3500;

/// The names of `init --list-templates`.
fn list_templates() -> Vec<String> {
    let listed = Workspace::new().run(["init", "--list-templates"]).expect_code(0).stdout;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_template_has_a_page_and_every_page_a_template() {
    let mut expected: Vec<String> = list_templates()
        .iter()
        .map(|name| format!("{PAGES}/{name}.md"))
        .collect();
    expected.sort();
    assert_eq!(pages(PAGES), expected);
    let index = read(INDEX);
    let reference = read("docs/reference/commands.md");
    for name in list_templates() {
        assert!(
            index.contains(&format!("| [`{name}`](patterns/{name}.md) |")),
            "{INDEX}: {name}"
        );
        assert!(
            reference.contains(&format!("| [`{name}`](../patterns/{name}.md) |")),
            "{name}"
        );
    }
}

#[test]
fn every_page_shows_its_template_and_says_what_its_success_is() {
    for name in list_templates() {
        let page = format!("{PAGES}/{name}.md");
        let workspace = Workspace::new();
        workspace.run(["init", &name, "--template", &name]).expect_code(0);
        let files = [format!("ensembles/{name}.yaml"), format!("ensembles/{name}.test.yaml")];
        let shown = blocks(&page);
        for file in files {
            let written = workspace.read(&file);
            // The line for editors is the same in every ensemble.
            let written = match written.split_once('\n') {
                Some((line, rest)) if line.starts_with("# yaml-language-server:") => rest,
                _ => &written,
            };
            let block = shown.iter().find(|block| block.value("file") == Some(&file));
            let block = block.unwrap_or_else(|| panic!("{page} does not show {file}"));
            assert_eq!(block.text, written, "{}: another text than the template", block.place);
        }
        let text = read(&page);
        let success = text
            .split("\n## Success\n")
            .nth(1)
            .and_then(|rest| rest.split("\n## ").next());
        assert!(
            success.is_some_and(|text| text.split_whitespace().count() > 10),
            "{page}"
        );
        assert!(
            text.contains(&format!("\nensemble init {name} --template {name}\n")),
            "{page}"
        );
        let words = text.split_whitespace().count();
        assert!(words <= MOST_WORDS, "{page} has {words} words");
    }
}
