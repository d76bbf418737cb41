//! What stands at a place, in Markdown.

use ensemble_language::condition::{Type, find_function_word};
use ensemble_language::ensemble::{Agent, AgentKind, CommandLine, McpServer, ModelChoice, Permission, Tool, ToolKind};
use ensemble_language::loader::explain;
use ensemble_language::source::{Route, Span};
use ensemble_language::template::filter_words;
use ensemble_language::vocabulary::{self, TEMPLATE_VARIABLES, VARIABLES};

use super::code::{self, Reading};
use super::lexis::{Kind, Word};
use super::names::{Named, Occurrence};
use super::tree::{self, Code, Spot};
use super::{View, names};

/// The hover text at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hover {
    /// The text, in Markdown.
    pub text: String,
    /// The bytes that it is about.
    pub span: Span,
}

/// Returns the hover text at an offset.
pub fn hover(view: &View<'_>, offset: usize) -> Option<Hover> {
    let offset = view.text.floor_char_boundary(offset);
    if let Some(hover) = of_code_in_comment(view.text, offset) {
        return Some(hover);
    }
    let document = view.document.as_ref()?;
    if let Some(found) = names::at(view, offset) {
        let text = match found.what {
            Named::Agent => of_agent(view, &found.name),
            Named::Tool => of_tool(view, &found),
        };
        let span = found.whole;
        return Some(Hover { text, span });
    }
    let spot = tree::spot(document, offset)?;
    if spot.is_key {
        return of_key(view, &spot);
    }
    match tree::code_at(&spot.route) {
        Some(code) => of_word(view, &spot, code, offset),
        None => of_value(view, &spot),
    }
}

/// `W013` in a comment.
fn of_code_in_comment(text: &str, offset: usize) -> Option<Hover> {
    let line = tree::line_around(text, offset);
    let before = &text[line.start..offset.clamp(line.start, line.end)];
    before.contains('#').then_some(())?;
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let start = text[..offset]
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let end = text[offset..]
        .find(|c| !is_part(c))
        .map_or(text.len(), |at| offset + at);
    let code = explain::find(&text[start..end])?;
    Some(Hover {
        text: format!("**{}**\n\n{}", code.0, explain::explanation(code)),
        span: Span::new(start, end),
    })
}

fn of_key(view: &View<'_>, spot: &Spot<'_>) -> Option<Hover> {
    let text = view.schema().meaning(&spot.route)?;
    let name = spot.route.0.last().map(|step| Route(vec![step.clone()]).to_string())?;
    Some(Hover {
        text: format!("**`{name}`**\n\n{text}"),
        span: spot.span,
    })
}

/// A word of the schema, such as `on_error: continue`, or the name of a profile or a tool.
fn of_value(view: &View<'_>, spot: &Spot<'_>) -> Option<Hover> {
    let word = spot.node.text()?;
    let values = view.schema().values(&spot.route);
    let meaning = values
        .iter()
        .find(|value| *value.text == **word)
        .and_then(|value| value.meaning);
    let text = match meaning {
        Some(meaning) => meaning.to_owned(),
        None if spot.route.to_string().ends_with("model_profile") => of_profile(view, word)?,
        None => return None,
    };
    Some(Hover {
        text: format!("**`{word}`**\n\n{text}"),
        span: spot.span,
    })
}

fn of_profile(view: &View<'_>, name: &str) -> Option<String> {
    let own = view.ensemble.iter().flat_map(|ensemble| &ensemble.model_profiles);
    let all = own.chain(view.around.configured().unwrap_or_default());
    let (_, profile) = all.into_iter().find(|(known, _)| **known == *name)?;
    let model = if profile.model.is_empty() {
        String::new()
    } else {
        format!("/{}", profile.model)
    };
    Some(format!("A model profile: `{}{model}`.", profile.provider))
}

/// A word of a condition or a template.
fn of_word(view: &View<'_>, spot: &Spot<'_>, code: Code, offset: usize) -> Option<Hover> {
    let document = view.document.as_ref()?;
    let text = spot.node.text()?;
    let inside = tree::inside(document, spot, offset)?;
    let all = code::words(text, code);
    let at = all
        .iter()
        .position(|word| word.span.start <= inside && inside <= word.span.end && word.kind != Kind::Symbol)?;
    let told = meaning_of(view, &all, at, code, &spot.route)?;
    Some(Hover {
        text: told,
        span: document.resolve(&spot.route.clone().text(all[at].span)),
    })
}

