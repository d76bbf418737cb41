//! The stage: two streams and a spinner, and agents that are heard while they speak.
//!
//! Lines of two speakers that talk at the same time would be mixed up, so one has the floor: whoever spoke first. What
//! else there is to say waits until its execution has ended.

mod floor;
mod spinner;

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ensemble_core::thread::{Listener, Said, Speaker, ToolCall};

use super::wrap::LineWidth;
use floor::Floor;
pub(super) use floor::{called, ended, is_long};
use spinner::Spinner;

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
    /// How long lines of standard output may be.
    pub out_width: LineWidth,
    /// How long lines of standard error may be.
    pub err_width: LineWidth,
}

struct Scene {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    spinner: Spinner,
    showing: Showing,
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
        Self(Arc::new(Mutex::new(Scene {
            out,
            err,
            spinner: Spinner::new(showing.progress),
            showing,
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
        if let Some(mut floor) = scene.floor.take() {
            scene.end_line(&mut floor);
            scene.floor = Some(floor);
        }
        scene.asks = true;
        scene.spinner.stop();
    }

    /// The person has answered, or nobody waits for it any more.
    pub fn answered(&self) {
        let mut scene = self.lock();
        scene.asks = false;
        if !scene.has_floor() {
            scene.spinner.start();
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
            scene.spinner.reset_time();
        }
        scene.spinner.set_message(message);
        if !scene.must_wait() {
            scene.spinner.start();
        }
    }

    /// How long lines on standard output and on standard error may be.
    pub(super) fn widths(&self) -> (LineWidth, LineWidth) {
        let showing = self.lock().showing;
        (showing.out_width, showing.err_width)
    }

    /// The execution of `agent` has ended, or its attempt: the floor is free, and what waited is said.
    pub fn leave(&self, agent: &str) -> Shown {
        let mut scene = self.lock();
        scene.hear_out(agent);
        scene.muted.remove(agent);
        match scene.floor.take_if(|floor| *floor.speaker.agent == *agent) {
            Some(floor) => scene.close(floor),
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
            scene.close(floor);
        }
        scene.spinner.set_message(String::new());
        scene.catch_up();
    }

    fn lock(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Stage {
    fn hear(&self, speaker: &Speaker, said: Said<'_>) {
        let mut scene = self.lock();
        if !scene.showing.live {
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
        self.spinner.suspend(|| {
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
            Said::Again => Self::Again,
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
