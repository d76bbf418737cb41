//! The paths that a source file mentions, and the modules in which they end.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::{Crate, File};

/// A path from the root of a crate: the crate's short name, then modules and items.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub krate: String,
    pub steps: Vec<String>,
}

/// A path as a file mentions it.
#[derive(Debug)]
struct Mention {
    place: Place,
    /// The name that a `use` gives it in the file.
    name: Option<String>,
}

/// Which module uses which.
#[derive(Debug)]
pub(super) struct Imports<'a> {
    files: &'a [File],
    mentions: Vec<Vec<Mention>>,
    /// The file of each module.
    modules: BTreeMap<Place, usize>,
}

impl<'a> Imports<'a> {
    pub(super) fn new(crates: &[Crate], files: &'a [File]) -> Self {
        let place = |file: &File| Place {
            krate: file.krate.clone(),
            steps: file.module.clone(),
        };
        Self {
            files,
            mentions: files.iter().map(|file| mentions(file, crates)).collect(),
            modules: files.iter().enumerate().map(|(at, file)| (place(file), at)).collect(),
        }
    }

    /// The other top-level modules that a file imports. An item at the root of a crate counts as an import of the crate.
    pub(super) fn top_modules(&self, file: usize) -> BTreeSet<String> {
        let own = self.files[file].top();
        let places = self.mentions[file].iter().map(|mention| &mention.place);
        places
            .filter_map(|place| {
                let first = Place {
                    krate: place.krate.clone(),
                    steps: vec![place.steps.first()?.clone()],
                };
                let is_module = self.modules.contains_key(&first);
                Some(if is_module {
                    format!("{}::{}", first.krate, first.steps[0])
                } else {
                    first.krate
                })
            })
            .filter(|module| *module != own)
            .collect()
    }

    /// The other files of its crate that a file uses. A file may use what is defined in a module that encloses it, so that is no
    /// use of another file; what the enclosing module re-exports is a use of the file that defines it.
    pub(super) fn files_used(&self, file: usize) -> BTreeSet<usize> {
        let own = &self.files[file];
        self.mentions[file]
            .iter()
            .filter(|mention| mention.place.krate == own.krate)
            .filter_map(|mention| self.defined_in(&mention.place, 0))
            .filter(|other| *other != file && !own.module.starts_with(&self.files[*other].module))
            .collect()
    }

    /// The file that defines what stands at a place; re-exports are followed.
    fn defined_in(&self, place: &Place, followed: usize) -> Option<usize> {
        let upto = |length: usize| Place {
            krate: place.krate.clone(),
            steps: place.steps[..length].to_vec(),
        };
        let length = (1..=place.steps.len())
            .rev()
            .find(|length| self.modules.contains_key(&upto(*length)))?;
        let file = self.modules[&upto(length)];
        let Some(item) = place.steps.get(length) else {
            return Some(file);
        };
        let brought = self.mentions[file]
            .iter()
            .find(|mention| mention.name.as_ref() == Some(item) && mention.place.krate == place.krate);
        match brought {
            Some(mention) if followed < 8 => self.defined_in(&mention.place, followed + 1),
            _ => Some(file),
        }
    }
}

/// All paths of a file that begin with `crate`, `self`, `super`, a crate of the workspace or a module of the file's own.
fn mentions(file: &File, crates: &[Crate]) -> Vec<Mention> {
    let mut heads: BTreeMap<String, Place> = BTreeMap::new();
    let place = |krate: &str, steps: &[String]| Place {
        krate: krate.to_owned(),
        steps: steps.to_vec(),
    };
    heads.insert("crate".into(), place(&file.krate, &[]));
    heads.insert("self".into(), place(&file.krate, &file.module));
    let parent = &file.module[..file.module.len() - 1];
    heads.insert("super".into(), place(&file.krate, parent));
    // The program's own library is named like a module of the language, and nobody uses it by its name.
    for other in crates.iter().filter(|other| other.short() != other.package) {
        heads.insert(other.ident(), place(&other.short(), &[]));
    }
    for line in file.text.lines() {
        let child = line.trim().strip_suffix(';').and_then(|item| item.rsplit_once("mod "));
        if let Some((_, child)) = child {
            let steps = [file.module.as_slice(), &[child.to_owned()]].concat();
            heads.insert(child.to_owned(), place(&file.krate, &steps));
        }
    }
    let mut found = Vec::new();
    for (at, _) in file.text.match_indices("::") {
        let before = &file.text[..at];
        let start = before.rfind(|c: char| !is_of_a_word(c)).map_or(0, |end| end + 1);
        let earlier = before[..start].trim_end();
        if earlier.ends_with("::") || earlier.ends_with('.') {
            continue;
        }
        if let Some(head) = heads.get(&before[start..]) {
            let in_use = earlier.ends_with("use") || earlier.ends_with("use ::");
            tree(&file.text[at + 2..], head.clone(), in_use, &mut found);
        }
    }
    found
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads what follows `prefix::`, and gives the rest of the text.
fn tree<'t>(text: &'t str, mut prefix: Place, in_use: bool, found: &mut Vec<Mention>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            match rest.strip_prefix('}') {
                Some(after) => return after,
                None if rest.is_empty() => return rest,
                None => {}
            }
            let after = tree(rest, prefix.clone(), in_use, found);
            assert!(after.len() < rest.len(), "no path: {}", &rest[..rest.len().min(80)]);
            rest = after;
        }
    }
    let length = text.find(|c: char| !is_of_a_word(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(length);
    match word {
        "" | "self" => {}
        "super" => drop(prefix.steps.pop()),
        _ => prefix.steps.push(word.to_owned()),
    }
    if let Some(deeper) = rest.strip_prefix("::")
        && !deeper.starts_with('<')
    {
        return tree(deeper, prefix, in_use, found);
    }
    let rest = rest.strip_prefix('*').unwrap_or(rest);
    let renamed = rest.strip_prefix(" as ").map(|rest| {
        let length = rest.find(|c: char| !is_of_a_word(c)).unwrap_or(rest.len());
        rest.split_at(length)
    });
    let (name, rest) = match renamed {
        Some((name, rest)) => (Some(name.to_owned()), rest),
        None => (prefix.steps.last().cloned(), rest),
    };
    found.push(Mention {
        place: prefix,
        name: name.filter(|_| in_use),
    });
    rest
}

#[test]
fn paths_are_read_from_every_spelling() {
    let file = File {
        krate: "core".into(),
        module: vec!["a".into(), "b".into()],
        path: "b.rs".into(),
        text: "mod c;\nuse crate::{d::E, f};\nuse super::super::g::H as I;\npub use c::{\n    J, k::{self, L},\n};\n\
               fn m() { ensemble_language::n::o::<P>(); c::q(); self::r(); x.c::<u8>(); other::c::z(); }\n"
            .into(),
    };
    let language = Crate {
        package: "ensemble-language".into(),
        folder: "crates/language".into(),
    };
    let found: Vec<String> = mentions(&file, &[language])
        .iter()
        .map(|mention| {
            let name = mention.name.as_deref().unwrap_or("-");
            format!("{} {} {name}", mention.place.krate, mention.place.steps.join("::"))
        })
        .collect();
    let expected = [
        "core d::E E",
        "core f f",
        "core g::H I",
        "core a::b::c::J J",
        "core a::b::c::k k",
        "core a::b::c::k::L L",
        "language n::o -",
        "core a::b::c::q -",
        "core a::b::r -",
    ];
    assert_eq!(found, expected);
}
