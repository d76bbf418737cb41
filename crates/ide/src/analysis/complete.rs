//! What can be typed at a place.

use ensemble_language::condition::function_words;
use ensemble_language::diagnostic::Severity;
use ensemble_language::ensemble::{PROVIDERS, SIMULATED};
use ensemble_language::loader::codes;
use ensemble_language::names::is_identifier_char;
use ensemble_language::source::{Route, Span, Step};
use ensemble_language::template::{self, filter_words};
use ensemble_language::vocabulary::{TEMPLATE_VARIABLES, VARIABLES, Word, chooses_type};

use super::code::{self, Reading};
use super::cursor::{Cursor, What, cursors};
use super::lexis::Kind as WordKind;
use super::tree::{self, Code};
use super::{View, findings, lexis, schema, tested};

/// Something that can be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// What is shown.
    pub label: String,
    /// What it is.
    pub kind: Kind,
    /// More about it, on one line.
    pub detail: Option<String>,
    /// What it means, in Markdown.
    pub meaning: Option<String>,
    /// What is inserted.
    pub insert: String,
    /// The bytes that it replaces.
    pub span: Span,
}

/// The kinds of what can be typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A key.
    Key,
    /// A word of the language.
    Word,
    /// An agent.
    Agent,
    /// A name that the file or the configuration defines.
    Name,
    /// A variable or a part of a value.
    Variable,
    /// A function or filter.
    Function,
    /// The code of a finding.
    Code,
}

/// The most that is offered.
const MOST: usize = 2000;

/// Lists the completions at an offset.
pub fn complete(view: &View<'_>, offset: usize) -> Vec<Completion> {
    let offset = view.text.floor_char_boundary(offset);
    let mut places = cursors(view.text, offset).peekable();
    let mut found = match places.peek() {
        None => codes_in_comment(view.text, offset),
        Some(_) => places
            .map(|cursor| at(view, &cursor, offset))
            .find(|found| !found.is_empty())
            .unwrap_or_default(),
    };
    found.truncate(MOST);
    found
}

fn at(view: &View<'_>, cursor: &Cursor, offset: usize) -> Vec<Completion> {
    let before = match &cursor.what {
        What::Key { others } => return keys(view, cursor, others, offset),
        What::Value { before } => before,
    };
    let own = View {
        document: Some(cursor.document.clone()),
        ensemble: view.ensemble.clone(),
        ..*view
    };
    if let Some(code) = tree::code_at(&cursor.route) {
        return in_code(&own, &cursor.route, code, before, offset);
    }
    let mut found = values(&own, &cursor.route, offset);
    // The beginning of the first key of a map.
    if before.chars().all(in_name) {
        found.extend(keys(view, cursor, &[], offset));
    }
    found
}

/// The bytes of the word that ends at an offset.
fn word_before(text: &str, offset: usize, is_part: impl Fn(char) -> bool) -> Span {
    let start = text[..offset]
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_part(*c))
        .last();
    Span::new(start.map_or(offset, |(at, _)| at), offset)
}

/// Part of a key or a name in YAML.
fn in_name(c: char) -> bool {
    c.is_alphanumeric() || "_.-".contains(c)
}

fn keys(view: &View<'_>, cursor: &Cursor, others: &[String], offset: usize) -> Vec<Completion> {
    let span = word_before(view.text, offset, in_name);
    let has_colon = view.text[offset..].trim_start_matches(in_name).starts_with(':');
    if tree::keys_name_agents(&cursor.route) {
        let free = view.agent_names().into_iter().filter(|name| !others.contains(name));
        return names(free, Kind::Agent, span);
    }
    let is_root = cursor.route.0.is_empty();
    let runs_something = others.iter().any(|key| chooses_type(key));
    let is_agent = matches!(tree::pattern(&cursor.route).as_str(), "agents.*");
    let offered = view.schema().keys(&cursor.route).into_iter().filter(|key| {
        let is_known = others.iter().any(|other| other == key.name);
        let is_second_kind = is_agent && runs_something && chooses_type(key.name);
        let is_elsewhere = is_root && view.kind == findings::Kind::Configuration && key.name != "model_profiles";
        !is_known && !is_second_kind && !is_elsewhere
    });
    let key = |key: schema::KeyAt| Completion {
        label: key.name.to_owned(),
        kind: Kind::Key,
        detail: None,
        meaning: key.meaning().map(str::to_owned),
        insert: match (has_colon, key.holds_more()) {
            (true, _) => key.name.to_owned(),
            (false, true) => format!("{}:", key.name),
            (false, false) => format!("{}: ", key.name),
        },
        span,
    };
    offered.map(key).collect()
}

