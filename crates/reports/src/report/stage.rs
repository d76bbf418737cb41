//! The stage: two streams and a spinner, and agents that are heard while they speak.
//!
//! Lines of two speakers that talk at the same time would be mixed up, so one has the floor: whoever spoke first. What
//! else there is to say waits until its execution has ended.

mod floor;

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use ensemble_core::thread::{Listener, Said, Speaker, ToolCall};

use floor::Floor;
pub(super) use floor::{called, ended};

/// Where a run is shown; clones share it.
#[derive(Clone)]
pub struct Stage(Arc<Mutex<Scene>>);

/// How much is shown while it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Showing {
    /// A spinner turns on standard error.
    pub progress: bool,
    /// Replies are shown while they come.
    pub live: bool,
}

struct Scene {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    progress: ProgressBar,
    /// The spinner has begun to turn; it does so on a thread of its own.
    spins: bool,
    live: bool,
    heading: Option<String>,
    floor: Option<Floor>,
    /// Whose present reply is not shown as it comes, because it is data.
    muted: HashSet<Arc<str>>,
    /// What is said when the floor is free.
    waiting: Vec<(To, String)>,
    /// A person is being asked: until the answer everybody is silent.
    asks: bool,
    /// What was heard meanwhile.
    unheard: Vec<(Speaker, Unheard)>,
}

/// What is said while a person is asked.
enum Unheard {
    Text(String),
    ToolCalled(ToolCall),
    ToolEnded(ToolCall),
    Again,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Out,
    Err,
}

/// What of an execution has been shown before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shown {
    /// Its name.
    pub title: bool,
    /// The text of its last reply.
    pub text: bool,
}

