//! What can be typed at a place.

use ensemble_language::condition::list_function_words;
use ensemble_language::diagnostic::FindingSeverity;
use ensemble_language::ensemble::{PROVIDERS, SIMULATED_PROVIDER};
use ensemble_language::loader::codes;
use ensemble_language::names::is_identifier_char;
use ensemble_language::source::{Route, RouteStep, Span};
use ensemble_language::template::{self, list_filter_words};
use ensemble_language::vocabulary::{CONDITION_VARIABLES, LanguageWord, TEMPLATE_VARIABLES, chooses_agent_type};

use super::cursor::{PossibleTreeCursor, TypedTextKind, list_possible_cursors};
use super::document_tree::{self, CodeLanguage};
use super::expression_code::{self, CodeAtRoute};
use super::lexer::CodeWordKind as WordKind;
use super::{EditorView, findings, lexer, schema, test_file_patterns};

/// A completion: a text that can be typed at a position, with its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorCompletion {
    /// What is shown.
    pub label: String,
    /// What it is.
    pub kind: CompletionKind,
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
pub enum CompletionKind {
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
const MAX_COMPLETIONS: usize = 2000;

/// Returns the completions at a byte offset, at most 2000. Returns none in comments, except for codes.
pub fn list_completions(view: &EditorView<'_>, offset: usize) -> Vec<EditorCompletion> {
    let offset = view.text.floor_char_boundary(offset);
    let mut places = list_possible_cursors(view.text, offset).peekable();
    let mut completions = match places.peek() {
        None => complete_allowed_codes(view.text, offset),
        Some(_) => places
            .map(|cursor| completions_at_cursor(view, &cursor, offset))
            .find(|found| !found.is_empty())
            .unwrap_or_default(),
    };
    completions.truncate(MAX_COMPLETIONS);
    completions
}

/// Returns the completions for one interpretation of the cursor: keys, values, or names in code.
fn completions_at_cursor(view: &EditorView<'_>, cursor: &PossibleTreeCursor, offset: usize) -> Vec<EditorCompletion> {
    let before = match &cursor.what {
        TypedTextKind::Key { others } => return complete_keys(view, cursor, others, offset),
        TypedTextKind::Value { before } => before,
    };
    let cursor_view = EditorView {
        document: Some(cursor.document.clone()),
        ensemble: view.ensemble.clone(),
        ..*view
    };
    if let Some(code) = document_tree::find_code_language(&cursor.route) {
        return complete_code(&cursor_view, &cursor.route, code, before, offset);
    }
    let mut completions = complete_values(&cursor_view, &cursor.route, offset);
    // The beginning of the first key of a map.
    if before.chars().all(is_yaml_name_char) {
        completions.extend(complete_keys(view, cursor, &[], offset));
    }
    completions
}

/// Returns the span of the word that ends at an offset.
fn word_span_before(text: &str, offset: usize, is_part: impl Fn(char) -> bool) -> Span {
    let start = text[..offset]
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_part(*c))
        .last();
    Span::new(start.map_or(offset, |(at, _)| at), offset)
}

/// Returns whether the character can be part of a key or a name in YAML.
fn is_yaml_name_char(c: char) -> bool {
    c.is_alphanumeric() || "_.-".contains(c)
}

/// Returns the keys of the map at the cursor that are not in `others`, or names of agents if they are the keys.
fn complete_keys(
    view: &EditorView<'_>,
    cursor: &PossibleTreeCursor,
    others: &[String],
    offset: usize,
) -> Vec<EditorCompletion> {
    let span = word_span_before(view.text, offset, is_yaml_name_char);
    let has_colon = view.text[offset..]
        .trim_start_matches(is_yaml_name_char)
        .starts_with(':');
    if document_tree::has_agent_name_keys(&cursor.route) {
        let free = view.agent_names().into_iter().filter(|name| !others.contains(name));
        return complete_names(free, CompletionKind::Agent, span);
    }
    let is_root = cursor.route.0.is_empty();
    let runs_something = others.iter().any(|key| chooses_agent_type(key));
    let is_agent = matches!(document_tree::route_pattern(&cursor.route).as_str(), "agents.*");
    let offered = view
        .schema_for_kind()
        .list_keys(&cursor.route)
        .into_iter()
        .filter(|key| {
            let is_known = others.iter().any(|other| other == key.name);
            let is_second_kind = is_agent && runs_something && chooses_agent_type(key.name);
            let is_elsewhere =
                is_root && view.kind == findings::EditedFileKind::Configuration && key.name != "model_profiles";
            !is_known && !is_second_kind && !is_elsewhere
        });
    let key = |key: schema::SchemaKey| EditorCompletion {
        label: key.name.to_owned(),
        kind: CompletionKind::Key,
        detail: None,
        meaning: key.description().map(str::to_owned),
        insert: match (has_colon, key.is_map_or_list_key()) {
            (true, _) => key.name.to_owned(),
            (false, true) => format!("{}:", key.name),
            (false, false) => format!("{}: ", key.name),
        },
        span,
    };
    offered.map(key).collect()
}

