//! What stands at a place, in Markdown.

use ensemble_language::condition::{ValueType, find_function_word};
use ensemble_language::ensemble::{
    Agent, AgentKind, CommandLine, McpServer, ModelChoice, PermissionMode, ToolDefinition, ToolKind,
};
use ensemble_language::loader::code_explanations;
use ensemble_language::source::{Route, Span};
use ensemble_language::template::list_filter_words;
use ensemble_language::vocabulary::{self, CONDITION_VARIABLES, TEMPLATE_VARIABLES};
use serde_json::Value;

use super::document_tree::{self, CodeLanguage, KeyOrScalar};
use super::expression_code::{self, CodeAtRoute};
use super::lexer::{CodeWord, CodeWordKind};
use super::name_occurrences::{NameOccurrence, NamedItemKind};
use super::{EditorView, name_occurrences};

/// The hover text at a position, in Markdown, with the span that it describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoverText {
    /// The text, in Markdown.
    pub text: String,
    /// The bytes that it is about.
    pub span: Span,
}

/// Returns the hover text at an offset: of a code, a name, a key, a value or a word of code.
pub fn find_hover_text(view: &EditorView<'_>, offset: usize) -> Option<HoverText> {
    let offset = view.text.floor_char_boundary(offset);
    if let Some(hover) = hover_for_finding_code(view.text, offset) {
        return Some(hover);
    }
    let document = view.document.as_ref()?;
    if let Some(occurrence) = name_occurrences::find_occurrence_at(view, offset) {
        let text = match occurrence.subject {
            NamedItemKind::Agent => describe_agent(view, &occurrence.name),
            NamedItemKind::Tool => describe_tool(view, &occurrence),
            NamedItemKind::Input => describe_input(view, &occurrence.name),
        };
        let span = occurrence.whole_span;
        return Some(HoverText { text, span });
    }
    let spot = document_tree::find_key_or_scalar(document, offset)?;
    if spot.is_key {
        return hover_for_key(view, &spot);
    }
    match document_tree::find_code_language(&spot.route) {
        Some(code) => hover_for_code_word(view, &spot, code, offset),
        None => hover_for_value(view, &spot),
    }
}

/// Returns the explanation of a code such as `W013` in a comment.
fn hover_for_finding_code(text: &str, offset: usize) -> Option<HoverText> {
    let line = document_tree::find_line_span(text, offset);
    let before = &text[line.start..offset.clamp(line.start, line.end)];
    before.contains('#').then_some(())?;
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let start = text[..offset]
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let end = text[offset..]
        .find(|c| !is_part(c))
        .map_or(text.len(), |at| offset + at);
    let code = code_explanations::find_code(&text[start..end])?;
    Some(HoverText {
        text: format!("**{}**\n\n{}", code.0, code_explanations::explain_code(code)),
        span: Span::new(start, end),
    })
}

/// Returns the documentation of a key.
fn hover_for_key(view: &EditorView<'_>, spot: &KeyOrScalar<'_>) -> Option<HoverText> {
    let text = view.schema_for_kind().describe_value(&spot.route)?;
    let name = spot.route.0.last().map(|step| Route(vec![step.clone()]).to_string())?;
    Some(HoverText {
        text: format!("**`{name}`**\n\n{text}"),
        span: spot.span,
    })
}

/// Returns the meaning of a word of the schema, such as `on_error: continue`, or the description of a model profile.
fn hover_for_value(view: &EditorView<'_>, spot: &KeyOrScalar<'_>) -> Option<HoverText> {
    let word = spot.node.string_text()?;
    let values = view.schema_for_kind().list_words_and_booleans(&spot.route);
    let meaning = values
        .iter()
        .find(|value| *value.text == **word)
        .and_then(|value| value.meaning);
    let text = match meaning {
        Some(meaning) => meaning.to_owned(),
        None if is_profile_name_route(&spot.route.to_string()) => describe_profile(view, word)?,
        None => return None,
    };
    Some(HoverText {
        text: format!("**`{word}`**\n\n{text}"),
        span: spot.span,
    })
}

/// Returns whether the value at this route is the name of a model profile.
fn is_profile_name_route(route: &str) -> bool {
    route.ends_with("model_profile") || route.starts_with("tools.") && route.ends_with(".summarize_with")
}

