//! Who has the floor, and writing down what is said there.

use std::sync::Arc;
use std::time::Duration;

use anstyle::Style;

use super::{Scene, Shown};
use ensemble_core::thread::{Said, Speaker, ToolCall};

const NAME: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// How far what an agent says stands from the margin.
const INDENT: &str = "    ";

/// Who speaks, and how far it is written down.
pub(super) struct Floor {
    pub(super) speaker: Speaker,
    /// Its name stands there.
    pub(super) begun: bool,
    /// The beginning of a reply, until it is known whether it is text.
    held: String,
    /// This reply is being written.
    writes: bool,
    pub(super) at_line_start: bool,
    /// Text of the last reply has been written.
    said_text: bool,
}

impl Scene {
    pub(super) fn hear(&mut self, speaker: &Speaker, said: Said<'_>) {
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
            Said::Retrying { .. } => {}
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

    pub(super) fn close(&mut self, floor: &Floor) -> Shown {
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

impl Floor {
    pub(super) fn of(speaker: Speaker) -> Self {
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
pub(crate) fn called(call: &ToolCall) -> String {
    format!("{} {}", call.name, short(&call.arguments.to_string()))
}

/// `name: 72`, shortened.
pub(crate) fn ended(call: &ToolCall) -> String {
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
