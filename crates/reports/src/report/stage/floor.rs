//! Who has the floor, and writing down what is said there.

use std::sync::Arc;

use anstyle::Style;

use super::{Scene, Shown};
use crate::report::wrap::Wrapper;
use ensemble_core::thread::{Said, Speaker, ToolCall};

const NAME: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// How far what an agent says stands from the margin.
const INDENT: usize = 4;

/// Who speaks, and how far it is written down.
pub(super) struct Floor {
    pub(super) speaker: Speaker,
    /// Its name stands there.
    pub(super) begun: bool,
    /// The beginning of a reply, until it is known whether it is text.
    held: String,
    /// This reply is being written.
    writes: bool,
    wrapper: Wrapper,
    /// Text of the last reply has been written.
    said_text: bool,
}

impl Scene {
    pub(super) fn hear(&mut self, speaker: &Speaker, said: Said<'_>) {
        if self.floor.is_none() {
            if self.muted.contains(&speaker.agent) && matches!(said, Said::Text(_)) {
                return;
            }
            self.floor = Some(Floor::of(speaker.clone(), Wrapper::new(self.showing.out_width, INDENT)));
        }
        let Some(mut floor) = self.floor.take_if(|floor| floor.speaker == *speaker) else {
            return;
        };
        match said {
            Said::Text(text) => self.text(&mut floor, text),
            Said::ToolCalled(call) => self.line(&mut floor, &format!("→ {}", called(call, false))),
            Said::ToolEnded(call) => self.line(&mut floor, &format!("← {}", ended(call, false))),
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
        let line = format!("{:INDENT$}{DIM}{line}{DIM:#}\n", "");
        self.write_out(&self.showing.out_width.sentences(&line));
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
        self.spinner.stop();
        let heading = self.heading.take().unwrap_or_default();
        let again = match floor.speaker.execution {
            1 => String::new(),
            execution => format!(" #{execution}"),
        };
        let agent = &floor.speaker.agent;
        self.write_out(&format!("{heading}  {NAME}{agent}{NAME:#}{again} {DIM}llm{DIM:#}\n"));
    }

    fn write(&mut self, floor: &mut Floor, text: &str) {
        let mut shown = String::with_capacity(text.len() + INDENT);
        floor.wrapper.push(text, &mut shown);
        self.write_out(&shown);
    }

    /// Ends the line in which the speaker is; what comes next begins a new one.
    pub(super) fn end_line(&mut self, floor: &mut Floor) {
        let mut shown = String::new();
        floor.wrapper.close_line(&mut shown);
        if !shown.is_empty() {
            self.write_out(&shown);
        }
    }

    pub(super) fn close(&mut self, mut floor: Floor) -> Shown {
        if !floor.begun {
            return Shown::default();
        }
        self.end_line(&mut floor);
        if !self.asks {
            self.spinner.start();
        }
        Shown {
            title: true,
            text: floor.said_text,
        }
    }
}

impl Floor {
    fn of(speaker: Speaker, wrapper: Wrapper) -> Self {
        Self {
            speaker,
            begun: false,
            held: String::new(),
            writes: false,
            wrapper,
            said_text: false,
        }
    }
}

/// A reply that begins so is an object, which is shown by its keys when it is whole.
fn looks_like_data(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('{') || text.starts_with("```")
}

/// `name {"city": "Paris"}`, on one line, shortened unless the whole is wanted.
pub(crate) fn called(call: &ToolCall, whole: bool) -> String {
    format!("{} {}", call.name, on_one_line(&call.arguments.to_string(), whole))
}

/// `name: 72`, likewise.
pub(crate) fn ended(call: &ToolCall, whole: bool) -> String {
    format!("{}: {}", call.name, on_one_line(&call.told(), whole))
}

/// Characters of what a tool takes or gives that are shown unless all are wanted.
const MOST: usize = 120;

/// Is the whole of the call longer than what is shown of it?
pub(crate) fn is_long(call: &ToolCall) -> bool {
    let is_long = |text: &str| text.chars().nth(MOST).is_some();
    is_long(&call.arguments.to_string()) || is_long(&call.told())
}

fn on_one_line(text: &str, whole: bool) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if whole || text.chars().nth(MOST).is_none() {
        return line.collect();
    }
    line.take(MOST).chain(['…']).collect()
}