/// Describes a model profile of the ensemble or of the configurations.
fn describe_profile(view: &EditorView<'_>, name: &str) -> Option<String> {
    let own_profiles = view.ensemble.iter().flat_map(|ensemble| &ensemble.model_profiles);
    let all = own_profiles.chain(view.context.configured_profiles().unwrap_or_default());
    let (_, profile) = all.into_iter().find(|(known, _)| **known == *name)?;
    let model = if profile.model.is_empty() {
        String::new()
    } else {
        format!("/{}", profile.model)
    };
    Some(format!("A model profile: `{}{model}`.", profile.provider))
}

/// Returns the description of a word of a condition or a template.
fn hover_for_code_word(
    view: &EditorView<'_>,
    spot: &KeyOrScalar<'_>,
    code: CodeLanguage,
    offset: usize,
) -> Option<HoverText> {
    let document = view.document.as_ref()?;
    let text = spot.node.string_text()?;
    let inside = document_tree::scalar_text_offset(document, spot, offset)?;
    let all = expression_code::lex_code(text, code);
    let at = all
        .iter()
        .position(|word| word.span.start <= inside && inside <= word.span.end && word.kind != CodeWordKind::Symbol)?;
    let word_text = describe_code_word(view, &all, at, code, &spot.route)?;
    Some(HoverText {
        text: word_text,
        span: document.resolve_span(&spot.route.clone().into_text_location(all[at].span)),
    })
}

