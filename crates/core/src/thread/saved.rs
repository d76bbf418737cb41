//! Reads from a journal what an execution added to a thread.

use serde::{Deserialize, Deserializer};

use super::{Iteration, Message, Role};

/// The iterations that an execution added to the thread of its agent. Early versions of journals contain plain
/// messages; there, each reply ends an iteration.
///
/// # Errors
/// The value is neither a list of iterations nor a list of messages.
pub fn exchange<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Iteration>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Item {
        Iteration(Iteration),
        Message(Message),
    }
    let mut iterations: Vec<Iteration> = Vec::new();
    let mut is_open = false;
    for item in Vec::<Item>::deserialize(deserializer)? {
        match item {
            Item::Iteration(iteration) => iterations.push(iteration),
            Item::Message(message) => {
                let ends = message.role == Role::Assistant;
                match iterations.last_mut().filter(|_| is_open) {
                    Some(iteration) => iteration.messages.push(message),
                    None => iterations.push(Iteration {
                        messages: vec![message],
                        ..Iteration::default()
                    }),
                }
                is_open = !ends;
            }
        }
    }
    for (at, iteration) in iterations.iter_mut().enumerate() {
        if iteration.number == 0 {
            iteration.number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        }
    }
    Ok(iterations)
}