fn names(names: impl IntoIterator<Item = String>, kind: Kind, span: Span) -> Vec<Completion> {
    let name = |name: String| Completion {
        insert: name.clone(),
        label: name,
        kind,
        detail: None,
        meaning: None,
        span,
    };
    names.into_iter().map(name).collect()
}

fn values(view: &View<'_>, route: &Route, offset: usize) -> Vec<Completion> {
    let span = word_before(view.text, offset, in_name);
    let pattern = tree::pattern(route);
    let own = pattern
        .strip_prefix("agents.*.")
        .or_else(|| pattern.strip_prefix("defaults."));
    let is_tool = |last: &str| pattern.starts_with("tools.") && pattern.ends_with(last) && route.0.len() == 3;
    let agents = || names(view.agent_names(), Kind::Agent, span);
    match own {
        Some("depends_on.*" | "dependencies.*" | "dependencies.*.agent_name") => {
            let own = tree::agent_of(route).and_then(|at| {
                let nodes = view.document.as_ref().map(tree::agent_nodes)?;
                nodes.get(at)?.get("name")?.text().map(ToString::to_string)
            });
            let taken: Vec<String> = view.dependencies(tree::agent_of(route));
            let is_short = pattern.ends_with("depends_on.*");
            let free = view.agent_names().into_iter().filter(|name| {
                let is_taken = is_short && taken.contains(name);
                Some(name) != own.as_ref() && !is_taken
            });
            return names(free, Kind::Agent, span);
        }
        Some("model_profile" | "input.responses.model_profile") => return profiles(view, span),
        Some("model") => {
            let providers = std::iter::once(SIMULATED).chain(PROVIDERS.iter().map(|provider| provider.name));
            return names(providers.map(|name| format!("{name}/")), Kind::Word, span);
        }
        Some("tool") => {
            let servers = view.keys_under("tools").into_iter().filter(|name| {
                let entry = view.document.as_ref().and_then(|document| document.root().get("tools"));
                entry.and_then(|tools| tools.get(name)?.get("mcp")).is_some()
            });
            return names(servers.map(|name| format!("{name}.")), Kind::Name, span);
        }
        Some("tools.*") => return names(view.keys_under("tools"), Kind::Name, span),
        _ => {}
    }
    if pattern == "result" || is_tool(".agent") || tested::is_agent(&pattern) {
        return agents();
    }
    if pattern.starts_with("model_profiles.") && pattern.ends_with(".fallback") {
        return profiles(view, span);
    }
    let value = |value: schema::ValueAt| Completion {
        insert: value.text.clone(),
        label: value.text,
        kind: Kind::Word,
        detail: None,
        meaning: value.meaning.map(str::to_owned),
        span,
    };
    view.schema().values(route).into_iter().map(value).collect()
}

/// The profiles of the text and of the configurations.
fn profiles(view: &View<'_>, span: Span) -> Vec<Completion> {
    let mut found = view.keys_under("model_profiles");
    let configured = view.around.configured().unwrap_or_default();
    for (name, _) in configured {
        if found.iter().all(|known| **known != **name) {
            found.push(name.to_string());
        }
    }
    names(found, Kind::Name, span)
}

/// Names in a condition or a template, whose text before the cursor is `before`.
fn in_code(view: &View<'_>, route: &Route, code: Code, before: &str, offset: usize) -> Vec<Completion> {
    if code == Code::Template && !is_in_tag(before) {
        return Vec::new();
    }
    let all = code::words(before, code);
    let reading = Reading { view, route, code };
    let is_last = |word: &&lexis::Word<'_>| word.span.end == before.len();
    let last = all.last().filter(is_last);
    // In a string that has no end: a key in brackets.
    if last.is_some_and(|word| word.kind == WordKind::Text) {
        let end = all.len() - 1;
        if end < 1 || !matches!(all[end - 1].text, "[" | "?[") {
            return Vec::new();
        }
        let path = code::path(&all, end - 1);
        return members(&reading, &path, word_before(view.text, offset, in_name), true);
    }
    let partial = last.filter(|word| word.kind == WordKind::Name);
    let end = all.len() - usize::from(partial.is_some());
    let span = word_before(view.text, offset, is_identifier_char);
    match end.checked_sub(1).map(|at| all[at].text) {
        Some("." | "?.") => members(&reading, &code::path(&all, end - 1), span, false),
        Some("|") if code == Code::Template => of_words(filter_words(), Kind::Function, span),
        _ => top(&reading, span),
    }
}

