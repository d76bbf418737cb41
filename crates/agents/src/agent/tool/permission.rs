//! Permissions of tool calls: the ensemble sets them, the command line may allow more tools, and the operator decides
//! about all others.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::Execution;
use ensemble_core::operator::{Decision, Operator, PermissionRequest};
use ensemble_core::store::RunId;
use ensemble_core::thread::ToolCall;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::Permission;

/// The value of `--allow-tool` that allows every tool.
const EVERY: &str = "*";

/// The permissions of one run, in addition to those in the ensemble.
pub struct ToolPermissions {
    operator: Arc<dyn Operator>,
    allowed: HashSet<String>,
    /// Tools that the operator has allowed for the rest of the run.
    always: Mutex<HashSet<String>>,
    /// Tools that were denied because no operator was available; there is one warning for each tool.
    unasked: Mutex<HashSet<String>>,
    /// Allows one question at a time, so that the decision "always" also answers waiting questions.
    asking: tokio::sync::Mutex<()>,
}

impl ToolPermissions {
    /// Permissions that ask `operator` about tools that are not in `allowed`.
    pub fn new(operator: Arc<dyn Operator>, allowed: impl IntoIterator<Item = String>) -> Self {
        Self {
            operator,
            allowed: allowed.into_iter().collect(),
            always: Mutex::default(),
            unasked: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Decides whether the tool may be called now. The error text goes to the model.
    pub(super) async fn ask(
        &self,
        permission: Permission,
        tool: &str,
        call: &ToolCall,
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
        let requested = PermissionRequest {
            run: RunId::new(execution.run_id.clone()),
            agent: execution.agent_name.clone(),
            execution: execution.execution,
            call: call.id.as_str().into(),
            tool: tool.into(),
            arguments: arguments.clone(),
        };
        let standing = execution.stopwatch.stand();
        let decision = self.operator.permit(requested).await;
        drop(standing);
        match decision {
            Decision::Once => Ok(()),
            Decision::Always => {
                lock(&self.always).insert(tool.to_owned());
                Ok(())
            }
            Decision::Denied => Err(denied(tool, "the operator refused the call")),
            Decision::Cancelled => Err(denied(tool, "the question was withdrawn")),
            Decision::Nobody => {
                if lock(&self.unasked).insert(tool.to_owned()) {
                    execution.notes.warn(format!(
                        "the tool `{tool}` was denied, because no operator was available; `--allow-tool {tool}` allows it, \
                         and so does `permission: allow` in the ensemble"
                    ));
                }
                Err(denied(tool, "no operator is available to permit it"))
            }
        }
    }

    /// The operator, for a question of a tool. While the guard is kept, nothing else is asked.
    pub(super) async fn operator(&self) -> (tokio::sync::MutexGuard<'_, ()>, &dyn Operator) {
        (self.asking.lock().await, &*self.operator)
    }

    /// Is the tool allowed by its name, by the name of its server, or by `*`?
    fn is_allowed(&self, tool: &str) -> bool {
        let server = tool.split_once('.').map(|(server, _)| server);
        [Some(tool), server, Some(EVERY)]
            .into_iter()
            .flatten()
            .any(|name| self.allowed.contains(name))
    }
}

fn denied(tool: &str, why: &str) -> String {
    format!("the use of `{tool}` was denied: {why}")
}

fn lock(set: &Mutex<HashSet<String>>) -> MutexGuard<'_, HashSet<String>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use ensemble_core::operator::{Answer, Asked};
    use serde_json::json;

    use super::*;
    use crate::agent::{BoxFuture, fixtures};

    /// Decides as it was told to, and keeps what it was asked.
    struct Scripted {
        decisions: Mutex<Vec<Decision>>,
        asked: Mutex<Vec<PermissionRequest>>,
    }

    impl Operator for Scripted {
        fn ask(&self, _asked: Asked) -> BoxFuture<'_, Answer> {
            Box::pin(async { Answer::Nobody })
        }

        fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, Decision> {
            self.asked.lock().unwrap().push(requested);
            let decision = self.decisions.lock().unwrap().remove(0);
            Box::pin(async move {
                tokio::task::yield_now().await;
                decision
            })
        }
    }

    fn permissions(allowed: &[&str], decisions: Vec<Decision>) -> (ToolPermissions, Arc<Scripted>) {
        let operator = Arc::new(Scripted {
            decisions: Mutex::new(decisions),
            asked: Mutex::default(),
        });
        let allowed = allowed.iter().map(|name| (*name).to_owned());
        (ToolPermissions::new(operator.clone(), allowed), operator)
    }

    fn call() -> ToolCall {
        ToolCall::new("call 7", "look", json!({}))
    }

