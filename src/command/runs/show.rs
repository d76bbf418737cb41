//! `ensemble runs show`: prints a run turn by turn, also while another process writes it.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::command::run::arguments::RunOutputFormat;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_core::conversation::{Event, Record, RunStarted};
use ensemble_core::records::append_record_line;
use ensemble_core::store::{RunStore, StoredRun};
use ensemble_history::DriverProcess;
use ensemble_history::story::RunStory;
use ensemble_project::Project;
use ensemble_reports::report::sanitized_writer::SanitizedWriter;
use ensemble_reports::report::story::{StoryPrinter, story_to_json};
use ensemble_runs::start::recorded_run::{find_start_event, load_recorded_ensemble};
use ensemble_runs::store::files::FileRunStore;

/// `ensemble runs show`.
#[derive(Debug, Args)]
pub(crate) struct RunsShowArgs {
    /// The run: its id, the beginning of its id, or its folder; default: the latest run
    #[arg(value_name = "RUN", add = completions::complete_runs())]
    pub run: Option<String>,
    /// Use the latest run, which is also the default
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Also print complete outputs, and the inputs, requests and stderr of executions
    #[arg(short, long)]
    pub verbose: bool,
    /// Print all messages to and from the models, complete. AGENT selects the messages of an agent, AGENT@TURN those of
    /// one execution, AGENT@TURN#REQUEST one request of an execution with its reply
    #[arg(long, value_name = "AGENT[@TURN][#REQUEST]", num_args = 0..=1, default_missing_value = "", conflicts_with = "follow")]
    pub messages: Option<String>,
    /// Keep printing until the run ends, while another process executes it
    #[arg(short, long)]
    pub follow: bool,
    /// Show a run on the durable execution engine with this ingress address
    #[arg(long, value_name = "URL", conflicts_with = "follow")]
    pub on: Option<String>,
    /// Use this admin address of the engine, which reports paused runs; default: port 9070 of the host of --on
    #[arg(long, value_name = "URL", requires = "on")]
    pub admin: Option<String>,
    /// Choose the output format
    #[arg(long, alias = "format", value_enum, default_value_t = RunOutputFormat::Human, value_name = "FORM")]
    pub output: RunOutputFormat,
}

/// End of the description of a run on an engine.
pub(crate) struct EngineFooter {
    /// State of the run on the engine.
    pub(crate) state: &'static str,
    /// Lines after the records.
    pub(crate) text: String,
}

/// Pause between two reads of a growing journal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Number of reads without records and without a driver process after which the command stops following the run.
const MAX_IDLE_POLLS: u32 = 10;

/// Executes `ensemble runs show`: prints a run of this machine. Returns the exit code.
pub(crate) async fn show_run(
    args: &RunsShowArgs,
    store: &dyn RunStore,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let run = super::find_run_or_latest(args.run.as_deref(), store, surroundings).await?;
    print_run_or_messages(args, run, None, surroundings).await
}

/// Prints a run, or the messages that `--messages` selects. `footer` is the end of the description for a run on an engine.
pub(crate) async fn print_run_or_messages(
    args: &RunsShowArgs,
    run: Arc<dyn StoredRun>,
    footer: Option<EngineFooter>,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    if let Some(filter) = &args.messages {
        return crate::command::runs::messages::print_selected_exchanges(filter, run, args.output, surroundings).await;
    }
    let mut printer = StoryPrinter::new(args.verbose, args.follow);
    printer.width = surroundings.streams.out_width();
    printer.given_name.clone_from(&args.run);
    let mut output = RecordOutput {
        out: surroundings.streams.out_in_format(args.output.into()),
        form: args.output,
        printer,
        story: RunStory::default(),
        line: Vec::new(),
        is_open: true,
    };
    let code = if args.follow {
        follow_run_to_end(&*run, &mut output, &surroundings.project).await?
    } else {
        let journal = run.read_journal().await?;
        output
            .load_ensemble(&*run, find_start_event(&journal.records)?, &surroundings.project)
            .await;
        journal
            .records
            .iter()
            .for_each(|record| output.apply_and_print_record(record));
        if journal.is_torn {
            surroundings.print_err("warning: the last line of the journal is incomplete and has been left out\n");
        }
        exit::SUCCESS
    };
    match footer {
        Some(footer) => output.print_engine_end(&footer),
        None => output.print_end(find_driver(&*run)),
    }
    Ok(code)
}

