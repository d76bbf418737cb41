//! `ensemble explain`: the explanation of a code, with a wrong and a right example.

use super::args::ExplainArgs;
use super::error::CliError;
use super::exit;
use super::surroundings::Surroundings;
use ensemble_language::diagnostic::Code;
use ensemble_language::loader::{codes, explain as explanations};

/// `ensemble explain`.
pub(super) fn explain(args: &ExplainArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let text = match &args.code {
        Some(code) => one(known(code)?),
        None => all(),
    };
    surroundings.print(&text);
    Ok(exit::SUCCESS)
}

/// The code with this name, if it exists.
pub(super) fn known(code: &str) -> Result<Code, CliError> {
    explanations::find(code).ok_or_else(|| {
        let message = format!("there is no code `{code}`");
        CliError::usage_with_help(
            message,
            match explanations::nearest(code) {
                Some(guess) => format!("did you mean `{guess}`? `ensemble explain` lists all"),
                None => "`ensemble explain` lists all".to_owned(),
            },
        )
    })
}

fn one(code: Code) -> String {
    let title = codes::ALL.iter().find(|(known, _)| *known == code);
    let title = title.map_or("", |(_, title)| title);
    format!("{}: {title}\n\n{}", code.0, explanations::explanation(code))
}

fn all() -> String {
    codes::ALL
        .iter()
        .map(|(code, title)| format!("{}  {title}\n", code.0))
        .collect()
}
