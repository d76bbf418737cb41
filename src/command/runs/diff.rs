//! `ensemble runs diff`: shows the differences between two runs.

use super::{Opened, opened};
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::OutputForm;
use crate::command::shared::surroundings::Surroundings;
use clap::Args;
use ensemble_history::story::{Side, compare};
use ensemble_reports::report::story::{Named, comparison, comparison_document};

/// `ensemble runs diff`.
#[derive(Debug, Args)]
pub(crate) struct RunsDiffArgs {
    /// A run id or its beginning, a journal, the folder of a run, or a saved result
    #[arg(value_name = "A", add = completions::runs())]
    pub a: String,
    /// The other record
    #[arg(value_name = "B", add = completions::runs(), required_unless_present = "last")]
    pub b: Option<String>,
    /// Compare with the latest run
    #[arg(long, conflicts_with = "b")]
    pub last: bool,
    /// The output format of the differences
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}

/// `ensemble runs diff`.
pub(crate) async fn diff(args: &RunsDiffArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let a = opened(Some(&args.a), surroundings).await?;
    let b = opened(args.b.as_deref(), surroundings).await?;
    let compared = compare(a.side(), b.side());
    let latest = b.story.started().map_or("", |started| &*started.run_id);
    let named = [a.named(&args.a), b.named(args.b.as_deref().unwrap_or(latest))];
    let text = match args.output {
        OutputForm::Human => comparison(&compared, &named, surroundings.streams.out_width()),
        OutputForm::Json => format!("{:#}\n", comparison_document(&compared, &named)),
    };
    surroundings.print_as(args.output, &text);
    Ok(if compared.same { exit::SUCCESS } else { exit::DIFFERENT })
}

impl Opened {
    fn side(&self) -> Side<'_> {
        Side {
            story: &self.story,
            context: self.context.as_ref(),
        }
    }

    fn named<'a>(&'a self, given: &'a str) -> Named<'a> {
        Named {
            given,
            story: &self.story,
            state: self.state(),
        }
    }
}
