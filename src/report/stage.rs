//! The stage: two streams and a spinner, and agents that are heard while they speak.
//!
//! Lines of two speakers that talk at the same time would be mixed up, so one has the floor: whoever spoke first. What
//! else there is to say waits until its execution has ended.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstyle::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::thread::{Listener, Said, Speaker, ToolCall};

const NAME: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// How far what an agent says stands from the margin.
const INDENT: &str = "    ";

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

/// Who speaks, and how far it is written down.
struct Floor {
    speaker: Speaker,
    /// Its name stands there.
    begun: bool,
    /// The beginning of a reply, until it is known whether it is text.
    held: String,
    /// This reply is being written.
    writes: bool,
    at_line_start: bool,
    /// Text of the last reply has been written.
    said_text: bool,
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
        if !scene.live {
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

    fn hear(&mut self, speaker: &Speaker, said: Said<'_>) {
        if self.floor.is_none() {
            if self.muted.contains(&speaker.agent) && matches!(said, Said::Text(_)) {
                return;
            }
            self.floor = Some(Floor::of(speaker.clone()));
        }
        let Some(mut floor) = self.floor.take_if(|floor| floor.speaker == *speaker) else {
            return;
        };
        match said {
            Said::Text(text) => self.text(&mut floor, text),
            Said::ToolCalled(call) => self.line(&mut floor, &format!("→ {}", called(call))),
            Said::ToolEnded(call) => self.line(&mut floor, &format!("← {}", ended(call))),
            Said::Again if floor.writes => self.line(&mut floor, "(the reply broke off; asking again)"),
            Said::Again => {
                self.muted.remove(&floor.speaker.agent);
                floor.held.clear();
            }
        }
        let is_data = !floor.writes && looks_like_data(&floor.held);
        if is_data {
            self.muted.insert(Arc::clone(&floor.speaker.agent));
        }
        // Who has only data to say leaves the floor to others.
        if floor.begun || !is_data {
            self.floor = Some(floor);
        }
    }

    fn text(&mut self, floor: &mut Floor, text: &str) {
        if floor.writes {
            self.write(floor, text);
            return;
        }
        if self.muted.contains(&floor.speaker.agent) {
            return;
        }
        floor.held.push_str(text);
        let begins = floor.held.trim_start();
        if begins.is_empty() || looks_like_data(begins) {
            return;
        }
        let held = std::mem::take(&mut floor.held);
        self.begin(floor);
        floor.writes = true;
        floor.said_text = true;
        self.write(floor, held.trim_start());
    }

    /// A line about a tool; the next text is another reply.
    fn line(&mut self, floor: &mut Floor, line: &str) {
        self.muted.remove(&floor.speaker.agent);
        self.begin(floor);
        self.end_line(floor);
        self.write_out(&format!("{INDENT}{DIM}{line}{DIM:#}\n"));
        floor.held.clear();
        floor.writes = false;
        floor.said_text = false;
    }

    /// Writes down who speaks; the spinner makes room.
    fn begin(&mut self, floor: &mut Floor) {
        if floor.begun {
            return;
        }
        floor.begun = true;
        self.progress.finish_and_clear();
        let heading = self.heading.take().unwrap_or_default();
        let again = match floor.speaker.execution {
            1 => String::new(),
            execution => format!(" #{execution}"),
        };
        let agent = &floor.speaker.agent;
        self.write_out(&format!("{heading}  {NAME}{agent}{NAME:#}{again} {DIM}llm{DIM:#}\n"));
    }

    fn write(&mut self, floor: &mut Floor, text: &str) {
        let mut shown = String::with_capacity(text.len() + INDENT.len());
        for piece in text.split_inclusive('\n') {
            if floor.at_line_start && piece != "\n" {
                shown.push_str(INDENT);
            }
            shown.push_str(piece);
            floor.at_line_start = piece.ends_with('\n');
        }
        self.write_out(&shown);
    }

    fn end_line(&mut self, floor: &mut Floor) {
        if !floor.at_line_start {
            self.write_out("\n");
            floor.at_line_start = true;
        }
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

    fn close(&mut self, floor: &Floor) -> Shown {
        if !floor.begun {
            return Shown::default();
        }
        if !floor.at_line_start {
            self.write_out("\n");
        }
        if self.spins && !self.asks {
            self.progress.reset();
            self.progress.enable_steady_tick(Duration::from_millis(100));
        }
        Shown {
            title: true,
            text: floor.said_text,
        }
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

impl Floor {
    fn of(speaker: Speaker) -> Self {
        Self {
            speaker,
            begun: false,
            held: String::new(),
            writes: false,
            at_line_start: true,
            said_text: false,
        }
    }
}

/// A reply that begins so is an object, which is shown by its keys when it is whole.
fn looks_like_data(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('{') || text.starts_with("```")
}

/// `name {"city": "Paris"}`, shortened.
pub fn called(call: &ToolCall) -> String {
    format!("{} {}", call.name, short(&call.arguments.to_string()))
}

/// `name: 72`, shortened.
pub fn ended(call: &ToolCall) -> String {
    format!("{}: {}", call.name, short(&call.told()))
}

/// One line of at most 120 characters.
fn short(text: &str) -> String {
    const MOST: usize = 120;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST + 1)
        .collect();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
