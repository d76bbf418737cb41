//! `ensemble runs show`: prints a run turn by turn, also while another process writes it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::command::run::arguments::Output;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use clap::Args;
use ensemble_core::conversation::{Event, Record, RunStarted};
use ensemble_core::records::encode;
use ensemble_core::store::{RunStore, StoredRun};
use ensemble_history::Driver;
use ensemble_history::story::Story;
use ensemble_project::Project;
use ensemble_reports::report::door::Door;
use ensemble_reports::report::story::{StoryPrinter, document};
use ensemble_runs::start::recorded_run::{recorded_ensemble, started};
use ensemble_runs::store::files::FileStore;

/// `ensemble runs show`.
#[derive(Debug, Args)]
pub(crate) struct RunsShowArgs {
    /// The id of the run, the beginning of the id, or its folder; default: the latest run
    #[arg(value_name = "RUN", add = completions::runs())]
    pub run: Option<String>,
    /// Use the latest run, as without RUN
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Also print complete outputs, what each execution read and was asked, and its stderr
    #[arg(short, long)]
    pub verbose: bool,
    /// Print what the models were sent and what they replied, complete; of one agent, or of one of its executions
    #[arg(long, value_name = "AGENT[@TURN]", num_args = 0..=1, default_missing_value = "", conflicts_with = "follow")]
    pub messages: Option<String>,
    /// Keep printing until the run ends, while another process executes it
    #[arg(short, long)]
    pub follow: bool,
    /// human: readable text; json: the same as one document; events: the lines of the journal
    #[arg(long, alias = "format", value_enum, default_value_t = Output::Human, value_name = "FORM")]
    pub output: Output,
}

/// The time between two reads of a growing journal.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of reads of a journal without an owner process after which no process is expected to continue the run.
const GRACE: u32 = 10;

/// `ensemble runs show`.
pub(crate) async fn show(
    args: &RunsShowArgs,
    store: &dyn RunStore,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let run = super::find(args.run.as_deref(), store, surroundings).await?;
    if let Some(filter) = &args.messages {
        return crate::command::runs::messages::show(filter, run, args.output, surroundings).await;
    }
    let mut printer = StoryPrinter::new(args.verbose, args.follow);
    printer.width = surroundings.streams.out_width();
    printer.given.clone_from(&args.run);
    let mut output = StoryOutput {
        out: surroundings.streams.out_as(args.output.into()),
        form: args.output,
        printer,
        story: Story::default(),
        line: Vec::new(),
        is_open: true,
    };
    let code = if args.follow {
        follow(&*run, &mut output, &surroundings.project).await?
    } else {
        let journal = run.read_all().await?;
        output.printer.kinds = kinds(&*run, started(&journal.records)?, &surroundings.project).await;
        journal.records.iter().for_each(|record| output.take(record));
        if journal.is_torn {
            surroundings.print_err("warning: the last line of the journal is incomplete and has been left out\n");
        }
        exit::SUCCESS
    };
    output.close(driver(&*run));
    Ok(code)
}

/// Reads until the run has ended and no process executes it any more.
async fn follow(run: &dyn StoredRun, output: &mut StoryOutput, project: &Project) -> Result<u8, CliError> {
    let mut follower = run.follow();
    let mut silent = 0;
    while output.is_open {
        // Checked before the journal is read, so that everything the other process wrote before its end is read now.
        let is_driven = driver(run) != Driver::Nobody;
        let more = follower.poll().await?;
        for record in &more {
            if let Event::RunStarted(started) = &record.event {
                output.printer.kinds = kinds(run, started, project).await;
            }
            output.take(record);
        }
        if !more.is_empty() || is_driven {
            silent = 0;
        } else if output.story.ended().is_some() {
            return Ok(exit::SUCCESS);
        } else {
            silent += 1;
            if silent > GRACE {
                return Ok(exit::FAILURE);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(exit::SUCCESS)
}

/// Prints records as they arrive.
struct StoryOutput {
    out: Door,
    form: Output,
    printer: StoryPrinter,
    story: Story,
    line: Vec<u8>,
    /// Whether the reader of the output is still there.
    is_open: bool,
}

impl StoryOutput {
    fn take(&mut self, record: &Record) {
        self.story.apply(record);
        match self.form {
            Output::Human => {
                let text = self.printer.render(record, &self.story);
                self.print(text.as_bytes());
            }
            Output::Events => {
                let mut line = std::mem::take(&mut self.line);
                line.clear();
                encode(record, &mut line);
                self.print(&line);
                self.line = line;
            }
            Output::Json => {}
        }
    }

    fn close(&mut self, driver: Driver) {
        let text = match self.form {
            Output::Human => self.printer.close(&self.story, driver),
            Output::Json => format!("{:#}\n", document(&self.story, driver)),
            Output::Events => String::new(),
        };
        self.print(text.as_bytes());
    }

    fn print(&mut self, text: &[u8]) {
        let printed = self.out.write_all(text).and_then(|()| self.out.flush());
        self.is_open &= printed.is_ok();
    }
}

/// The process that executes the run. A run inside another run is executed by the process of the outer run.
pub(crate) fn driver(run: &dyn StoredRun) -> Driver {
    let outer = || FileStore::run_around(run.folder()?)?.driver();
    run.driver().or_else(outer).into()
}

/// The kinds of the agents, if the ensemble can still be read.
async fn kinds(run: &dyn StoredRun, started: &RunStarted, project: &Project) -> HashMap<Arc<str>, &'static str> {
    let Ok(prepared) = recorded_ensemble(run, started, project).await else {
        return HashMap::new();
    };
    let plan = &prepared.plan;
    plan.ids()
        .map(|id| (plan.name(id).clone(), plan.agent(id).kind_name()))
        .collect()
}
