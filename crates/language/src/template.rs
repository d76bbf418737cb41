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

mod error;
mod kept;
mod missing;
mod paths;
mod scan;
mod syntax;
mod typing;
mod view;
mod watch;

use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock};

use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

pub use self::error::TemplateError;
use self::error::{find_in_tags, unknown};
use self::kept::Filtered;
pub use self::missing::{Missed, MissingKey};
pub use self::paths::{Path, printed};
use self::scan::{DEPTH_LIMIT, Scan, scan};
pub use self::syntax::{Tag, TagKind, has_marks, tags};
pub use self::typing::{Variables, filter_words, misfits};
pub use self::watch::{Look, watched};
pub use crate::data::output_text;
use crate::data::{Context, JsonMap, Request};
use crate::past::Past;
use crate::source::Span;
use crate::vocabulary;

/// The names that every template can use, in addition to the names of dependencies.
pub const VARIABLES: [&str; 10] = vocabulary::names(&vocabulary::TEMPLATE_VARIABLES);

/// Those of them that tell of all executions.
const OF_HISTORY: [&str; 2] = ["history", "transcript"];

/// The maximum number of steps of one rendering: thousands of times what a prompt needs, in a fraction of a second.
const FUEL: u64 = 1_000_000;

/// The maximum number of bytes of one rendering: the same limit as for a script's output.
const MAX_BYTES: usize = 10 * 1024 * 1024;

const BACKWARD_STEP: &str = "the step of a slice must be a number above zero; `| reverse` turns a list or a text round";

const NO_OTHERS: &str = "a template cannot include or extend another";

/// How MiniJinja's parser refuses brackets and blocks that are nested too deeply.
const PARSER_LIMIT: &str = "template exceeds maximum recursion limits";

/// The name of the template in its environment; without a file extension, nothing is escaped.
const NAME: &str = "template";

/// The environment for templates that are parsed but not kept.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(environment);

/// The data of an execution, in the form for templates.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// `input`.
    pub input: Arc<str>,
    /// `inputs`.
    pub inputs: Arc<Context>,
    /// `context`.
    pub context: Arc<Context>,
    /// `turn_count`.
    pub turn_count: u32,
    /// `execution`.
    pub execution: u32,
    /// All dependencies, with or without an output.
    pub listens_to: Arc<[Arc<str>]>,
    /// The latest outputs of the dependencies that have one, in declaration order.
    pub dependencies: Vec<(Arc<str>, Arc<Value>)>,
    /// What has been said, for a prompt without variables: the outputs that follow it, in this order.
    pub said: Vec<(Arc<str>, Arc<Value>)>,
    /// `parameters`.
    pub parameters: Arc<JsonMap>,
    /// `request`.
    pub request: Option<Arc<Request>>,
    /// `history` and `transcript`.
    pub history: Past,
    /// Of a part of an execution: the item under its name, and `part`.
    pub part: Option<[(Arc<str>, Arc<Value>); 2]>,
    /// What renderings have missed.
    pub missed: Missed,
}

/// A compiled template. Clones share the compiled form.
#[derive(Clone)]
pub struct Template(Arc<Compiled>);

struct Compiled {
    environment: Environment<'static>,
    text: Arc<str>,
    /// What is rendered.
    filtered: Filtered,
    /// Rendering takes little time and memory, compared with what is printed.
    is_light: bool,
    variables: Vec<String>,
    /// The paths that it prints plainly.
    printed: Vec<Path>,
    /// The rendered text of a template without expressions and tags, which is the same for every execution.
    constant: Option<String>,
}

impl Template {
    /// Compiles the text.
    pub fn compile(text: &str) -> Result<Self, TemplateError> {
        let scan = admitted(text).map_err(Fault::into_error)?;
        if !scan.assigned.is_empty() {
            // What is no template must not become one by what is added.
            parsed(text).map_err(Fault::into_error)?;
        }
        let filtered = Filtered::new(text, &scan.assigned);
        let mut compiled = Compiled {
            environment: environment(),
            text: text.into(),
            filtered,
            is_light: scan.is_light,
            variables: Vec::new(),
            printed: printed(text),
            constant: None,
        };
        let added = compiled
            .environment
            .add_template_owned(NAME, compiled.filtered.text.clone());
        added.map_err(|error| compiled.error(&error))?;
        compiled.variables = compiled
            .environment
            .get_template(NAME)
            .map(|template| undeclared(&compiled.environment, &template))
            .unwrap_or_default();
        let template = Self(Arc::new(compiled));
        if !is_constant(text) {
            return Ok(template);
        }
        // A text that is too long is an error of the execution.
        let constant = template.render(&Scope::default()).ok();
        Ok(match Arc::try_unwrap(template.0) {
            Ok(compiled) => Self(Arc::new(Compiled { constant, ..compiled })),
            Err(shared) => Self(shared),
        })
    }

    /// Returns whether rendering takes little time and memory, unless the values that are printed are large. Every
    /// other template is rendered where it does not delay anything else, and under limits ([`watched`]).
    pub fn is_light(&self) -> bool {
        self.0.is_light
    }

