//! `ensemble fork` and `ensemble rerun`: a new run that begins with the records of another.

use super::args::{ForkArgs, RerunArgs, ShowingArgs};
use super::drive::{Ending, Then, drive};
use super::error::CliError;
use super::given;
use super::runtime::block_on;
use super::shown::showing;
use super::surroundings::Surroundings;
use ensemble_runs::EditedText;

/// `ensemble fork`.
pub(super) fn fork(args: &ForkArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let showing = showing(&args.showing, surroundings);
    let runs = surroundings.runs_with(showing.operator);
    let mut options = given::options(&args.answering, &args.driving, surroundings)?;
    options.live_output = showing.live_output;
    options.reporters.push(showing.reporter);
    let set = given::set(&args.set)?;
    let ending = Ending {
        fail_on_limit: args.driving.fail_on_limit,
        showing: &args.showing,
        surroundings,
    };
    block_on(async {
        let edited = args.ensemble.as_deref();
        let fork = runs.fork(&*args.run, args.at_turn, set, edited, options).await?;
        tell(fork.edited.as_ref(), &args.showing, surroundings);
        drive(fork.ready, Then::default(), ending).await
    })
}

/// `ensemble rerun`.
pub(super) fn rerun(args: &RerunArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let (agent, turn) = place(&args.from)?;
    let showing = showing(&args.showing, surroundings);
    let runs = surroundings.runs_with(showing.operator);
    let mut options = given::options(&args.answering, &args.driving, surroundings)?;
    options.live_output = showing.live_output;
    options.reporters.push(showing.reporter);
    let ending = Ending {
        fail_on_limit: args.driving.fail_on_limit,
        showing: &args.showing,
        surroundings,
    };
    block_on(async {
        let edited = args.ensemble.as_deref();
        let fork = runs.rerun(&*args.run, agent, turn, edited, options).await?;
        tell(fork.edited.as_ref(), &args.showing, surroundings);
        let messages: Then = fork.messages.into_iter().collect();
        drive(fork.ready, messages, ending).await
    })
}

/// `agent@turn`.
fn place(given: &str) -> Result<(&str, u32), CliError> {
    let parsed = given.split_once('@').filter(|(agent, _)| !agent.is_empty());
    let parsed = parsed.and_then(|(agent, turn)| Some((agent, turn.parse().ok().filter(|turn| *turn > 0)?)));
    parsed.ok_or_else(|| CliError::usage(format!("--from takes AGENT@TURN, not `{given}`")))
}

/// Says what an edited text changes, and which changed agents ran before the fork.
pub(super) fn tell(edited: Option<&EditedText>, showing: &ShowingArgs, surroundings: &Surroundings) {
    let Some(edited) = edited.filter(|_| !showing.quiet) else {
        return;
    };
    let file = edited.file.display();
    let mut text = format!("{file}: {}\n", edited.changes);
    for (agent, turn) in &edited.stands {
        text.push_str(&format!(
            "  {agent} ran in turn {turn} as it was, and that stands; to repeat it: ensemble rerun {} --from {agent}@{turn} --ensemble {file}\n",
            edited.origin
        ));
    }
    surroundings.complain(&text);
}
