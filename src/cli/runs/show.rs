//! `ensemble runs show`: a run's story, also while another process writes it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::args::{Output, RunsShowArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::project::Surroundings;
use crate::cli::resume::{recorded_ensemble, started};
use ensemble_core::conversation::{Event, Record, RunStarted};
use ensemble_reports::report::story::{Driver, StoryPrinter, document};
use ensemble_reports::story::{Progress, Story};
use ensemble_runs::journal::{Follower, RunFolder, Store, encode, read};

/// Between two looks at a journal that grows.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks at a journal without a driver after which nobody is expected to come back to it.
const GRACE: u32 = 10;

/// `ensemble runs show`.
pub(super) fn show(args: &RunsShowArgs, store: &Store, surroundings: &Surroundings) -> Result<u8, CliError> {
    let folder = super::find(args.run.as_deref(), store, surroundings)?;
    let mut printer = StoryPrinter::new(args.verbose, args.follow);
    printer.width = surroundings.streams.out_width();
    printer.given.clone_from(&args.run);
    let mut output = StoryOutput {
        out: surroundings.streams.out(),
        form: args.output,
        printer,
        story: Story::default(),
        line: Vec::new(),
        is_open: true,
    };
    let code = if args.follow {
        follow(&folder, &mut output, surroundings)?
    } else {
        let journal = read(&folder.journal())?;
        output.printer.kinds = kinds(&folder, started(&journal)?, surroundings);
        journal.records.iter().for_each(|record| output.take(record));
        if journal.torn {
            surroundings.complain("warning: the last line of the journal was torn and has been left out\n");
        }
        exit::SUCCESS
    };
    output.close(driver(&folder));
    Ok(code)
}

/// Reads on until the run has ended and nobody drives it any more.
fn follow(folder: &RunFolder, output: &mut StoryOutput, surroundings: &Surroundings) -> Result<u8, CliError> {
    let mut follower = Follower::new(&folder.journal());
    let mut silent = 0;
    while output.is_open {
        // Asked before the journal is read: what the driver wrote before it went is read now.
        let is_driven = driver(folder) != Driver::Nobody;
        let more = follower.poll(|record| {
            if let Event::RunStarted(started) = &record.event {
                output.printer.kinds = kinds(folder, started, surroundings);
            }
            output.take(&record);
        })?;
        if more > 0 || is_driven {
            silent = 0;
        } else if output.story.progress() != Progress::Open {
            return Ok(exit::SUCCESS);
        } else {
            silent += 1;
            if silent > GRACE {
                return Ok(exit::FAILURE);
            }
        }
        std::thread::sleep(PAUSE);
    }
    Ok(exit::SUCCESS)
}

/// Tells records as they come.
struct StoryOutput {
    out: Box<dyn Write + Send>,
    form: Output,
    printer: StoryPrinter,
    story: Story,
    line: Vec<u8>,
    /// Nobody has closed the other end.
    is_open: bool,
}

impl StoryOutput {
    fn take(&mut self, record: &Record) {
        self.story.take(record);
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

/// Who drives the run; one inside another is driven with that.
pub(super) fn driver(folder: &RunFolder) -> Driver {
    let outer = folder
        .path()
        .ancestors()
        .skip(1)
        .filter(|path| path.join("lock").is_file())
        .find_map(RunFolder::at);
    let pid = folder.driver().or_else(|| outer?.driver());
    pid.map_or(Driver::Nobody, Driver::Process)
}

/// What the agents are, if the ensemble can still be read.
fn kinds(folder: &RunFolder, started: &RunStarted, surroundings: &Surroundings) -> HashMap<Arc<str>, &'static str> {
    let Ok(prepared) = recorded_ensemble(folder, started, surroundings) else {
        return HashMap::new();
    };
    let plan = &prepared.plan;
    plan.ids()
        .map(|id| (plan.name(id).clone(), plan.agent(id).kind_name()))
        .collect()
}