    async fn ask(permissions: &ToolPermissions, permission: Permission, tool: &str) -> Result<(), String> {
        let execution = fixtures::execution("scout", 1);
        permissions
            .ask(permission, tool, &call(), &JsonMap::new(), &execution)
            .await
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
            let (permissions, _) = permissions(&allowed, vec![]);
            assert_eq!(ask(&permissions, permission, tool).await, Ok(()), "{allowed:?}");
        }
        let (permissions, _) = permissions(&["*"], vec![]);
        assert!(
            ask(&permissions, Permission::Deny, "look").await.is_err(),
            "deny is deny"
        );
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
            let (permissions, operator) = permissions(&[allowed], vec![Decision::Denied]);
            assert!(
                ask(&permissions, Permission::Ask, tool).await.is_err(),
                "{allowed} {tool}"
            );
            assert_eq!(operator.asked.lock().unwrap().len(), 1);
        }
    }

    #[tokio::test]
    async fn what_is_no_permission_is_a_refusal() {
        for decision in [Decision::Denied, Decision::Cancelled, Decision::Nobody] {
            let (permissions, _) = permissions(&[], vec![decision]);
            assert!(
                ask(&permissions, Permission::Ask, "look").await.is_err(),
                "{decision:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_operator_decides_each_time_or_once_for_all() {
        let decisions = vec![Decision::Once, Decision::Denied, Decision::Always, Decision::Denied];
        let (permissions, operator) = permissions(&["files.write"], decisions);
        assert_eq!(ask(&permissions, Permission::Ask, "files.read").await, Ok(()));
        let refused = ask(&permissions, Permission::Ask, "files.read").await.unwrap_err();
        assert!(
            refused.contains("denied") && refused.contains("operator refused"),
            "{refused}"
        );
        assert_eq!(ask(&permissions, Permission::Ask, "files.read").await, Ok(()));
        assert_eq!(ask(&permissions, Permission::Ask, "files.read").await, Ok(()));
        assert!(ask(&permissions, Permission::Ask, "other").await.is_err());
        assert_eq!(operator.asked.lock().unwrap().len(), 4);
    }

    #[tokio::test]
    async fn an_operator_is_told_the_call_with_all_its_arguments() {
        let (permissions, operator) = permissions(&[], vec![Decision::Once]);
        let arguments = json!({"path": "x".repeat(5000)});
        let arguments = arguments.as_object().expect("an object");
        let execution = fixtures::execution("scout", 3);
        let asked = permissions
            .ask(Permission::Ask, "files.read", &call(), arguments, &execution)
            .await;
        assert_eq!(asked, Ok(()));
        let asked = operator.asked.lock().unwrap();
        let told = (&*asked[0].agent, asked[0].execution, &*asked[0].call, &*asked[0].tool);
        assert_eq!(told, ("scout", 3, "call 7", "files.read"));
        assert_eq!(asked[0].arguments, *arguments);
    }

    #[tokio::test(start_paused = true)]
    async fn time_stands_while_an_operator_decides() {
        struct Slow;
        impl Operator for Slow {
            fn ask(&self, _asked: Asked) -> BoxFuture<'_, Answer> {
                Box::pin(async { Answer::Nobody })
            }
            fn permit(&self, _requested: PermissionRequest) -> BoxFuture<'_, Decision> {
                Box::pin(async {
                    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                    Decision::Once
                })
            }
        }
        let permissions = ToolPermissions::new(Arc::new(Slow), []);
        let execution = fixtures::execution("scout", 1);
        let asked = permissions
            .ask(Permission::Ask, "look", &call(), &JsonMap::new(), &execution)
            .await;
        assert_eq!(asked, Ok(()));
        assert_eq!(execution.stopwatch.elapsed(), std::time::Duration::ZERO);
    }

    #[tokio::test]
    async fn always_answers_those_that_wait() {
        let (permissions, operator) = permissions(&[], vec![Decision::Always]);
        let (one, other) = tokio::join!(
            ask(&permissions, Permission::Ask, "look"),
            ask(&permissions, Permission::Ask, "look")
        );
        assert_eq!((one, other), (Ok(()), Ok(())));
        assert_eq!(operator.asked.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn where_nobody_is_there_it_is_denied_and_said_once() {
        let (permissions, _) = permissions(&[], vec![Decision::Nobody, Decision::Nobody]);
        let execution = fixtures::execution("scout", 1);
        for _ in 0..2 {
            let refused = permissions
                .ask(Permission::Ask, "look", &call(), &JsonMap::new(), &execution)
                .await;
            assert!(refused.unwrap_err().contains("denied"));
        }
        let warnings = execution.notes.take().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("--allow-tool look"), "{warnings:?}");
    }
}
