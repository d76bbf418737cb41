//! Prompts and questions: MiniJinja templates, compiled once, and rendered with the data of an execution.
//!
//! There are two kinds of missing values. A *name* that no execution can have (a spelling mistake, or an agent that is
//! not a dependency) is an error, because a model would answer a prompt without its subject with invented content. A
//! *key* that does not exist yet (`context.review` before the first review) is rendered as an empty text, so that one
//! prompt works for the first turn and all later ones. The same applies to a dependency that has no output yet.
//!
//! The variables are those of [`vocabulary::TEMPLATE_VARIABLES`], and the names of dependencies: the latest output of each, which
//! is printed as its `response` if it has one.
//!
//! A part of an execution (`for_each`) also has its item, under the name that the author gives it, and `part`: `index`,
//! `key` and `count`.
//!
//! An agent with one of the fixed names is available only under `dependencies`.
//!
//! **Invariant:** rendering copies only the texts that it prints, never the context or an output.
//!
//! Prompts and questions. Before a text is parsed, `template/scan.rs` reads its tokens: a template that nests too deeply is not parsed,
//! because the library's parser would overflow the stack. `template/kept.rs` checks each value that a template assigns, so that no value
//! contains itself. `template/typing.rs` walks over the library's syntax tree with what is known of the variables (the types of
//! `condition`), and reports what cannot work.

mod assigned_values;
mod error;
mod missing_keys;
mod printed_paths;
mod render_check;
mod scan;
mod syntax;
mod typing;
mod view;

use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock};

use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

use self::assigned_values::FilteredTemplate;
pub use self::error::TemplateError;
use self::error::{find_word_in_tags, unknown_variable_error};
pub use self::missing_keys::{MissingKeyCollector, MissingOutputKey};
pub use self::printed_paths::{PrintedPath, list_printed_paths};
pub use self::render_check::{RenderStopCheck, render_with_check};
use self::scan::{DEPTH_LIMIT, TemplateScan, scan_template};
pub use self::syntax::{TemplateTag, TemplateTagKind, contains_tag_start, iter_tags};
pub use self::typing::{VariableTypeLookup, find_type_problems, list_filter_words};
pub use crate::data::render_output_text;
use crate::data::{AgentRequest, JsonMap, RunContext};
use crate::execution_history::ExecutionHistory;
use crate::source::Span;
use crate::vocabulary;

/// The names that every template can use, in addition to the names of dependencies.
pub const VARIABLES: [&str; 11] = vocabulary::word_names(&vocabulary::TEMPLATE_VARIABLES);

/// Those of them that tell of all executions.
const HISTORY_VARIABLES: [&str; 2] = ["history", "transcript"];

/// The maximum number of steps of one rendering: thousands of times what a prompt needs, in a fraction of a second.
const MAX_RENDER_STEPS: u64 = 1_000_000;

/// The maximum number of bytes of one rendering: the same limit as for a script's output.
const MAX_BYTES: usize = 10 * 1024 * 1024;

const BACKWARD_STEP_ERROR: &str =
    "the step of a slice must be a number above zero; `| reverse` reverses a list or a text";

const OTHER_TEMPLATE_ERROR: &str = "a template cannot include or extend another template";

/// How MiniJinja's parser refuses brackets and blocks that are nested too deeply.
const PARSER_DEPTH_ERROR: &str = "template exceeds maximum recursion limits";

/// The name of the template in its environment; without a file extension, nothing is escaped.
const TEMPLATE_NAME: &str = "template";

/// The environment for templates that are parsed but not kept.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(build_environment);