/// Converts names to completions of one kind that replace the span.
fn complete_names(names: impl IntoIterator<Item = String>, kind: CompletionKind, span: Span) -> Vec<EditorCompletion> {
    let name = |name: String| EditorCompletion {
        insert: name.clone(),
        label: name,
        kind,
        detail: None,
        meaning: None,
        span,
    };
    names.into_iter().map(name).collect()
}

/// Returns the values that the schema or the ensemble permits at the route.
fn complete_values(view: &EditorView<'_>, route: &Route, offset: usize) -> Vec<EditorCompletion> {
    let span = word_span_before(view.text, offset, is_yaml_name_char);
    let pattern = document_tree::route_pattern(route);
    let agent_pattern = pattern
        .strip_prefix("agents.*.")
        .or_else(|| pattern.strip_prefix("defaults."));
    let is_tool = |last: &str| pattern.starts_with("tools.") && pattern.ends_with(last) && route.0.len() == 3;
    let agents = || complete_names(view.agent_names(), CompletionKind::Agent, span);
    match agent_pattern {
        Some("depends_on.*" | "dependencies.*" | "dependencies.*.agent_name") => {
            let own_name = document_tree::containing_agent_index(route).and_then(|at| {
                let nodes = view.document.as_ref().map(document_tree::agent_nodes)?;
                nodes.get(at)?.get("name")?.string_text().map(ToString::to_string)
            });
            let taken_names: Vec<String> = view.agent_dependency_names(document_tree::containing_agent_index(route));
            let is_short = pattern.ends_with("depends_on.*");
            let free = view.agent_names().into_iter().filter(|name| {
                let is_taken = is_short && taken_names.contains(name);
                Some(name) != own_name.as_ref() && !is_taken
            });
            return complete_names(free, CompletionKind::Agent, span);
        }
        Some("model_profile" | "input.responses.model_profile") => return complete_profiles(view, span),
        Some("model") => {
            let providers = std::iter::once(SIMULATED_PROVIDER).chain(PROVIDERS.iter().map(|provider| provider.name));
            return complete_names(providers.map(|name| format!("{name}/")), CompletionKind::Word, span);
        }
        Some("tool") => {
            let servers = view.list_keys_under("tools").into_iter().filter(|name| {
                let entry = view.document.as_ref().and_then(|document| document.root().get("tools"));
                entry.and_then(|tools| tools.get(name)?.get("mcp")).is_some()
            });
            return complete_names(servers.map(|name| format!("{name}.")), CompletionKind::Name, span);
        }
        Some("tools.*") => return complete_names(view.list_keys_under("tools"), CompletionKind::Name, span),
        _ => {}
    }
    if pattern == "result" || is_tool(".agent") || test_file_patterns::is_agent_name_pattern(&pattern) {
        return agents();
    }
    if pattern.starts_with("model_profiles.") && pattern.ends_with(".fallback") || is_tool(".summarize_with") {
        return complete_profiles(view, span);
    }
    let value = |value: schema::SchemaValue| EditorCompletion {
        insert: value.text.clone(),
        label: value.text,
        kind: CompletionKind::Word,
        detail: None,
        meaning: value.meaning.map(str::to_owned),
        span,
    };
    view.schema_for_kind()
        .list_words_and_booleans(route)
        .into_iter()
        .map(value)
        .collect()
}

/// Returns the profiles of the text and of the configurations.
fn complete_profiles(view: &EditorView<'_>, span: Span) -> Vec<EditorCompletion> {
    let mut profile_names = view.list_keys_under("model_profiles");
    let configured = view.context.configured_profiles().unwrap_or_default();
    for (name, _) in configured {
        if profile_names.iter().all(|known| **known != **name) {
            profile_names.push(name.to_string());
        }
    }
    complete_names(profile_names, CompletionKind::Name, span)
}

/// Returns the names that can follow the text `before` in a condition or a template.
fn complete_code(
    view: &EditorView<'_>,
    route: &Route,
    code: CodeLanguage,
    before: &str,
    offset: usize,
) -> Vec<EditorCompletion> {
    if code == CodeLanguage::Template && !is_in_tag(before) {
        return Vec::new();
    }
    let all = expression_code::lex_code(before, code);
    let reading = CodeAtRoute { view, route, code };
    let is_last = |word: &&lexer::CodeWord<'_>| word.span.end == before.len();
    let last = all.last().filter(is_last);
    // In a string that has no end: a key in brackets.
    if last.is_some_and(|word| word.kind == WordKind::Text) {
        let end = all.len() - 1;
        if end < 1 || !matches!(all[end - 1].text, "[" | "?[") {
            return Vec::new();
        }
        let path = expression_code::path_before_word(&all, end - 1);
        return complete_members(
            &reading,
            &path,
            word_span_before(view.text, offset, is_yaml_name_char),
            true,
        );
    }
    let partial = last.filter(|word| word.kind == WordKind::Name);
    let end = all.len() - usize::from(partial.is_some());
    let span = word_span_before(view.text, offset, is_identifier_char);
    match end.checked_sub(1).map(|at| all[at].text) {
        Some("." | "?.") => complete_members(&reading, &expression_code::path_before_word(&all, end - 1), span, false),
        Some("|") if code == CodeLanguage::Template => {
            complete_vocabulary(list_filter_words(), CompletionKind::Function, span)
        }
        _ => complete_expression_start(&reading, span),
    }
}

