//! The program at a real terminal.

use std::io::{Read, Write};
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
    _pair: portable_pty::PtyPair,
}

impl Terminal {
    /// Starts the program with these arguments and this beside the harness's environment.
    pub(crate) fn open(workspace: &Workspace, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let pair = native_pty_system().openpty(PtySize::default()).expect("a terminal");
        let mut command = CommandBuilder::new(binary());
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
                self.text.push_str(&String::from_utf8_lossy(&bytes));
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
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(begun.elapsed().as_secs() < 20, "it does not end: {:?}", self.text);
            std::thread::sleep(Duration::from_millis(10));
        };
        while let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(100)) {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        (status.exit_code(), self.text)
    }
}
