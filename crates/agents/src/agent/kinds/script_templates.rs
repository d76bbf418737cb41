//! Templates of the `args` and `stdin` of a script agent.

use std::sync::Arc;

use crate::agent::ExecutionInput;
use crate::agent::build_error::{RunnerBuildError, compile_optional_template};
use crate::agent::kinds::scope::{build_template_scope, list_dependency_names, warn_about_missed_keys};
use ensemble_language::ensemble::Agent;
use ensemble_language::template::{Template, TemplateScope};
use ensemble_scripts::template_worker;

/// Compiled templates for the `args` and `stdin` of a script agent.
#[derive(Default)]
pub struct ScriptTemplates {
    args: Vec<Template>,
    stdin: Option<Template>,
    listens_to: Arc<[Arc<str>]>,
}

/// Rendered command-line arguments and standard input of one script process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RenderedScriptInput {
    /// Command-line arguments.
    pub(crate) args: Vec<String>,
    /// Text that replaces the JSON object on standard input.
    pub(crate) stdin: Option<String>,
}

impl ScriptTemplates {
    /// Compiles the templates of the arguments and the standard input.
    ///
    /// # Errors
    /// A text is not a template.
    pub fn compile_templates(agent: &Agent, args: &[String], stdin: Option<&str>) -> Result<Self, RunnerBuildError> {
        let args = args.iter().enumerate();
        let args = args.map(|(at, text)| compile_optional_template(&format!("args[{at}]"), Some(text)));
        Ok(Self {
            args: args
                .filter_map(Result::transpose)
                .collect::<Result<_, RunnerBuildError>>()?,
            stdin: compile_optional_template("stdin", stdin.map(double_last_newline).as_deref())?,
            listens_to: list_dependency_names(agent),
        })
    }

    /// Returns whether the agent declares `args`.
    pub(crate) fn has_arguments(&self) -> bool {
        !self.args.is_empty()
    }

    /// Renders the arguments and the standard input. An error names the key.
    pub(crate) async fn render_args_and_stdin(
        &self,
        execution: &ExecutionInput,
    ) -> Result<RenderedScriptInput, String> {
        if self.args.is_empty() && self.stdin.is_none() {
            return Ok(RenderedScriptInput::default());
        }
        let scope = build_template_scope(execution, &self.listens_to);
        let mut rendered = RenderedScriptInput::default();
        for (at, template) in self.args.iter().enumerate() {
            let which = format!("args[{at}]");
            let text = render_and_warn(template, &scope, &which, execution).await?;
            if text.contains('\0') {
                return Err(format!(
                    "{which}: the text contains a NUL character, and no argument can"
                ));
            }
            rendered.args.push(text);
        }
        if let Some(template) = &self.stdin {
            rendered.stdin = Some(render_and_warn(template, &scope, "stdin", execution).await?);
        }
        Ok(rendered)
    }
}

/// Doubles a newline at the end of the text, because the template engine removes one and a process reads whole lines.
fn double_last_newline(text: &str) -> String {
    let newline = if text.ends_with('\n') { "\n" } else { "" };
    format!("{text}{newline}")
}

/// Renders the template and warns about missing keys. `which` names the template in messages.
async fn render_and_warn(
    template: &Template,
    scope: &TemplateScope,
    which: &str,
    execution: &ExecutionInput,
) -> Result<String, String> {
    let text = template_worker::render_template_async(template, scope).await;
    let text = text.map_err(|error| format!("{which}: {error}"))?;
    warn_about_missed_keys(scope, which, execution);
    Ok(text)
}
