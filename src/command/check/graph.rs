//! `ensemble graph`: draws an ensemble, optionally with the data of a run.

use crate::command::args::{GraphArgs, GraphFormat};
use crate::command::check::picture::of_ensemble;
use crate::command::runs::driver;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use ensemble_history::RunHistory;
use ensemble_reports::report::graph::{Picture, ascii, dot, mermaid, svg};
use ensemble_runs::{EnsembleRef, RecordedRun};

/// `ensemble graph`.
pub(crate) fn graph(args: &GraphArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let picture = gather(args, surroundings)?;
    let text = match args.output {
        GraphFormat::Mermaid => mermaid(&picture),
        GraphFormat::Dot => dot(&picture),
        GraphFormat::Svg => svg(&picture),
        GraphFormat::Ascii => ascii(&picture),
    };
    surroundings.print_as(args.output, &text);
    Ok(exit::SUCCESS)
}

fn gather(args: &GraphArgs, surroundings: &Surroundings) -> Result<Picture, CliError> {
    let given = match &args.ensemble {
        Some(given) => Some(surroundings.runs().prepare(&EnsembleRef::file(&**given))?),
        None => None,
    };
    if args.run.is_none() && !args.last {
        let given = given.ok_or_else(|| CliError::usage("name an ensemble, or a run with --run"))?;
        return Ok(of_ensemble(given.plan.ensemble()));
    }
    let recorded_run = block_on(async {
        let runs = surroundings.runs();
        Ok(RecordedRun::read(runs.find(args.run.as_deref()).await?, runs.project()).await?)
    })?;
    let recorded = recorded_run.prepared.plan.ensemble();
    let shown = given.as_ref().map_or(recorded, |given| given.plan.ensemble());
    let mut picture = of_ensemble(shown);
    let history = RunHistory::from_records(&recorded_run.journal.records);
    picture.add_run(&history, shown, recorded);
    picture.add_run_title(&history, driver(&*recorded_run.run));
    Ok(picture)
}
