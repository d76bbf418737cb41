//! `ensemble fork` and `ensemble rerun`: start a new run with the records of another run.

use super::args::{ForkArgs, RerunArgs, ShowingArgs};
use super::drive::{Ending, QueuedMessages, drive};
use super::error::CliError;
use super::given;
use super::runtime::block_on;
use super::shown::showing;
use super::surroundings::Surroundings;
use ensemble_runs::EditedText;

/// `ensemble fork`.
pub(super) fn fork(args: &ForkArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let showing = showing(&args.showing, surroundings);
    let runs = surroundings.runs_with(&showing.operator);
    let options = given::options(&args.answering, &args.driving, showing, surroundings)?;
    let mut options = given::with_set(options, &args.set)?;
    let set = std::mem::take(&mut options.context);
    let ending = Ending::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let edited = args.ensemble.as_deref();
        let fork = runs
            .fork(args.run.as_deref(), args.at_turn, set, edited, options)
            .await?;
        print_changes(fork.edited.as_ref(), &args.showing, surroundings);
        drive(fork.ready, QueuedMessages::default(), ending).await
    })
}

/// `ensemble rerun`.
pub(super) fn rerun(args: &RerunArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let Place { agent, part, turn } = place(&args.from)?;
    let showing = showing(&args.showing, surroundings);
    let runs = surroundings.runs_with(&showing.operator);
    let options = given::options(&args.answering, &args.driving, showing, surroundings)?;
    let ending = Ending::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let edited = args.ensemble.as_deref();
        let fork = runs
            .rerun(args.run.as_deref(), agent, part, turn, edited, options)
            .await?;
        print_changes(fork.edited.as_ref(), &args.showing, surroundings);
        let messages: QueuedMessages = fork.messages.into_iter().collect();
        drive(fork.ready, messages, ending).await
    })
}

/// An execution, or a part of it.
struct Place<'a> {
    agent: &'a str,
    part: Option<&'a str>,
    turn: u32,
}

/// Parses `agent@turn` or `agent[key]@turn`. A key may contain any character.
fn place(given: &str) -> Result<Place<'_>, CliError> {
    let parsed = given.rsplit_once('@').and_then(|(executed, turn)| {
        let turn = turn.parse().ok().filter(|turn| *turn > 0)?;
        let (agent, part) = match executed.split_once('[') {
            Some((agent, key)) => (agent, Some(key.strip_suffix(']')?)),
            None => (executed, None),
        };
        (!agent.is_empty()).then_some(Place { agent, part, turn })
    });
    parsed.ok_or_else(|| CliError::usage(format!("--from takes AGENT@TURN or AGENT[KEY]@TURN, not `{given}`")))
}

/// Prints the changes of an edited ensemble, and which changed agents ran before the fork.
pub(super) fn print_changes(edited: Option<&EditedText>, showing: &ShowingArgs, surroundings: &Surroundings) {
    let Some(edited) = edited.filter(|_| !showing.quiet) else {
        return;
    };
    let file = edited.file.display();
    let mut text = format!("{file}: {}\n", edited.changes);
    for (agent, turn) in &edited.stands {
        text.push_str(&format!(
            "  {agent} ran in turn {turn} before the change, and its result is kept; to repeat it: ensemble rerun {} --from {agent}@{turn} --ensemble {file}\n",
            edited.origin
        ));
    }
    surroundings.print_err(&text);
}