fn meaning_of(view: &View<'_>, all: &[Word<'_>], at: usize, code: Code, route: &Route) -> Option<String> {
    let word = all.get(at)?;
    let before = at.checked_sub(1).map(|before| all[before].text);
    let is_call = all.get(at + 1).is_some_and(|next| next.text == "(");
    let is_member = matches!(before, Some("." | "?."));
    let shown = |word: &vocabulary::Word| format!("**`{}`**\n\n{}", word.form, word.documentation);
    if code == Code::Template && before == Some("|") {
        return filter_words().find(|filter| filter.name == word.text).map(shown);
    }
    if code == Code::Condition && is_call {
        return find_function_word(word.text).map(shown);
    }
    let variables: &[vocabulary::Word] = match code {
        Code::Condition => &VARIABLES,
        Code::Template => &TEMPLATE_VARIABLES,
    };
    if !is_member
        && word.kind == Kind::Name
        && let Some(meaning) = variables.iter().find(|variable| variable.name == word.text)
    {
        let kind = match (word.text, code) {
            ("output", Code::Condition) => Reading { view, route, code }
                .type_of(&["output"])
                .map(|known| describe(&known)),
            _ => None,
        };
        let form = kind.unwrap_or_else(|| meaning.form.to_owned());
        return Some(format!("**`{}`**: {form}\n\n{}", meaning.name, meaning.documentation));
    }
    let path = code::path(all, at + 1);
    let known = Reading { view, route, code }.type_of(&path.iter().map(String::as_str).collect::<Vec<_>>())?;
    Some(format!("**`{}`**: {}", path.join("."), describe(&known)))
}

/// Describes an agent.
fn of_agent(view: &View<'_>, name: &str) -> String {
    let mut text = format!("**`{name}`**");
    let Some(agent) = view.agent(name) else {
        return format!("{text}: an agent");
    };
    text.push_str(&format!(": {}", kind_of(agent)));
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
    let output = view.output_of(name);
    if !output.is_any() {
        text.push_str(&format!("\n\nOutput: {}", describe(&output)));
    }
    text
}

fn kind_of(agent: &Agent) -> String {
    match &agent.kind {
        AgentKind::Script { script, .. } => format!("the script `{script}`"),
        AgentKind::Llm(llm) => match &llm.model {
            ModelChoice::Profile(profile) => format!("a language model, profile `{profile}`"),
            ModelChoice::Model { provider, model } => format!("the language model `{provider}/{model}`"),
            ModelChoice::Acp(acp) => format!("the external agent `{}`", acp.program.shown()),
        },
        AgentKind::Input(_) => "a person who is asked".to_owned(),
        AgentKind::Tool { used, .. } => format!(
            "the tool `{}` of the MCP server `{}`, called without a model",
            used.member.as_deref().unwrap_or_default(),
            used.tool
        ),
        AgentKind::Ensemble { ensemble, .. } => format!("the ensemble `{ensemble}`"),
    }
}

/// Describes a tool; for a tool of a server, also the server.
fn of_tool(view: &View<'_>, at: &Occurrence) -> String {
    let rest = view.text.get(at.span.end..at.whole.end).unwrap_or_default();
    let member = rest.trim_end_matches(['"', '\'']).strip_prefix('.');
    let mut text = match member {
        Some(member) => format!(
            "**`{}.{member}`**: the tool `{member}` of the MCP server `{}`",
            at.name, at.name
        ),
        None => format!("**`{}`**", at.name),
    };
    let Some(tool) = view.ensemble.as_ref().and_then(|ensemble| ensemble.tool(&at.name)) else {
        return if member.is_some() {
            text
        } else {
            format!("{text}: a tool")
        };
    };
    let separator = if member.is_some() { ", " } else { ": " };
    text.push_str(&format!("{separator}{}", kind_of_tool(tool)));
    if let Some(description) = &tool.description {
        text.push_str(&format!("\n\n{}", description.trim()));
    }
    text.push_str(match tool.permission {
        Permission::Allow => "\n\nCalls are permitted.",
        Permission::Ask => "\n\nA person permits each call.",
        Permission::Deny => "\n\nCalls are denied.",
    });
    text
}

fn kind_of_tool(tool: &Tool) -> String {
    match &tool.kind {
        ToolKind::Script { script, .. } => format!("the script `{script}`"),
        ToolKind::Agent { agent, .. } => format!("the agent `{agent}`"),
        ToolKind::Ensemble { ensemble, .. } => format!("the ensemble `{ensemble}`"),
        ToolKind::Mcp(McpServer::Url { url, .. }) => format!("the MCP server at `{url}`"),
        ToolKind::Mcp(McpServer::Client) => "the MCP server of this name that the client names".to_owned(),
        ToolKind::Mcp(McpServer::Command { command, .. }) => match command {
            CommandLine::Text(text) => format!("the MCP server `{text}`"),
            CommandLine::Words(words) => format!("the MCP server `{}`", words.join(" ")),
        },
    }
}

/// A type in words, with the keys of a map.
fn describe(known: &Type) -> String {
    let Some(fields) = known.fields().filter(|fields| !fields.known.is_empty()) else {
        return known.to_string();
    };
    let keys = fields.known.iter().map(|(key, (value, is_always))| {
        let perhaps = if *is_always { "" } else { ", not always there" };
        format!("\n- `{key}`: {value}{perhaps}")
    });
    format!("{known} with{}", keys.collect::<String>())
}
