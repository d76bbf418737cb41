//! The program at a real terminal.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::{Workspace, binary};

/// The program on a terminal of its own.
pub(crate) struct Terminal {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    shown: Receiver<Vec<u8>>,
    text: String,
    /// Everything that was shown.
    whole: Vec<u8>,
    columns: u16,
    _pair: portable_pty::PtyPair,
}

/// What a terminal and its limits are like.
pub(crate) struct Setting {
    /// How wide it is.
    pub columns: u16,
    /// The most blocks of 512 bytes that a file may have which the program writes.
    pub file_blocks: Option<u32>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            columns: PtySize::default().cols,
            file_blocks: None,
        }
    }
}

impl Terminal {
    /// Starts the program with these arguments and this beside the harness's environment.
    pub(crate) fn open(workspace: &Workspace, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::open_with(&Setting::default(), workspace, arguments, environment)
    }

    /// The same with another program, which may start this one.
    pub(crate) fn open_program(
        program: &str,
        workspace: &Workspace,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let command = CommandBuilder::new(program);
        Self::start(command, &Setting::default(), workspace, arguments, environment)
    }

    /// The same on another terminal, or with another limit.
    pub(crate) fn open_with(
        setting: &Setting,
        workspace: &Workspace,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let command = match setting.file_blocks {
            None => CommandBuilder::new(binary()),
            Some(blocks) => {
                let mut command = CommandBuilder::new("sh");
                command.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\""), binary()]);
                command
            }
        };
        Self::start(command, setting, workspace, arguments, environment)
    }

    fn start(
        mut command: CommandBuilder,
        setting: &Setting,
        workspace: &Workspace,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let size = PtySize {
            cols: setting.columns,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).expect("a terminal");
        command.args(arguments);
        command.cwd(workspace.path());
        command.env_clear();
        for (name, value) in workspace.command(arguments).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("TERM", "xterm-256color");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("the program starts");
        let keys = pair.master.take_writer().expect("a keyboard");
        let mut screen = pair.master.try_clone_reader().expect("a screen");
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keys,
            shown,
            text: String::new(),
            whole: Vec::new(),
            columns: setting.columns,
            _pair: pair,
        }
    }

    /// Reads on until the screen has shown this since the last time.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, says: &str) {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.text.find(says) {
                self.text.drain(..at + says.len());
                return;
            }
            assert!(begun.elapsed().as_secs() < 20, "{says} in {:?}", self.text);
            if let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(200)) {
                self.take(&bytes);
            }
        }
    }

    /// Presses these keys.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).expect("keys can be pressed");
        self.keys.flush().expect("keys can be pressed");
    }

    /// The exit code, and what was shown since the last wait.
    pub(crate) fn finish(mut self) -> (u32, String) {
        let code = self.end();
        (code, self.text)
    }

    /// The exit code, and all that was shown.
    pub(crate) fn finish_whole(mut self) -> (u32, String) {
        let code = self.end();
        (code, String::from_utf8_lossy(&self.whole).into_owned())
    }

    /// The same, and the rows that a person sees who scrolls back to the beginning.
    pub(crate) fn finish_with_rows(mut self) -> (u32, String, Vec<String>) {
        let code = self.end();
        (code, String::from_utf8_lossy(&self.whole).into_owned(), self.rows(500))
    }

    /// The exit code, and the rows that a person sees who scrolls back to the beginning.
    pub(crate) fn finish_on_screen(mut self) -> (u32, Vec<String>) {
        let code = self.end();
        (code, self.rows(500))
    }

    /// The same, and the last rows on a screen with this height, which is too small for all.
    pub(crate) fn finish_on_small_screen(mut self, height: u16) -> (u32, Vec<String>, Vec<String>) {
        let code = self.end();
        (code, self.rows(500), self.rows(height))
    }

    /// The rows on a screen with this height, without empty ones at its end.
    fn rows(&self, height: u16) -> Vec<String> {
        let size = |length| NonZeroU16::new(length).expect("a screen has a size");
        let mut screen = vt100::Parser::new(size(height), size(self.columns), 0);
        screen.process(&self.whole);
        let rows: Vec<String> = screen.screen().rows(0, self.columns).collect();
        let last = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |at| at + 1);
        rows[..last].to_vec()
    }

    /// The program's process.
    pub(crate) fn process_id(&self) -> u32 {
        self.child.process_id().expect("it runs")
    }

    fn take(&mut self, bytes: &[u8]) {
        self.whole.extend_from_slice(bytes);
        self.text.push_str(&String::from_utf8_lossy(bytes));
    }

    fn end(&mut self) -> u32 {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(begun.elapsed().as_secs() < 20, "it does not end: {:?}", self.text);
            std::thread::sleep(Duration::from_millis(10));
        };
        while let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(100)) {
            self.take(&bytes);
        }
        status.exit_code()
    }
}
