//! Inputs of the run that nothing can read.
//!
//! Only texts are examined: every template, condition and expression, and the Rhai scripts. A program that is no Rhai
//! script receives all inputs, so it may read each. The context contains the inputs, too.

use super::check_subject::CheckSubject;
use crate::names::is_identifier_char;
use std::sync::Arc;

use super::check_graph::CheckGraph;
use super::script_text::ScriptText;
use super::templates;
use super::usable_profiles::UsableProfiles;
use crate::diagnostic::Finding;
use crate::ensemble::{AgentKind, ForEachItems, ModelChoice, PreparedResponses, ResultSpec, ToolKind};
use crate::loader::codes;
use crate::source::Route;
use crate::template;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The variables that contain the inputs.
const INPUT_VARIABLES: [&str; 2] = ["inputs", "context"];
/// The highest number of inputs that are searched for, because each is searched for in all texts.
const MAX_SEARCHED_INPUTS: usize = 100;
/// The methods that read one literal key, or none.
const LITERAL_KEY_METHODS: [&str; 4] = ["get", "contains", "len", "is_empty"];

/// Warns of every input that nothing can read.
pub(super) fn check_unread_inputs(subject: &CheckSubject<'_>) -> Vec<Finding> {
    // An input that is misspelt where it is read is reported there.
    if subject.has_reported_code(&[codes::UNKNOWN_INPUT, codes::SCRIPT_READS]) {
        return Vec::new();
    }
    let (graph, profiles) = (subject.graph, subject.usable_profiles());
    let script = &|script: &str| subject.context.find_script(script);
    let Some(inputs) = &graph.ensemble.inputs else {
        return Vec::new();
    };
    let Some(texts) =
        collect_reading_texts(graph, profiles, script).filter(|texts| !texts.iter().any(|text| reads_all_inputs(text)))
    else {
        return Vec::new();
    };
    let unread = inputs
        .iter()
        .take(MAX_SEARCHED_INPUTS)
        .filter(|input| !texts.iter().any(|text| contains_name_as_key(text, &input.name)));
    unread
        .map(|input| {
            let place = Route::root()
                .with_key("inputs")
                .with_key(input.name.clone())
                .into_key_location();
            let message = format!("nothing can read the input `{}`", input.name);
            let help = format!(
                "write `{{{{ inputs.{} }}}}` in a prompt, read it in a condition or a script, or remove it",
                input.name
            );
            let fix = RouteFix::new_unsafe("remove the input", RouteEdit::Remove(place.route.clone()));
            Finding::new_warning(codes::UNREAD_INPUT, place, message)
                .with_help(help)
                .with_fix(fix)
        })
        .collect()
}

/// Returns all texts that can read inputs. Returns `None` if anything else can read inputs.
fn collect_reading_texts(
    graph: &CheckGraph<'_>,
    profiles: &UsableProfiles<'_>,
    script: &dyn Fn(&str) -> Option<Arc<ScriptText>>,
) -> Option<Vec<String>> {
    let mut scripts = Vec::new();
    let mut models = Vec::new();
    for agent in &graph.ensemble.agents {
        match &agent.kind {
            // A process with `stdin` reads only what its templates contain.
            AgentKind::Script { stdin: Some(_), .. } => {}
            AgentKind::Script { script, .. } => scripts.push(script.as_str()),
            AgentKind::Llm(llm) => match &llm.model {
                ModelChoice::Profile(name) => models.push(&**name),
                ModelChoice::Model { .. } | ModelChoice::Acp(_) => {}
            },
            AgentKind::Input(input) => match &input.responses {
                Some(PreparedResponses::Script(script)) => scripts.push(script.as_str()),
                Some(PreparedResponses::Profile(name)) => models.push(&**name),
                Some(PreparedResponses::List(_)) | None => {}
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
        texts.push(remove_comment_lines(&script(name)?.text));
    }
    let of_profiles = profiles.system_prompts(&models)?;
    let of_file = templates::list_templates(graph.ensemble).map(|(text, _)| text);
    let all_templates = of_file.chain(of_profiles);
    for text in all_templates {
        let tags = template::iter_tags(text);
        texts.extend(tags.map(|tag| text[tag.inner_span.start..tag.inner_span.end].to_owned()));
    }
    texts.extend(
        graph
            .list_edges()
            .filter_map(|(_, edge)| edge.dependency.condition.as_deref().map(str::to_owned)),
    );
    for spec in graph.ensemble.agents.iter().filter_map(|agent| agent.for_each.as_ref()) {
        if let ForEachItems::Expression(text) = &spec.items {
            texts.push(text.clone());
        }
        texts.extend(spec.key.clone());
        texts.extend(spec.combine.keyed_expression().map(|(_, text)| text.to_owned()));
    }
    if let Some(ResultSpec::Map(entries)) = &graph.ensemble.result {
        texts.extend(entries.iter().map(|(_, text)| text.clone()));
    }
    texts.extend(graph.ensemble.success.iter().map(|text| text.to_string()));
    Some(texts)
}

/// Returns the text without lines that contain only a `//` comment.
fn remove_comment_lines(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns whether the text contains the name after a dot or a quote.
fn contains_name_as_key(text: &str, name: &str) -> bool {
    split_around_word(text, name).any(|(before, _)| before.ends_with(['.', '"', '\'', '`']))
}

/// Returns whether the text may read all inputs, or an input whose name is computed.
fn reads_all_inputs(text: &str) -> bool {
    let is_whole = |(before, after): (&str, &str)| !before.ends_with('.') && !reads_literal_key(after);
    text.contains("debug")
        || INPUT_VARIABLES
            .iter()
            .any(|holder| split_around_word(text, holder).any(is_whole))
}

/// Returns whether the text after a map variable reads one literal key.
fn reads_literal_key(after: &str) -> bool {
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
        Some(arguments) => {
            LITERAL_KEY_METHODS.contains(&&member[..length]) && (is_quoted(arguments) || arguments.starts_with(')'))
        }
        None => true,
    }
}

/// Returns the text before and the text after each occurrence of the whole word.
fn split_around_word<'t>(text: &'t str, word: &str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let length = word.len();
    let positions: Vec<usize> = text.match_indices(word).map(|(at, _)| at).collect();
    let parts = positions.into_iter().map(move |at| (&text[..at], &text[at + length..]));
    parts.filter(|(before, after)| !before.ends_with(is_identifier_char) && !after.starts_with(is_identifier_char))
}
