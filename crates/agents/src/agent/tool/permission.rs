//! Who may call what: the ensemble says, the command line may allow more, and a person is asked for the rest.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::agent::Execution;
use crate::agent::input::{Answered, Person};
use ensemble_language::data::{JsonMap, Question};
use ensemble_language::ensemble::Permission;

/// What stands for every tool in `--allow-tool`.
const EVERY: &str = "*";

/// How often a person is asked again who answers something else.
const ASKED_AT_MOST: usize = 3;

/// Characters of the arguments that a person is shown unless all are wanted.
const SHOWN: usize = 2000;

/// The answer after which the question is asked again with all of the arguments.
const SHOW_ALL: &str = "show all of the arguments";

/// What is permitted in this run, beside what the ensemble says.
pub struct Permits {
    person: Arc<dyn Person>,
    allowed: HashSet<String>,
    /// Tools that a person has allowed for the rest of the run.
    always: Mutex<HashSet<String>>,
    /// Tools that were denied because nobody could be asked.
    unasked: Mutex<HashSet<String>>,
    /// One question at a time, so that "always" answers those that wait.
    asking: tokio::sync::Mutex<()>,
}

/// What a person has said.
enum Verdict {
    Once,
    Always,
    No,
    NobodyThere,
}

impl Permits {
    /// Asks that person about tools that are not `allowed` beforehand.
    pub fn new(person: Arc<dyn Person>, allowed: impl IntoIterator<Item = String>) -> Self {
        Self {
            person,
            allowed: allowed.into_iter().collect(),
            always: Mutex::default(),
            unasked: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// May the tool be called now? The error is for the model.
    pub(super) async fn ask(
        &self,
        permission: Permission,
        tool: &str,
        arguments: &JsonMap,
        execution: &Execution,
    ) -> Result<(), String> {
        match permission {
            Permission::Allow => return Ok(()),
            Permission::Deny => return Err(denied(tool, "the ensemble does not permit it")),
            Permission::Ask => {}
        }
        if self.is_allowed(tool) {
            return Ok(());
        }
        let _one_at_a_time = self.asking.lock().await;
        if lock(&self.always).contains(tool) {
            return Ok(());
        }
        match self.verdict(tool, arguments, execution).await {
            Verdict::Once => Ok(()),
            Verdict::Always => {
                lock(&self.always).insert(tool.to_owned());
                Ok(())
            }
            Verdict::No => Err(denied(tool, "the person who runs this said no")),
            Verdict::NobodyThere => {
                if lock(&self.unasked).insert(tool.to_owned()) {
                    execution.notes.warn(format!(
                        "the tool `{tool}` was denied, since nobody could be asked; `--allow-tool {tool}` allows it, \
                         and so does `permission: allow` in the ensemble"
                    ));
                }
                Err(denied(tool, "nobody is there who could permit it"))
            }
        }
    }

    /// Allowed by its name, by its server's, or with all others.
    fn is_allowed(&self, tool: &str) -> bool {
        let server = tool.split_once('.').map(|(server, _)| server);
        [Some(tool), server, Some(EVERY)]
            .into_iter()
            .flatten()
            .any(|name| self.allowed.contains(name))
    }

    async fn verdict(&self, tool: &str, arguments: &JsonMap, execution: &Execution) -> Verdict {
        let arguments = spelt_out(arguments);
        let mut most = SHOWN;
        let mut unclear = 0;
        while unclear < ASKED_AT_MOST {
            let question = question(tool, &arguments, most);
            match self.person.ask(&question, &execution.agent_name, None, None).await {
                Answered::Text(text) => match text.trim().to_lowercase().as_str() {
                    "y" | "yes" | "1" => return Verdict::Once,
                    "n" | "no" | "2" => return Verdict::No,
                    "a" | "always" | "always in this run" | "3" => return Verdict::Always,
                    "s" | "show" | SHOW_ALL | "4" if question.choices.len() > 3 => most = usize::MAX,
                    _ => unclear += 1,
                },
                Answered::TimedOut | Answered::NobodyThere => return Verdict::NobodyThere,
            }
        }
        Verdict::No
    }
}

fn denied(tool: &str, why: &str) -> String {
    format!("the use of `{tool}` was denied: {why}")
}

/// What a person is asked, with at most so many characters of the arguments.
fn question(tool: &str, arguments: &str, most: usize) -> Question {
    let mut choices = ["yes", "no", "always in this run"].map(str::to_owned).to_vec();
    let mut shown = arguments.to_owned();
    if let Some((at, _)) = arguments.char_indices().nth(most) {
        shown.truncate(at);
        let more = arguments[at..].chars().count();
        shown.push_str(&format!("… ({more} more characters; 4 shows them)"));
        choices.push(SHOW_ALL.to_owned());
    }
    Question {
        prompt: format!("may I use the tool `{tool}` with {shown}?"),
        choices,
        asked_by: None,
    }
}

/// Arguments as a person may safely see them: what a terminal would obey is spelt out.
fn spelt_out(arguments: &JsonMap) -> String {
    let mut text = String::new();
    for character in Value::Object(arguments.clone()).to_string().chars() {
        let turns_text =
            matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || turns_text {
            text.extend(character.escape_unicode());
        } else {
            text.push(character);
        }
    }
    text
}

fn lock(set: &Mutex<HashSet<String>>) -> MutexGuard<'_, HashSet<String>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::agent::{BoxFuture, fixtures};

    /// Answers what it was told to, and counts.
    #[derive(Default)]
    struct Scripted {
        answers: Mutex<Vec<Answered>>,
        asked: Mutex<Vec<String>>,
    }

    impl Person for Scripted {
        fn ask<'a>(
            &'a self,
            question: &'a Question,
            agent_name: &'a str,
            _: Option<Duration>,
            _: Option<&'a str>,
        ) -> BoxFuture<'a, Answered> {
            self.asked
                .lock()
                .unwrap()
                .push(format!("{agent_name}: {}", question.prompt));
            let answer = self.answers.lock().unwrap().remove(0);
            Box::pin(async move {
                tokio::task::yield_now().await;
                answer
            })
        }
    }

    fn says(text: &str) -> Answered {
        Answered::Text(text.into())
    }

    fn permits(allowed: &[&str], answers: Vec<Answered>) -> (Permits, Arc<Scripted>) {
        let person = Arc::new(Scripted {
            answers: Mutex::new(answers),
            asked: Mutex::default(),
        });
        let allowed = allowed.iter().map(|name| (*name).to_owned());
        (Permits::new(person.clone(), allowed), person)
    }

    async fn ask(permits: &Permits, permission: Permission, tool: &str) -> Result<(), String> {
        let execution = fixtures::execution("scout", 1);
        permits.ask(permission, tool, &JsonMap::new(), &execution).await
    }

    #[tokio::test]
    async fn what_is_allowed_is_not_asked() {
        for (allowed, permission, tool) in [
            (vec![], Permission::Allow, "files.read"),
            (vec!["*"], Permission::Ask, "files.read"),
            (vec!["files"], Permission::Ask, "files.read"),
            (vec!["files.read"], Permission::Ask, "files.read"),
            (vec!["look"], Permission::Ask, "look"),
        ] {
            let (permits, _) = permits(&allowed, vec![]);
            assert_eq!(ask(&permits, permission, tool).await, Ok(()), "{allowed:?}");
        }
        let (permits, _) = permits(&["*"], vec![]);
        assert!(ask(&permits, Permission::Deny, "look").await.is_err(), "deny is deny");
    }

    #[tokio::test]
    async fn a_name_that_begins_alike_is_another_tool() {
        for (allowed, tool) in [
            ("files", "files_write"),
            ("file", "files.read"),
            ("files.read", "files.write"),
            ("read", "files.read"),
            ("look", "lo"),
        ] {
            let (permits, person) = permits(&[allowed], vec![says("no")]);
            assert!(ask(&permits, Permission::Ask, tool).await.is_err(), "{allowed} {tool}");
            assert_eq!(person.asked.lock().unwrap().len(), 1);
        }
    }

    #[tokio::test]
    async fn only_a_clear_yes_is_one() {
        for unclear in ["", " ", "ok", "yes please", "0"] {
            let (permits, person) = permits(&[], vec![says(unclear), says(unclear), says(unclear)]);
            assert!(ask(&permits, Permission::Ask, "look").await.is_err(), "{unclear:?}");
            assert_eq!(person.asked.lock().unwrap().len(), 3, "{unclear:?}");
        }
        let (permits, _) = permits(&[], vec![Answered::TimedOut]);
        assert!(ask(&permits, Permission::Ask, "look").await.is_err());
    }

    #[tokio::test]
    async fn a_person_decides_each_time_or_once_for_all() {
        let answers = vec![says("Y"), says("what?"), says("n"), says("always"), says("no")];
        let (permits, person) = permits(&["files.write"], answers);
        assert_eq!(ask(&permits, Permission::Ask, "files.read").await, Ok(()));
        let refused = ask(&permits, Permission::Ask, "files.read").await.unwrap_err();
        assert!(refused.contains("denied") && refused.contains("said no"), "{refused}");
        assert_eq!(ask(&permits, Permission::Ask, "files.read").await, Ok(()));
        assert_eq!(ask(&permits, Permission::Ask, "files.read").await, Ok(()));
        assert!(ask(&permits, Permission::Ask, "other").await.is_err());
        assert_eq!(person.asked.lock().unwrap().len(), 5);
    }

    #[tokio::test]
    async fn always_answers_those_that_wait() {
        let (permits, person) = permits(&[], vec![says("a")]);
        let (one, other) = tokio::join!(
            ask(&permits, Permission::Ask, "look"),
            ask(&permits, Permission::Ask, "look")
        );
        assert_eq!((one, other), (Ok(()), Ok(())));
        assert_eq!(person.asked.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn where_nobody_is_there_it_is_denied_and_said_once() {
        let (permits, _) = permits(&[], vec![Answered::NobodyThere, Answered::NobodyThere]);
        let execution = fixtures::execution("scout", 1);
        for _ in 0..2 {
            let refused = permits.ask(Permission::Ask, "look", &JsonMap::new(), &execution).await;
            assert!(refused.unwrap_err().contains("denied"));
        }
        let warnings = execution.notes.take().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("--allow-tool look"), "{warnings:?}");
    }

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        let arguments = json!({"path": "a\u{1b}[2K\u{202e}b\u{9b}c\n"});
        let text = spelt_out(arguments.as_object().expect("an object"));
        assert_eq!(text, r#"{"path":"a\u001b[2K\u{202e}b\u{9b}c\n"}"#);
    }

    #[tokio::test]
    async fn long_arguments_are_cut_and_shown_whole_to_who_asks() {
        let (permits, person) = permits(&[], vec![says("4"), says("what?"), says("yes")]);
        let execution = fixtures::execution("scout", 1);
        let arguments = json!({"x": "y".repeat(5000)});
        let arguments = arguments.as_object().expect("an object");
        let answer = permits.ask(Permission::Ask, "look", arguments, &execution).await;
        assert_eq!(answer, Ok(()));
        let asked = person.asked.lock().unwrap().clone();
        assert!(
            asked[0].ends_with("yyy… (3008 more characters; 4 shows them)?"),
            "{}",
            asked[0]
        );
        for whole in &asked[1..] {
            assert!(whole.ends_with("yyy\"}?"), "{}", &whole[4900..]);
        }
        // Where nothing is cut there is nothing more to show.
        let (permits, person) = self::permits(&[], vec![says("4"), says("4"), says("4")]);
        assert!(ask(&permits, Permission::Ask, "look").await.is_err());
        assert_eq!(person.asked.lock().unwrap().len(), 3);
    }
}