/// Returns whether the end of the text is inside of `{{ … }}` or `{% … %}`.
fn is_in_tag(before: &str) -> bool {
    template::iter_tags(before).last().is_some_and(|tag| !tag.is_closed)
}

/// Returns the members of the value at the path. `is_text`: the member is a string in brackets, and can be any name.
fn complete_members(reading: &CodeAtRoute<'_>, path: &[String], span: Span, is_text: bool) -> Vec<EditorCompletion> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let members = reading.list_member_candidates(&path).into_iter();
    // After a dot, only identifiers can be written.
    let can_stand = |name: &str| {
        is_text || (name.chars().all(is_identifier_char) && !name.starts_with(|c: char| c.is_ascii_digit()))
    };
    let member = |member: expression_code::MemberCandidate| EditorCompletion {
        insert: member.name.clone(),
        label: member.name,
        kind: if member.is_agent {
            CompletionKind::Agent
        } else {
            CompletionKind::Variable
        },
        detail: Some(member.detail),
        meaning: None,
        span,
    };
    let mut offered: Vec<EditorCompletion> = members.filter(|one| can_stand(&one.name)).map(member).collect();
    let is_of_agents = matches!(path.as_slice(), ["outputs" | "executions" | "agent_execution_count"]);
    if reading.code == CodeLanguage::Condition && !is_text && !is_of_agents && !path.is_empty() {
        offered.extend(complete_vocabulary(
            list_function_words(),
            CompletionKind::Function,
            span,
        ));
    }
    offered
}

/// Returns the words with which an expression can begin.
fn complete_expression_start(reading: &CodeAtRoute<'_>, span: Span) -> Vec<EditorCompletion> {
    match reading.code {
        CodeLanguage::Condition => {
            let is_condition = matches!(reading.route.0.last(), Some(RouteStep::Key(key)) if &**key == "condition");
            let mut offered = complete_vocabulary(&CONDITION_VARIABLES, CompletionKind::Variable, span);
            offered.retain(|one| one.label != "output" || is_condition);
            offered.extend(complete_vocabulary(
                list_function_words(),
                CompletionKind::Function,
                span,
            ));
            offered.extend(complete_names(
                ["and", "or", "not", "in", "for", "if", "else", "True", "False", "None"].map(str::to_owned),
                CompletionKind::Word,
                span,
            ));
            offered
        }
        CodeLanguage::Template => {
            let dependencies = reading.list_agent_dependencies().into_iter();
            let mut offered = complete_names(
                dependencies.filter(|name| name.chars().all(is_identifier_char)),
                CompletionKind::Agent,
                span,
            );
            offered.extend(complete_vocabulary(&TEMPLATE_VARIABLES, CompletionKind::Variable, span));
            offered
        }
    }
}

/// Converts words of the language to completions that replace the span.
fn complete_vocabulary(
    words: impl IntoIterator<Item = &'static LanguageWord>,
    kind: CompletionKind,
    span: Span,
) -> Vec<EditorCompletion> {
    let to_completion = |word: &'static LanguageWord| EditorCompletion {
        label: word.name.to_owned(),
        kind,
        detail: Some(word.form.to_owned()),
        meaning: Some(word.documentation.to_owned()),
        insert: word.name.to_owned(),
        span,
    };
    words.into_iter().map(to_completion).collect()
}

/// Returns the codes that an `allow` comment at the offset can name.
fn complete_allowed_codes(text: &str, offset: usize) -> Vec<EditorCompletion> {
    let line = document_tree::find_line_span(text, offset);
    let before = &text[line.start..offset.max(line.start)];
    let directive = before.rsplit_once('#').map(|(_, comment)| comment.trim_start());
    let list = directive
        .and_then(|it| it.strip_prefix("ensemble:"))
        .map(str::trim_start);
    let list = list.and_then(|it| it.strip_prefix("allow")).map(str::trim_start);
    if !list.is_some_and(|it| it.starts_with('(') && !it.contains(')')) {
        return Vec::new();
    }
    let span = word_span_before(text, offset, is_identifier_char);
    let can_be_allowed = codes::ALL
        .iter()
        .filter(|(code, _)| code.severity() != FindingSeverity::Error && *code != codes::ALLOWANCE);
    let to_completion = |(code, title): &(ensemble_language::diagnostic::FindingCode, &'static str)| EditorCompletion {
        label: code.0.to_owned(),
        kind: CompletionKind::Code,
        detail: Some((*title).to_owned()),
        meaning: None,
        insert: code.0.to_owned(),
        span,
    };
    can_be_allowed.map(to_completion).collect()
}
