//! `ensemble graph`: draws an ensemble, optionally with the data of a run.

use crate::command::check::picture::of_ensemble;
use crate::command::runs::driver;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use clap::{Args, ValueEnum};
use ensemble_history::RunHistory;
use ensemble_reports::report::graph::{Picture, ascii, dot, mermaid, svg};
use ensemble_runs::{EnsembleRef, RecordedRun};

/// `ensemble graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The ensemble: a file, or the name of an ensemble; default with --run or --last: the recorded ensemble
    #[arg(value_name = "FILE|NAME", add = completions::ensembles(), required_unless_present_any = ["run", "last"])]
    pub ensemble: Option<String>,
    /// The format of the picture
    #[arg(long, alias = "format", value_enum, default_value_t = GraphFormat::Mermaid, value_name = "FORM")]
    pub output: GraphFormat,
    /// Add the data of this run: how often each agent ran and failed, and why other agents did not run
    #[arg(long, value_name = "RUN", add = completions::runs())]
    pub run: Option<String>,
    /// Add the data of the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
}

/// The formats of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A flowchart that code hosting sites and editors can draw.
    #[default]
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A complete picture for browsers and documents.
    Svg,
    /// Plain text.
    Ascii,
}

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