    /// Returns whether the text uses any variable.
    pub fn uses_variables(&self) -> bool {
        !self.0.variables.is_empty()
    }

    /// The variables that it may use, sorted, without functions of the template language.
    pub fn variables(&self) -> &[String] {
        &self.0.variables
    }

    /// Renders the template. Keys that existing outputs do not have are printed as nothing and noted in `scope.missed`.
    pub fn render(&self, scope: &Scope) -> Result<String, TemplateError> {
        let own = &self.0;
        if let Some(constant) = &own.constant {
            return Ok(constant.clone());
        }
        own.check_names(scope)?;
        let mut out = Capped::default();
        let template = own.environment.get_template(NAME);
        template
            .and_then(|template| template.render_captured_to(view::root(scope), &mut out).map(drop))
            .map_err(|error| own.error(&error))?;
        scope.missed.keep_printed_by(&own.printed);
        Ok(String::from_utf8_lossy(&out.0).into_owned())
    }

    /// The value of a template that is exactly one `{{ expression }}`; of every other template its rendered text. Keys that
    /// are missing are noted as by [`Template::render`].
    pub fn value(&self, scope: &Scope) -> Result<Value, TemplateError> {
        let own = &self.0;
        let Some(expression) = only_expression(&own.text) else {
            return self.render(scope).map(Value::String);
        };
        own.check_names(scope)?;
        let compiled = own.environment.compile_expression(expression);
        let value = compiled.and_then(|compiled| compiled.eval(view::root(scope)));
        let value = value.map_err(|error| TemplateError::new(&own.text, &error))?;
        let value = view::to_json(&value);
        scope.missed.take();
        if value.is_null() {
            // The rendering notes a missing key.
            self.render(scope)?;
        }
        Ok(value)
    }
}

impl Compiled {
    fn check_names(&self, scope: &Scope) -> Result<(), TemplateError> {
        match self.variables.iter().find(|name| !scope.knows(name)) {
            Some(name) => Err(unknown(&self.text, name, &scope.listens_to)),
            None => Ok(()),
        }
    }

    /// The error at its place in the text as it was written.
    fn error(&self, error: &minijinja::Error) -> TemplateError {
        TemplateError::placed(&self.text, error, |span| self.filtered.original(span))
    }
}

/// Scans a template, and refuses those that cannot be parsed.
fn admitted(text: &str) -> Result<Scan, Fault> {
    let scan = match is_constant(text) {
        true => Scan {
            is_light: true,
            ..Scan::default()
        },
        false => scan(text),
    };
    if let Some(place) = scan.too_deep {
        return Err(Fault::Depth(TemplateError::at(text, too_deep(), Some(place))));
    }
    if let Some(place) = scan.backward_step {
        return Err(Fault::Syntax(TemplateError::at(
            text,
            BACKWARD_STEP.to_owned(),
            Some(place),
        )));
    }
    match scan.other_template {
        Some(place) => Err(Fault::Syntax(TemplateError::at(
            text,
            NO_OTHERS.to_owned(),
            Some(place),
        ))),
        None => Ok(scan),
    }
}

/// Parses the text, if it may be parsed.
fn parsed(text: &str) -> Result<minijinja::Template<'_, '_>, Fault> {
    admitted(text)?;
    ENVIRONMENT.template_from_str(text).map_err(|error| {
        let told = TemplateError::new(text, &error);
        match error.detail() {
            Some(PARSER_LIMIT) => Fault::Depth(told),
            _ => Fault::Syntax(told),
        }
    })
}

fn too_deep() -> String {
    format!(
        "the template is nested too deeply: at most {DEPTH_LIMIT} operators, of which 140 blocks and 70 brackets, may be in each other"
    )
}

/// The first variable of a template that is not available to an agent with these dependencies; `None` does not check
/// the variables. The template is parsed but not kept, which is much cheaper than [`Template::compile`].
///
/// # Errors
/// The text is not a template, or there is such a variable.
pub fn check(text: &str, listens_to: Option<&[Arc<str>]>) -> Result<(), Fault> {
    if is_constant(text) {
        return Ok(());
    }
    let template = parsed(text)?;
    let Some(listens_to) = listens_to else {
        return Ok(());
    };
    let knows = |name: &str| VARIABLES.contains(&name) || listens_to.iter().any(|agent| **agent == *name);
    let variables = undeclared(&ENVIRONMENT, &template);
    match variables.iter().find(|name| !knows(name)) {
        Some(name) => Err(Fault::Variable(unknown(text, name, listens_to))),
        None => Ok(()),
    }
}

/// The methods of maps in templates.
const METHODS: [&str; 4] = ["get", "items", "keys", "values"];