/// Returns whether the end of a text is inside of `{{ … }}` or `{% … %}`.
fn is_in_tag(before: &str) -> bool {
    template::tags(before).last().is_some_and(|tag| !tag.is_closed)
}

fn members(reading: &Reading<'_>, path: &[String], span: Span, is_text: bool) -> Vec<Completion> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let found = reading.members(&path).into_iter();
    // After a dot, only identifiers can be written.
    let can_stand = |name: &str| {
        is_text || (name.chars().all(is_identifier_char) && !name.starts_with(|c: char| c.is_ascii_digit()))
    };
    let member = |member: code::Member| Completion {
        insert: member.name.clone(),
        label: member.name,
        kind: if member.is_agent { Kind::Agent } else { Kind::Variable },
        detail: Some(member.detail),
        meaning: None,
        span,
    };
    let mut offered: Vec<Completion> = found.filter(|one| can_stand(&one.name)).map(member).collect();
    let is_of_agents = matches!(path.as_slice(), ["outputs" | "executions" | "agent_execution_count"]);
    if reading.code == Code::Condition && !is_text && !is_of_agents && !path.is_empty() {
        offered.extend(of_words(function_words(), Kind::Function, span));
    }
    offered
}

/// Lists the completions at the beginning of an expression.
fn top(reading: &Reading<'_>, span: Span) -> Vec<Completion> {
    match reading.code {
        Code::Condition => {
            let is_condition = matches!(reading.route.0.last(), Some(Step::Key(key)) if &**key == "condition");
            let mut offered = of_words(&VARIABLES, Kind::Variable, span);
            offered.retain(|one| one.label != "output" || is_condition);
            offered.extend(of_words(function_words(), Kind::Function, span));
            offered.extend(names(
                ["and", "or", "not", "in", "True", "False", "None"].map(str::to_owned),
                Kind::Word,
                span,
            ));
            offered
        }
        Code::Template => {
            let near = reading.dependencies().into_iter();
            let mut offered = names(
                near.filter(|name| name.chars().all(is_identifier_char)),
                Kind::Agent,
                span,
            );
            offered.extend(of_words(&TEMPLATE_VARIABLES, Kind::Variable, span));
            offered
        }
    }
}

fn of_words(words: impl IntoIterator<Item = &'static Word>, kind: Kind, span: Span) -> Vec<Completion> {
    let one = |word: &'static Word| Completion {
        label: word.name.to_owned(),
        kind,
        detail: Some(word.form.to_owned()),
        meaning: Some(word.documentation.to_owned()),
        insert: word.name.to_owned(),
        span,
    };
    words.into_iter().map(one).collect()
}

/// The codes that a comment can allow.
fn codes_in_comment(text: &str, offset: usize) -> Vec<Completion> {
    let line = tree::line_around(text, offset);
    let before = &text[line.start..offset.max(line.start)];
    let directive = before.rsplit_once('#').map(|(_, comment)| comment.trim_start());
    let list = directive
        .and_then(|it| it.strip_prefix("ensemble:"))
        .map(str::trim_start);
    let list = list.and_then(|it| it.strip_prefix("allow")).map(str::trim_start);
    if !list.is_some_and(|it| it.starts_with('(') && !it.contains(')')) {
        return Vec::new();
    }
    let span = word_before(text, offset, is_identifier_char);
    let can_be_allowed = codes::ALL
        .iter()
        .filter(|(code, _)| code.severity() != Severity::Error && *code != codes::ALLOWANCE);
    let one = |(code, title): &(ensemble_language::diagnostic::Code, &'static str)| Completion {
        label: code.0.to_owned(),
        kind: Kind::Code,
        detail: Some((*title).to_owned()),
        meaning: None,
        insert: code.0.to_owned(),
        span,
    };
    can_be_allowed.map(one).collect()
}