/// The data of an execution, in the form for templates.
#[derive(Debug, Clone, Default)]
pub struct TemplateScope {
    /// `input`.
    pub input: Arc<str>,
    /// `inputs`.
    pub inputs: Arc<RunContext>,
    /// `context`.
    pub context: Arc<RunContext>,
    /// `turn_count`.
    pub turn_count: u32,
    /// `execution`.
    pub execution: u32,
    /// All dependencies, with or without an output.
    pub listens_to: Arc<[Arc<str>]>,
    /// The latest outputs of the dependencies that have one, in declaration order.
    pub dependencies: Vec<(Arc<str>, Arc<Value>)>,
    /// `news`: the agents whose new outputs started the execution.
    pub news: Vec<Arc<str>>,
    /// The outputs that follow a prompt without variables, in this order.
    pub unprompted_outputs: Vec<(Arc<str>, Arc<Value>)>,
    /// `parameters`.
    pub parameters: Arc<JsonMap>,
    /// `request`.
    pub request: Option<Arc<AgentRequest>>,
    /// `history` and `transcript`.
    pub history: ExecutionHistory,
    /// The variables of a part of an execution: the item under its name, and `part`.
    pub part: Option<[(Arc<str>, Arc<Value>); 2]>,
    /// The keys that were missing in renderings.
    pub missing_keys: MissingKeyCollector,
}

/// A compiled template. Clones share the compiled form.
#[derive(Clone)]
pub struct Template(Arc<CompiledTemplate>);

struct CompiledTemplate {
    environment: Environment<'static>,
    text: Arc<str>,
    /// The text with the filters of assigned values, which is rendered.
    filtered_template: FilteredTemplate,
    /// Rendering takes little time and memory, compared with the printed values.
    is_light: bool,
    variables: Vec<String>,
    /// The paths that the template prints without a test or a default.
    printed_paths: Vec<PrintedPath>,
    /// The rendered text of a template without expressions and tags, which is the same for every execution.
    constant: Option<String>,
}

impl Template {
    /// Compiles the text. # Errors: the text is no template, is nested too deeply or uses another template.
    pub fn compile(text: &str) -> Result<Self, TemplateError> {
        let scan = scan_checked(text).map_err(TemplateCheckError::into_error)?;
        if !scan.assigned_values.is_empty() {
            // What is no template must not become one by what is added.
            parse_checked(text).map_err(TemplateCheckError::into_error)?;
        }
        let filtered = FilteredTemplate::new(text, &scan.assigned_values);
        let mut compiled = CompiledTemplate {
            environment: build_environment(),
            text: text.into(),
            filtered_template: filtered,
            is_light: scan.is_light,
            variables: Vec::new(),
            printed_paths: list_printed_paths(text),
            constant: None,
        };
        let added = compiled
            .environment
            .add_template_owned(TEMPLATE_NAME, compiled.filtered_template.text.clone());
        added.map_err(|error| compiled.convert_error(&error))?;
        compiled.variables = compiled
            .environment
            .get_template(TEMPLATE_NAME)
            .map(|template| list_undeclared_variables(&compiled.environment, &template))
            .unwrap_or_default();
        let template = Self(Arc::new(compiled));
        if !contains_no_brace(text) {
            return Ok(template);
        }
        // A text that is too long is an error of the execution.
        let constant = template.render(&TemplateScope::default()).ok();
        Ok(match Arc::try_unwrap(template.0) {
            Ok(compiled) => Self(Arc::new(CompiledTemplate { constant, ..compiled })),
            Err(shared) => Self(shared),
        })
    }

    /// Returns whether rendering takes little time and memory, unless the values that are printed are large. Every
    /// other template is rendered where it does not delay anything else, and under limits ([`render_with_check`]).
    pub fn renders_quickly(&self) -> bool {
        self.0.is_light
    }

    /// Returns whether the text uses any variable.
    pub fn uses_variables(&self) -> bool {
        !self.0.variables.is_empty()
    }

    /// Returns the variables that the template may use, sorted, without functions of the template language.
    pub fn variable_names(&self) -> &[String] {
        &self.0.variables
    }

    /// Renders the template. Missing keys of existing outputs are printed as nothing and collected in the scope.
    pub fn render(&self, scope: &TemplateScope) -> Result<String, TemplateError> {
        let compiled_template = &self.0;
        if let Some(constant) = &compiled_template.constant {
            return Ok(constant.clone());
        }
        compiled_template.check_variables(scope)?;
        let mut out = LimitedBuffer::default();
        let template = compiled_template.environment.get_template(TEMPLATE_NAME);
        template
            .and_then(|template| {
                template
                    .render_captured_to(view::build_root_value(scope), &mut out)
                    .map(drop)
            })
            .map_err(|error| compiled_template.convert_error(&error))?;
        scope.missing_keys.retain_printed_by(&compiled_template.printed_paths);
        Ok(String::from_utf8_lossy(&out.0).into_owned())
    }