impl Stage {
    /// On these two streams.
    pub fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>, showing: Showing) -> Self {
        let target = if showing.progress {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let progress = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}") {
            progress.set_style(style);
        }
        Self(Arc::new(Mutex::new(Scene {
            out,
            err,
            progress,
            spins: false,
            live: showing.live,
            heading: None,
            floor: None,
            muted: HashSet::new(),
            waiting: Vec::new(),
            asks: false,
            unheard: Vec::new(),
        })))
    }

    /// A person is asked: nobody else speaks, and the spinner makes room, until [`Stage::answered`].
    pub fn ask(&self) {
        let mut scene = self.lock();
        if let Some(floor) = &mut scene.floor {
            let is_open = std::mem::replace(&mut floor.at_line_start, true);
            if !is_open {
                scene.write_out("\n");
            }
        }
        scene.asks = true;
        if scene.spins {
            scene.progress.finish_and_clear();
        }
    }

    /// The person has answered, or nobody waits for it any more.
    pub fn answered(&self) {
        let mut scene = self.lock();
        scene.asks = false;
        if scene.spins && !scene.has_floor() {
            scene.progress.reset();
            scene.progress.enable_steady_tick(Duration::from_millis(100));
        }
        // What belongs to those who have ended comes before what the others have begun.
        scene.catch_up();
        for (speaker, unheard) in std::mem::take(&mut scene.unheard) {
            scene.hear(&speaker, unheard.as_said());
        }
        scene.catch_up();
    }

    /// Says `text` on standard output.
    pub fn say(&self, text: &str) {
        self.lock().put(To::Out, text);
    }

    /// Says `text` on standard error.
    pub fn note(&self, text: &str) {
        self.lock().put(To::Err, text);
    }

    /// What is said on standard output before the next thing that somebody says.
    pub fn head(&self, heading: Option<String>) {
        self.lock().heading = heading;
    }

    /// Says the heading, unless that has been done.
    pub fn say_heading(&self) {
        let mut scene = self.lock();
        if let Some(heading) = scene.heading.take() {
            scene.put(To::Out, &heading);
        }
    }

    /// Shows who is at work; nobody: an empty text.
    pub fn at_work(&self, message: String, afresh: bool) {
        let mut scene = self.lock();
        if afresh {
            scene.progress.reset_elapsed();
        }
        let stands = !scene.spins || scene.progress.is_finished();
        if !message.is_empty() && stands && !scene.must_wait() && !scene.progress.is_hidden() {
            scene.spins = true;
            if scene.progress.is_finished() {
                scene.progress.reset();
            }
            scene.progress.enable_steady_tick(Duration::from_millis(100));
        }
        scene.progress.set_message(message);
    }

    /// The execution of `agent` has ended, or its attempt: the floor is free, and what waited is said.
    pub fn leave(&self, agent: &str) -> Shown {
        let mut scene = self.lock();
        scene.hear_out(agent);
        scene.muted.remove(agent);
        match scene.floor.take_if(|floor| *floor.speaker.agent == *agent) {
            Some(floor) => scene.close(&floor),
            None => Shown::default(),
        }
    }

    /// Says what waited while somebody had the floor.
    pub fn catch_up(&self) {
        self.lock().catch_up();
    }

    /// Nothing more will happen.
    pub fn end(&self) {
        let mut scene = self.lock();
        if let Some(floor) = scene.floor.take() {
            scene.close(&floor);
        }
        scene.progress.finish_and_clear();
        scene.catch_up();
    }

    fn lock(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Stage {
    fn hear(&self, speaker: &Speaker, said: Said<'_>) {
        let mut scene = self.lock();
        // A retry is told with the warnings of the execution.
        if !scene.live || matches!(said, Said::Retrying { .. }) {
            return;
        }
        if scene.asks {
            scene.unheard.push((speaker.clone(), said.into()));
        } else {
            scene.hear(speaker, said);
        }
    }
}

impl Scene {
    fn has_floor(&self) -> bool {
        self.floor.as_ref().is_some_and(|floor| floor.begun)
    }

    fn must_wait(&self) -> bool {
        self.has_floor() || self.asks
    }

    fn catch_up(&mut self) {
        if self.must_wait() {
            return;
        }
        for (to, text) in std::mem::take(&mut self.waiting) {
            self.put(to, &text);
        }
    }

    /// The agent ends while a person is asked. If it has the floor, the rest of what it said waits with everything
    /// else; if not, all of it is shown with its end, and nobody need hear it any more.
    fn hear_out(&mut self, agent: &str) {
        let has_floor = self.has_floor() && self.floor.as_ref().is_some_and(|floor| *floor.speaker.agent == *agent);
        let unheard = std::mem::take(&mut self.unheard);
        let (its, others) = unheard.into_iter().partition(|(speaker, _)| *speaker.agent == *agent);
        self.unheard = others;
        let its: Vec<(Speaker, Unheard)> = its;
        for (speaker, unheard) in its.iter().filter(|_| has_floor) {
            self.hear(speaker, unheard.as_said());
        }
    }

    fn put(&mut self, to: To, text: &str) {
        if self.must_wait() {
            self.waiting.push((to, text.to_owned()));
            return;
        }
        let stream = match to {
            To::Out => &mut self.out,
            To::Err => &mut self.err,
        };
        // A reader that has gone away must not stop the run: the journal has it all.
        self.progress.suspend(|| {
            let _ = stream.write_all(text.as_bytes());
            let _ = stream.flush();
        });
    }

    /// On standard output, whoever has the floor; while a person is asked it waits.
    fn write_out(&mut self, text: &str) {
        if self.asks {
            self.waiting.push((To::Out, text.to_owned()));
            return;
        }
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }
}

impl From<Said<'_>> for Unheard {
    fn from(said: Said<'_>) -> Self {
        match said {
            Said::Text(text) => Self::Text(text.to_owned()),
            Said::ToolCalled(call) => Self::ToolCalled(call.clone()),
            Said::ToolEnded(call) => Self::ToolEnded(call.clone()),
            Said::Again | Said::Retrying { .. } => Self::Again,
        }
    }
}

impl Unheard {
    fn as_said(&self) -> Said<'_> {
        match self {
            Self::Text(text) => Said::Text(text),
            Self::ToolCalled(call) => Said::ToolCalled(call),
            Self::ToolEnded(call) => Said::ToolEnded(call),
            Self::Again => Said::Again,
        }
    }
}

#[cfg(test)]
mod tests;