/// Describes the word with index `at`: a filter, a function, an agent, a variable or a member.
fn describe_code_word(
    view: &EditorView<'_>,
    all: &[CodeWord<'_>],
    at: usize,
    code: CodeLanguage,
    route: &Route,
) -> Option<String> {
    let word = all.get(at)?;
    let before = at.checked_sub(1).map(|before| all[before].text);
    let is_call = all.get(at + 1).is_some_and(|next| next.text == "(");
    let is_member = matches!(before, Some("." | "?."));
    let describe_word = |word: &vocabulary::LanguageWord| format!("**`{}`**\n\n{}", word.form, word.documentation);
    if code == CodeLanguage::Template && before == Some("|") {
        return list_filter_words()
            .find(|filter| filter.name == word.text)
            .map(describe_word);
    }
    if code == CodeLanguage::Condition && is_call {
        return find_function_word(word.text).map(describe_word);
    }
    let variables: &[vocabulary::LanguageWord] = match code {
        CodeLanguage::Condition => &CONDITION_VARIABLES,
        CodeLanguage::Template => &TEMPLATE_VARIABLES,
    };
    if !is_member
        && word.kind == CodeWordKind::Name
        && let Some(meaning) = variables.iter().find(|variable| variable.name == word.text)
    {
        let kind = match (word.text, code) {
            ("output", CodeLanguage::Condition) => CodeAtRoute { view, route, code }
                .type_at_path(&["output"])
                .map(|known| describe_type(&known)),
            _ => None,
        };
        let form = kind.unwrap_or_else(|| meaning.form.to_owned());
        return Some(format!("**`{}`**: {form}\n\n{}", meaning.name, meaning.documentation));
    }
    let path = expression_code::path_before_word(all, at + 1);
    let value_type =
        CodeAtRoute { view, route, code }.type_at_path(&path.iter().map(String::as_str).collect::<Vec<_>>())?;
    Some(format!("**`{}`**: {}", path.join("."), describe_type(&value_type)))
}

/// Describes an agent: its kind, its description, its dependencies and its output.
fn describe_agent(view: &EditorView<'_>, name: &str) -> String {
    let mut text = format!("**`{name}`**");
    let Some(agent) = view.find_known_agent(name) else {
        return format!("{text}: an agent");
    };
    text.push_str(&format!(": {}", describe_agent_kind(agent)));
    if let Some(description) = &agent.description {
        text.push_str(&format!("\n\n{}", description.trim()));
    }
    let needed: Vec<String> = agent
        .dependencies
        .iter()
        .map(|on| format!("`{}`", on.agent_name))
        .collect();
    if !needed.is_empty() {
        text.push_str(&format!("\n\nDepends on {}.", needed.join(", ")));
    }
    let output = view.agent_output_type(name);
    if !output.is_any() {
        text.push_str(&format!("\n\nOutput: {}", describe_type(&output)));
    }
    text
}

/// Describes an input: its type, its default and its description.
fn describe_input(view: &EditorView<'_>, name: &str) -> String {
    let declared = view.ensemble.as_ref().and_then(|ensemble| ensemble.inputs.as_ref());
    let declaration = declared.into_iter().flatten().find(|input| *input.name == *name);
    let schema = declaration.map_or(&Value::Null, |input| &input.schema);
    let of_type = schema["type"]
        .as_str()
        .map_or_else(String::new, |word| format!(", {word}"));
    let default = match &schema["default"] {
        Value::Null => String::new(),
        value => format!(", default `{value}`"),
    };
    let description = schema["description"].as_str().unwrap_or_default().trim();
    let text = format!("**`{name}`**: an input{of_type}{default}");
    match description.is_empty() {
        true => text,
        false => format!("{text}\n\n{description}"),
    }
}

/// Describes what the agent runs.
fn describe_agent_kind(agent: &Agent) -> String {
    match &agent.kind {
        AgentKind::Script { script, .. } => format!("the script `{script}`"),
        AgentKind::Llm(llm) => match &llm.model {
            ModelChoice::Profile(profile) => format!("a language model, profile `{profile}`"),
            ModelChoice::Model { provider, model } => format!("the language model `{provider}/{model}`"),
            ModelChoice::Acp(acp) => format!("the external agent `{}`", acp.program.display_name()),
        },
        AgentKind::Input(_) => "a question to a person".to_owned(),
        AgentKind::Tool { used, .. } => format!(
            "the tool `{}` of the MCP server `{}`, called without a model",
            used.member.as_deref().unwrap_or_default(),
            used.tool
        ),
        AgentKind::Ensemble { ensemble, .. } => format!("the ensemble `{ensemble}`"),
    }
}

/// Describes a tool. For a tool of a server, also describes the server.
fn describe_tool(view: &EditorView<'_>, at: &NameOccurrence) -> String {
    let suffix = view.text.get(at.span.end..at.whole_span.end).unwrap_or_default();
    let member = suffix.trim_end_matches(['"', '\'']).strip_prefix('.');
    let mut text = match member {
        Some(member) => format!(
            "**`{}.{member}`**: the tool `{member}` of the MCP server `{}`",
            at.name, at.name
        ),
        None => format!("**`{}`**", at.name),
    };
    let Some(tool) = view.ensemble.as_ref().and_then(|ensemble| ensemble.find_tool(&at.name)) else {
        return if member.is_some() {
            text
        } else {
            format!("{text}: a tool")
        };
    };
    let separator = if member.is_some() { ", " } else { ": " };
    text.push_str(&format!("{separator}{}", describe_tool_kind(tool)));
    if let Some(description) = &tool.description {
        text.push_str(&format!("\n\n{}", description.trim()));
    }
    text.push_str(match tool.permission {
        PermissionMode::Allow => "\n\nCalls are permitted.",
        PermissionMode::Ask => "\n\nEach call needs the permission of a person.",
        PermissionMode::Deny => "\n\nCalls are denied.",
    });
    text
}

/// Describes the implementation of the tool.
fn describe_tool_kind(tool: &ToolDefinition) -> String {
    match &tool.kind {
        ToolKind::Script { script, .. } => format!("the script `{script}`"),
        ToolKind::Agent { agent, .. } => format!("the agent `{agent}`"),
        ToolKind::Ensemble { ensemble, .. } => format!("the ensemble `{ensemble}`"),
        ToolKind::Mcp(McpServer::Url { url, .. }) => format!("the MCP server at `{url}`"),
        ToolKind::Mcp(McpServer::Client) => "the MCP server with this name that the client provides".to_owned(),
        ToolKind::Mcp(McpServer::Command { command, .. }) => match command {
            CommandLine::Text(text) => format!("the MCP server `{text}`"),
            CommandLine::Words(words) => format!("the MCP server `{}`", words.join(" ")),
        },
    }
}

/// Describes a type, with the keys of a map.
fn describe_type(known: &ValueType) -> String {
    let Some(fields) = known.map_fields().filter(|fields| !fields.known_keys.is_empty()) else {
        return known.to_string();
    };
    let keys = fields.known_keys.iter().map(|(key, (value, is_always))| {
        let perhaps = if *is_always { "" } else { ", not always present" };
        format!("\n- `{key}`: {value}{perhaps}")
    });
    format!("{known} with{}", keys.collect::<String>())
}
