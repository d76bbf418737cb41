//! `ensemble runs diff`: where two runs part.

use std::path::Path;

use crate::cli::args::{OutputForm, RunsDiffArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::prepare::{Prepared, prepare};
use crate::cli::project::Surroundings;
use crate::cli::replay::{Form, record};
use crate::cli::resume::{recorded_ensemble, started};
use crate::cli::saved::saved_story;
use ensemble_core::conversation::ConversationState;
use ensemble_language::data::{Context, digest};
use ensemble_reports::report::story::{Named, comparison, comparison_document};
use ensemble_reports::story::{Side, Story, compare};
use ensemble_runs::journal::{Journal, read};

/// `ensemble runs diff`.
pub(super) fn diff(args: &RunsDiffArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let (a, b) = (open(&args.a, surroundings)?, open(&args.b, surroundings)?);
    let compared = compare(a.side(), b.side());
    let named = [a.named(&args.a), b.named(&args.b)];
    surroundings.print(&match args.output {
        OutputForm::Human => comparison(&compared, &named, surroundings.streams.out_width()),
        OutputForm::Json => format!("{:#}\n", comparison_document(&compared, &named)),
    });
    Ok(if compared.same { exit::SUCCESS } else { exit::DIFFERENT })
}

/// A run that is compared.
struct Opened {
    story: Story,
    /// `None`: its ensemble is not at hand.
    context: Option<Context>,
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
        }
    }
}

fn open(given: &str, surroundings: &Surroundings) -> Result<Opened, CliError> {
    match record(Some(given), surroundings)? {
        Form::Run(folder) => {
            let journal = read(&folder.journal())?;
            let prepared = recorded_ensemble(&folder, started(&journal)?, surroundings);
            Ok(of_journal(&journal, prepared.ok()))
        }
        Form::Journal(path) => {
            let journal = read(&path)?;
            let file = started(&journal)?.ensemble_file.clone();
            let prepared = prepare(&surroundings.relative(Path::new(&file)), surroundings);
            // The file may say something else by now.
            let recorded = &started(&journal)?.ensemble_digest;
            let prepared = prepared
                .ok()
                .filter(|prepared| digest(prepared.source.text()) == *recorded);
            Ok(of_journal(&journal, prepared))
        }
        Form::Result(path) => {
            let (story, context) = saved_story(&path)?;
            Ok(Opened { story, context })
        }
    }
}

fn of_journal(journal: &Journal, prepared: Option<Prepared>) -> Opened {
    let context = prepared.map(|prepared| {
        let mut state = ConversationState::new(prepared.plan.clone());
        journal.records.iter().for_each(|record| state.apply(record));
        Context::clone(state.context())
    });
    Opened {
        story: Story::of(&journal.records),
        context,
    }
}