/// Prints records as they arrive, until the run has ended or its process has disappeared. Returns the exit code.
async fn follow_run_to_end(run: &dyn StoredRun, output: &mut RecordOutput, project: &Project) -> Result<u8, CliError> {
    let mut follower = run.open_follower();
    let mut silent = 0;
    while output.is_open {
        // Checked before the journal is read, so that everything the other process wrote before its end is read now.
        let is_driven = find_driver(run) != DriverProcess::NoProcess;
        let more = follower.poll_records().await?;
        for record in &more {
            if let Event::RunStarted(started) = &record.event {
                output.load_ensemble(run, started, project).await;
            }
            output.apply_and_print_record(record);
        }
        if !more.is_empty() || is_driven {
            silent = 0;
        } else if output.story.end_event().is_some() {
            return Ok(exit::SUCCESS);
        } else {
            silent += 1;
            if silent > MAX_IDLE_POLLS {
                return Ok(exit::FAILURE);
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(exit::SUCCESS)
}

/// Output of records in the chosen format, while they arrive.
struct RecordOutput {
    out: SanitizedWriter,
    form: RunOutputFormat,
    printer: StoryPrinter,
    story: RunStory,
    line: Vec<u8>,
    /// Set until a write fails.
    is_open: bool,
}

impl RecordOutput {
    /// Loads the kinds of the agents and the limits, if the ensemble can still be read.
    async fn load_ensemble(&mut self, run: &dyn StoredRun, started: &RunStarted, project: &Project) {
        let Ok(prepared) = load_recorded_ensemble(run, started, project).await else {
            return;
        };
        let plan = &prepared.plan;
        self.printer.kinds = plan
            .agent_ids()
            .map(|id| (plan.agent_name(id).clone(), plan.agent(id).kind_name()))
            .collect();
        self.story.limits = Some(plan.ensemble().limits.clone());
    }

    fn apply_and_print_record(&mut self, record: &Record) {
        self.story.apply_record(record);
        match self.form {
            RunOutputFormat::Human => {
                let text = self.printer.render_record(record, &self.story);
                self.write_and_flush(text.as_bytes());
            }
            RunOutputFormat::Events => {
                let mut line = std::mem::take(&mut self.line);
                line.clear();
                append_record_line(record, &mut line);
                self.write_and_flush(&line);
                self.line = line;
            }
            RunOutputFormat::Json => {}
        }
    }

    /// Prints the state and the next steps of a run on this machine, or the whole story as JSON.
    fn print_end(&mut self, driver: DriverProcess) {
        let text = match self.form {
            RunOutputFormat::Human => self.printer.render_footer(&self.story, driver),
            RunOutputFormat::Json => format!("{:#}\n", story_to_json(&self.story, driver)),
            RunOutputFormat::Events => String::new(),
        };
        self.write_and_flush(text.as_bytes());
    }

    /// Prints the state of a run on an engine, or the whole story as JSON.
    fn print_engine_end(&mut self, footer: &EngineFooter) {
        let text = match self.form {
            RunOutputFormat::Human => footer.text.clone(),
            RunOutputFormat::Json => {
                let mut document = story_to_json(&self.story, DriverProcess::NoProcess);
                document["state"] = footer.state.into();
                document["next"] = serde_json::json!([]);
                format!("{document:#}\n")
            }
            RunOutputFormat::Events => String::new(),
        };
        self.write_and_flush(text.as_bytes());
    }

    /// Writes and flushes the bytes. Marks the output as closed if the write fails.
    fn write_and_flush(&mut self, text: &[u8]) {
        let printed = self.out.write_all(text).and_then(|()| self.out.flush());
        self.is_open &= printed.is_ok();
    }
}

/// Returns the process that drives the run. A nested run is driven by the process of its outer run.
pub(crate) fn find_driver(run: &dyn StoredRun) -> DriverProcess {
    let outer = || FileRunStore::find_outer_run(run.run_folder()?)?.lease_holder_pid();
    run.lease_holder_pid().or_else(outer).into()
}
