//! The fenced blocks of the project's documents.

use super::files::{pages, read};

/// One fenced block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// First word after the fence.
    pub language: String,
    /// The other words: `file=x`, `sequence=a,b`, `ensemble`.
    words: Vec<String>,
    /// What stands in it.
    pub text: String,
    /// Where it begins: `docs/reference/tools.md:12`.
    pub place: String,
}

impl Block {
    /// Does it bear this word?
    pub(crate) fn is(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }

    /// The value of `key=value`.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.words
            .iter()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Is it a test file?
    pub(crate) fn is_tests(&self) -> bool {
        self.value("file").is_some_and(|name| name.ends_with(".test.yaml"))
    }

    /// The ensemble that it shows, if it shows one; a list of agents gets the rest of an ensemble around it.
    pub(crate) fn ensemble(&self) -> Option<String> {
        if self.is("agents") {
            Some(format!("name: example\nagents:\n{}", self.text))
        } else if self.is("ensemble") || (self.language == "yaml" && self.value("file").is_some() && !self.is_tests()) {
            Some(self.text.clone())
        } else {
            None
        }
    }
}

/// All blocks of a document, or of the pages of a folder.
pub(crate) fn blocks(document: &str) -> Vec<Block> {
    pages(document).iter().flat_map(|page| blocks_of_page(page)).collect()
}

fn blocks_of_page(document: &str) -> Vec<Block> {
    let text = read(document);
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                open = Some(Block {
                    language: words.next().unwrap_or_default(),
                    words: words.collect(),
                    text: String::new(),
                    place: format!("{document}:{number}"),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{document}: a block is not closed");
    blocks
}