    /// Returns the value of a template that is exactly one `{{ expression }}`; of every other template its rendered
    /// text. Keys that are missing are noted as by [`Template::render`].
    pub fn render_value(&self, scope: &TemplateScope) -> Result<Value, TemplateError> {
        let compiled_template = &self.0;
        let Some(expression) = find_only_expression(&compiled_template.text) else {
            return self.render(scope).map(Value::String);
        };
        compiled_template.check_variables(scope)?;
        let compiled = compiled_template.environment.compile_expression(expression);
        let value = compiled.and_then(|compiled| compiled.eval(view::build_root_value(scope)));
        let value = value.map_err(|error| TemplateError::from_engine_error(&compiled_template.text, &error))?;
        let value = view::to_json(&value);
        scope.missing_keys.take_missing_keys();
        if value.is_null() {
            // The rendering notes a missing key.
            self.render(scope)?;
        }
        Ok(value)
    }
}

impl CompiledTemplate {
    fn check_variables(&self, scope: &TemplateScope) -> Result<(), TemplateError> {
        match self.variables.iter().find(|name| !scope.has_variable(name)) {
            Some(name) => Err(unknown_variable_error(&self.text, name, &scope.listens_to)),
            None => Ok(()),
        }
    }

    /// Converts an error of the engine to an error with a position in the original text.
    fn convert_error(&self, error: &minijinja::Error) -> TemplateError {
        TemplateError::from_mapped_engine_error(&self.text, error, |span| self.filtered_template.original_span(span))
    }
}

/// Scans a template. # Errors: it is nested too deeply, or uses another template.
fn scan_checked(text: &str) -> Result<TemplateScan, TemplateCheckError> {
    let scan = match contains_no_brace(text) {
        true => TemplateScan {
            is_light: true,
            ..TemplateScan::default()
        },
        false => scan_template(text),
    };
    if let Some(place) = scan.too_deep {
        return Err(TemplateCheckError::Depth(TemplateError::with_message(
            text,
            too_deep_message(),
            Some(place),
        )));
    }
    if let Some(place) = scan.backward_step {
        return Err(TemplateCheckError::Syntax(TemplateError::with_message(
            text,
            BACKWARD_STEP_ERROR.to_owned(),
            Some(place),
        )));
    }
    match scan.other_template {
        Some(place) => Err(TemplateCheckError::Syntax(TemplateError::with_message(
            text,
            OTHER_TEMPLATE_ERROR.to_owned(),
            Some(place),
        ))),
        None => Ok(scan),
    }
}

/// Scans and parses the text. # Errors: it is no template, or is nested too deeply.
fn parse_checked(text: &str) -> Result<minijinja::Template<'_, '_>, TemplateCheckError> {
    scan_checked(text)?;
    ENVIRONMENT.template_from_str(text).map_err(|error| {
        let template_error = TemplateError::from_engine_error(text, &error);
        match error.detail() {
            Some(PARSER_DEPTH_ERROR) => TemplateCheckError::Depth(template_error),
            _ => TemplateCheckError::Syntax(template_error),
        }
    })
}

/// Returns the error message about a template that is nested too deeply.
fn too_deep_message() -> String {
    format!(
        "the template is nested too deeply: at most {DEPTH_LIMIT} levels of operators, of which at most 140 are blocks and 70 are brackets"
    )
}

/// Checks that the text is a template whose variables an agent with these dependencies can read. `None` does not check
/// variables. The template is not kept, which is much cheaper than compiling it.
///
/// # Errors
/// The text is not a template, or there is such a variable.
pub fn check_template(text: &str, listens_to: Option<&[Arc<str>]>) -> Result<(), TemplateCheckError> {
    if contains_no_brace(text) {
        return Ok(());
    }
    let template = parse_checked(text)?;
    let Some(listens_to) = listens_to else {
        return Ok(());
    };
    let knows = |name: &str| VARIABLES.contains(&name) || listens_to.iter().any(|agent| **agent == *name);
    let variables = list_undeclared_variables(&ENVIRONMENT, &template);
    match variables.iter().find(|name| !knows(name)) {
        Some(name) => Err(TemplateCheckError::Variable(unknown_variable_error(
            text, name, listens_to,
        ))),
        None => Ok(()),
    }
}

