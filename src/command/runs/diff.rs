//! `ensemble runs diff`: shows the differences between two runs.

use super::{Opened, opened};
use crate::command::args::{OutputForm, RunsDiffArgs};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use ensemble_history::story::{Side, compare};
use ensemble_reports::report::story::{Named, comparison, comparison_document};

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