/// The inputs that a template reads as `inputs.NAME`, each with the place of its name; empty if it is not a template.
pub fn inputs_read(text: &str) -> Vec<(String, Span)> {
    if is_constant(text) || !text.contains("inputs") {
        return Vec::new();
    }
    let Ok(template) = parsed(text) else {
        return Vec::new();
    };
    let paths = template.undeclared_variables(true).into_iter();
    let mut names: Vec<String> = paths
        .filter_map(|path| Some(path.strip_prefix("inputs.")?.split('.').next()?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    // A method of the map is not an input.
    names.retain(|name| !METHODS.contains(&&**name) || !text.contains(&format!("inputs.{name}(")));
    let place = |name: &str| {
        let read = find_in_tags(text, &format!("inputs.{name}"));
        read.map_or(Span::new(0, text.len()), |span| {
            Span::new(span.end - name.len(), span.end)
        })
    };
    names.into_iter().map(|name| (name.clone(), place(&name))).collect()
}

/// Returns whether the text is a template that uses any variable. The template is parsed but not kept.
pub fn uses_variables(text: &str) -> bool {
    !variables_of(text).is_empty()
}

/// Returns whether the text is a template that uses `history` or `transcript`.
pub fn uses_history(text: &str) -> bool {
    let names_it = OF_HISTORY.iter().any(|name| text.contains(name));
    names_it && variables_of(text).iter().any(|name| OF_HISTORY.contains(&&**name))
}

/// The variables of a template, sorted; none if the text is not a template.
fn variables_of(text: &str) -> Vec<String> {
    if is_constant(text) {
        return Vec::new();
    }
    parsed(text).map_or_else(|_| Vec::new(), |template| undeclared(&ENVIRONMENT, &template))
}

/// The reason why a template cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The text is not a template.
    Syntax(TemplateError),
    /// It is nested too deeply to be parsed.
    Depth(TemplateError),
    /// It uses a variable that does not exist.
    Variable(TemplateError),
}

impl Fault {
    fn into_error(self) -> TemplateError {
        match self {
            Self::Syntax(error) | Self::Depth(error) | Self::Variable(error) => error,
        }
    }
}

impl Scope {
    /// Returns whether a template of this execution can use this name.
    fn knows(&self, name: &str) -> bool {
        VARIABLES.contains(&name)
            || self.listens_to.iter().any(|agent| **agent == *name)
            || self.dependencies.iter().any(|(agent, _)| **agent == *name)
            || self.part.iter().flatten().any(|(own, _)| **own == *name)
    }
}

/// The task of an agent: its rendered prompt. A prompt without variables is followed by the item of a part, by the input
/// of the execution and by what has been said, as labelled blocks. Without a prompt, there are only these blocks; where nothing stands beside
/// the input, it is the plain input.
pub fn task_text(prompt: Option<&Template>, scope: &Scope) -> Result<String, TemplateError> {
    let Some(prompt) = prompt else {
        let is_alone = scope.request.is_none() && scope.said.is_empty() && scope.part.is_none();
        return Ok(match is_alone {
            true => scope.input.to_string(),
            false => blocks(scope).join("\n\n"),
        });
    };
    let text = prompt.render(scope)?;
    if prompt.uses_variables() {
        return Ok(text);
    }
    let mut parts = vec![text.trim_end().to_owned()];
    parts.extend(blocks(scope));
    parts.retain(|part| !part.is_empty());
    Ok(parts.join("\n\n"))
}

fn blocks(scope: &Scope) -> Vec<String> {
    let mut blocks = Vec::new();
    if let Some([(name, item), _]) = &scope.part {
        blocks.push(format!("## {name}\n{}", output_text(item)));
    }
    if !scope.input.is_empty() {
        blocks.push(format!("## Input\n{}", scope.input));
    }
    if let Some(request) = &scope.request {
        blocks.push(format!("## Request from {}\n{}", request.from, request.parameters));
    }
    for (agent, output) in &scope.said {
        blocks.push(format!("## Output of {agent}\n{}", output_text(output)));
    }
    blocks
}

/// The expression of a text that is exactly one `{{ expression }}`.
fn only_expression(text: &str) -> Option<&str> {
    let text = text.trim();
    let tag = tags(text).next().filter(|tag| tag.kind == TagKind::Output)?;
    let is_whole = tag.is_closed && tag.inside.start == 2 && tag.inside.end + 2 == text.len();
    let inside = &text[tag.inside.start..tag.inside.end];
    let inside = inside.trim_start_matches(['-', '+']).trim_end_matches('-');
    (is_whole && !inside.trim().is_empty()).then_some(inside)
}

/// Returns whether the text has no expression, no tag and no comment: these always begin with a brace.
fn is_constant(text: &str) -> bool {
    !text.contains('{')
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(false);
    environment.set_formatter(|out, state, value| {
        if value.is_undefined() {
            // The data of the rendering notes it.
            let _nothing = state.lookup(view::PRINTED_NOTHING);
        }
        watch::ask()?;
        minijinja::escape_formatter(out, state, value)
    });
    environment.add_filter("tojson", view::to_json_text);
    environment.add_filter(kept::VARIABLE, kept::in_variable);
    environment.add_filter(kept::MEMBER, kept::in_namespace);
    environment
}

fn undeclared(environment: &Environment<'_>, template: &minijinja::Template<'_, '_>) -> Vec<String> {
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
struct Capped(Vec<u8>);

impl io::Write for Capped {
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