/// The methods of maps in templates.
const MAP_METHODS: [&str; 4] = ["get", "items", "keys", "values"];

/// Returns the inputs that a template reads as `inputs.NAME`, each with the place of its name; empty if it is not a
/// template.
pub fn list_read_inputs(text: &str) -> Vec<(String, Span)> {
    let mut names = list_read_members(text, "inputs");
    // A method of the map is not an input.
    names.retain(|(name, _)| !MAP_METHODS.contains(&&**name) || !text.contains(&format!("inputs.{name}(")));
    names
}

/// Returns the agents of which a template asks as `news.NAME`, each with the place of its name; empty if it is not a
/// template.
pub fn list_news_agents(text: &str) -> Vec<(String, Span)> {
    list_read_members(text, "news")
}

/// Returns the names that a template reads as `VARIABLE.NAME`, each with its place; empty if it is not a template.
fn list_read_members(text: &str, variable: &str) -> Vec<(String, Span)> {
    if contains_no_brace(text) || !text.contains(variable) {
        return Vec::new();
    }
    let Ok(template) = parse_checked(text) else {
        return Vec::new();
    };
    let prefix = format!("{variable}.");
    let paths = template.undeclared_variables(true).into_iter();
    let mut names: Vec<String> = paths
        .filter_map(|path| Some(path.strip_prefix(&prefix)?.split('.').next()?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    let place = |name: &str| {
        let read = find_word_in_tags(text, &format!("{prefix}{name}"));
        read.map_or(Span::new(0, text.len()), |span| {
            Span::new(span.end - name.len(), span.end)
        })
    };
    names.into_iter().map(|name| (name.clone(), place(&name))).collect()
}

/// Returns the paths that a template reads, with their literal keys: `context.draft`. Returns none if the text is no template.
pub fn list_read_paths(text: &str) -> Vec<String> {
    if contains_no_brace(text) {
        return Vec::new();
    }
    let paths = parse_checked(text).map(|template| template.undeclared_variables(true));
    let mut paths: Vec<String> = paths.into_iter().flatten().collect();
    paths.sort();
    paths
}

/// Returns whether the text is a template with any variable. The template is parsed but not kept.
pub fn uses_variables(text: &str) -> bool {
    !list_used_variables(text).is_empty()
}

/// Returns whether the text is a template that uses `history` or `transcript`.
pub fn uses_history(text: &str) -> bool {
    let names_it = HISTORY_VARIABLES.iter().any(|name| text.contains(name));
    names_it
        && list_used_variables(text)
            .iter()
            .any(|name| HISTORY_VARIABLES.contains(&&**name))
}

/// Returns the variables of a template, sorted. Returns none if the text is no template.
fn list_used_variables(text: &str) -> Vec<String> {
    if contains_no_brace(text) {
        return Vec::new();
    }
    parse_checked(text).map_or_else(
        |_| Vec::new(),
        |template| list_undeclared_variables(&ENVIRONMENT, &template),
    )
}

/// An error of a template that cannot be rendered, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateCheckError {
    /// The text is not a template.
    Syntax(TemplateError),
    /// The template is nested too deeply to be parsed.
    Depth(TemplateError),
    /// The template uses a variable that does not exist.
    Variable(TemplateError),
}

impl TemplateCheckError {
    /// Returns the error without its kind.
    fn into_error(self) -> TemplateError {
        match self {
            Self::Syntax(error) | Self::Depth(error) | Self::Variable(error) => error,
        }
    }
}

impl TemplateScope {
    /// Returns whether a template of this execution can use this name.
    fn has_variable(&self, name: &str) -> bool {
        VARIABLES.contains(&name)
            || self.listens_to.iter().any(|agent| **agent == *name)
            || self.dependencies.iter().any(|(agent, _)| **agent == *name)
            || self.part.iter().flatten().any(|(own, _)| **own == *name)
    }
}

/// Returns the task of an agent: its rendered prompt. A prompt without variables is followed by the item of a part, the
/// input, the request and the outputs of dependencies, as blocks with headings. Without a prompt, the task has only these
/// blocks, or is the plain input if there are no other blocks.
pub fn render_task(prompt: Option<&Template>, scope: &TemplateScope) -> Result<String, TemplateError> {
    let Some(prompt) = prompt else {
        let is_alone = scope.request.is_none() && scope.unprompted_outputs.is_empty() && scope.part.is_none();
        return Ok(match is_alone {
            true => scope.input.to_string(),
            false => render_task_blocks(scope).join("\n\n"),
        });
    };
    let text = prompt.render(scope)?;
    if prompt.uses_variables() {
        return Ok(text);
    }
    let mut parts = vec![text.trim_end().to_owned()];
    parts.extend(render_task_blocks(scope));
    parts.retain(|part| !part.is_empty());
    Ok(parts.join("\n\n"))
}

/// Renders the item, the input, the request and the outputs of dependencies, each as a block with a heading.
fn render_task_blocks(scope: &TemplateScope) -> Vec<String> {
    let mut blocks = Vec::new();
    if let Some([(name, item), _]) = &scope.part {
        blocks.push(format!("## {name}\n{}", render_output_text(item)));
    }
    if !scope.input.is_empty() {
        blocks.push(format!("## Input\n{}", scope.input));
    }
    if let Some(request) = &scope.request {
        blocks.push(format!("## Request from {}\n{}", request.from, request.parameters));
    }
    for (agent, output) in &scope.unprompted_outputs {
        blocks.push(format!("## Output of {agent}\n{}", render_output_text(output)));
    }
    blocks
}

/// Returns the expression of a text that is exactly one `{{ expression }}`.
fn find_only_expression(text: &str) -> Option<&str> {
    let text = text.trim();
    let tag = iter_tags(text)
        .next()
        .filter(|tag| tag.kind == TemplateTagKind::Output)?;
    let is_whole = tag.is_closed && tag.inner_span.start == 2 && tag.inner_span.end + 2 == text.len();
    let inside = &text[tag.inner_span.start..tag.inner_span.end];
    let inside = inside.trim_start_matches(['-', '+']).trim_end_matches('-');
    (is_whole && !inside.trim().is_empty()).then_some(inside)
}

/// Returns whether the text has no brace, and so no expression, tag or comment.
fn contains_no_brace(text: &str) -> bool {
    !text.contains('{')
}

/// Builds an environment with the limits, the output formatter and the filters of this program.
fn build_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(MAX_RENDER_STEPS));
    environment.set_debug(false);
    environment.set_formatter(|out, state, value| {
        if value.is_undefined() {
            // The data of the rendering notes it.
            let _nothing = state.lookup(view::PRINTED_NOTHING);
        }
        render_check::fail_if_render_stopped()?;
        minijinja::escape_formatter(out, state, value)
    });
    environment.add_filter("tojson", view::to_json_text);
    environment.add_filter(assigned_values::VARIABLE_FILTER, assigned_values::check_variable_value);
    environment.add_filter(assigned_values::MEMBER_FILTER, assigned_values::check_member_value);
    environment
}

/// Returns the variables of the template that are not assigned in it and are no functions of the environment, sorted.
fn list_undeclared_variables(environment: &Environment<'_>, template: &minijinja::Template<'_, '_>) -> Vec<String> {
    let is_global = |name: &String| environment.globals().any(|(global, _)| global == name);
    let names = template.undeclared_variables(false).into_iter();
    let mut names: Vec<String> = names.filter(|name| !is_global(name)).collect();
    names.sort();
    names
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.0.text).finish()
    }
}

/// A buffer with a maximum size of [`MAX_BYTES`].
#[derive(Default)]
struct LimitedBuffer(Vec<u8>);

impl io::Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
