//! Inputs of the run that nothing can read.
//!
//! Only texts are examined: every template, condition and expression, and the Rhai scripts. A program that is no Rhai
//! script receives all inputs, so it may read each. The context contains the inputs, too.

use super::subject::Subject;
use crate::names::is_identifier_char;
use std::sync::Arc;

use super::graph::Graph;
use super::profiles::Profiles;
use super::script::ScriptText;
use super::templates;
use crate::diagnostic::Finding;
use crate::ensemble::{AgentKind, Items, ModelChoice, Responses, ResultSpec, ToolKind};
use crate::loader::codes;
use crate::source::Route;
use crate::template;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The variables that contain the inputs.
const HOLDERS: [&str; 2] = ["inputs", "context"];
/// The highest number of inputs that are searched for, because each is searched for in all texts.
const MOST: usize = 100;
/// The methods that read one literal key, or none.
const METHODS: [&str; 4] = ["get", "contains", "len", "is_empty"];

/// Warns of every input that nothing can read.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // An input that is misspelt where it is read is reported there.
    if subject.has_reported(&[codes::UNKNOWN_INPUT, codes::SCRIPT_READS]) {
        return Vec::new();
    }
    let (graph, profiles) = (subject.graph, subject.profiles());
    let script = &|script: &str| subject.context.script(script);
    let Some(inputs) = &graph.ensemble.inputs else {
        return Vec::new();
    };
    let Some(texts) = texts(graph, profiles, script).filter(|texts| !texts.iter().any(|text| reads_any(text))) else {
        return Vec::new();
    };
    let unread = inputs
        .iter()
        .take(MOST)
        .filter(|input| !texts.iter().any(|text| names(text, &input.name)));
    unread
        .map(|input| {
            let place = Route::root().key("inputs").key(input.name.clone()).as_key();
            let message = format!("nothing can read the input `{}`", input.name);
            let help = format!(
                "write `{{{{ inputs.{} }}}}` in a prompt, read it in a condition or a script, or remove it",
                input.name
            );
            let fix = RouteFix::not_safe("remove the input", RouteEdit::Remove(place.route.clone()));
            Finding::warning(codes::UNREAD_INPUT, place, message)
                .help(help)
                .with_fix(fix)
        })
        .collect()
}

/// All texts that can read inputs; `None` if something else can read them.
fn texts(
    graph: &Graph<'_>,
    profiles: &Profiles<'_>,
    script: &dyn Fn(&str) -> Option<Arc<ScriptText>>,
) -> Option<Vec<String>> {
    let mut scripts = Vec::new();
    let mut models = Vec::new();
    for agent in &graph.ensemble.agents {
        match &agent.kind {
            AgentKind::Script { script, .. } => scripts.push(script.as_str()),
            AgentKind::Llm(llm) => match &llm.model {
                ModelChoice::Profile(name) => models.push(&**name),
                ModelChoice::Model { .. } | ModelChoice::Acp(_) => {}
            },
            AgentKind::Input(input) => match &input.responses {
                Some(Responses::Script(script)) => scripts.push(script.as_str()),
                Some(Responses::Profile(name)) => models.push(&**name),
                Some(Responses::List(_)) | None => {}
            },
            AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => {}
        }
    }
    scripts.extend(graph.ensemble.tools.iter().filter_map(|(_, tool)| match &tool.kind {
        ToolKind::Script { script, .. } => Some(script.as_str()),
        ToolKind::Agent { .. } | ToolKind::Ensemble { .. } | ToolKind::Mcp(_) => None,
    }));
    let mut texts = Vec::new();
    for name in scripts {
        texts.push(without_comments(&script(name)?.text));
    }
    let of_profiles = profiles.prompts(&models)?;
    let of_file = templates::all(graph.ensemble).map(|(text, _)| text);
    let all_templates = of_file.chain(of_profiles);
    for text in all_templates {
        let tags = template::tags(text);
        texts.extend(tags.map(|tag| text[tag.inside.start..tag.inside.end].to_owned()));
    }
    texts.extend(
        graph
            .all_edges()
            .filter_map(|(_, edge)| edge.dependency.condition.as_deref().map(str::to_owned)),
    );
    for spec in graph.ensemble.agents.iter().filter_map(|agent| agent.for_each.as_ref()) {
        if let Items::Expression(text) = &spec.items {
            texts.push(text.clone());
        }
        texts.extend(spec.key.clone());
        texts.extend(spec.combine.expression().map(|(_, text)| text.to_owned()));
    }
    if let Some(ResultSpec::Map(entries)) = &graph.ensemble.result {
        texts.extend(entries.iter().map(|(_, text)| text.clone()));
    }
    Some(texts)
}

/// The text without the lines that are only a comment.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns whether the text contains the name of the input as a key.
fn names(text: &str, name: &str) -> bool {
    places(text, name).any(|(before, _)| before.ends_with(['.', '"', '\'', '`']))
}

/// Returns whether the text uses all inputs, or one whose name it computes.
fn reads_any(text: &str) -> bool {
    let is_whole = |(before, after): (&str, &str)| !before.ends_with('.') && !reads_one(after);
    text.contains("debug") || HOLDERS.iter().any(|holder| places(text, holder).any(is_whole))
}

/// Returns whether the text after a map reads one literal key.
fn reads_one(after: &str) -> bool {
    let after = after.trim_start().trim_start_matches('?');
    let is_quoted = |text: &str| text.trim_start().starts_with(['"', '\'']);
    if let Some(index) = after.strip_prefix('[') {
        return is_quoted(index);
    }
    let Some(member) = after.strip_prefix('.') else {
        return false;
    };
    let member = member.trim_start();
    let length = member.find(|c: char| !is_identifier_char(c)).unwrap_or(member.len());
    match member[length..].strip_prefix('(') {
        Some(arguments) => METHODS.contains(&&member[..length]) && (is_quoted(arguments) || arguments.starts_with(')')),
        None => true,
    }
}

/// Iterates over the texts before and after each occurrence of the word.
fn places<'t>(text: &'t str, word: &str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let length = word.len();
    let found: Vec<usize> = text.match_indices(word).map(|(at, _)| at).collect();
    let parts = found.into_iter().map(move |at| (&text[..at], &text[at + length..]));
    parts.filter(|(before, after)| !before.ends_with(is_identifier_char) && !after.starts_with(is_identifier_char))
}
