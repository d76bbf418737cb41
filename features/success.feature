Feature: Success
  Exit code 0 means that the run reached its goal.

  Background:
    Given the Rhai script "verdict.rhai":
      """
      #{ approved: execution >= 2, nr: execution }
      """
    And the Rhai script "no.rhai":
      """
      throw "the disk is full"
      """
    And the ensemble "a.yaml":
      """
      name: goal
      success: outputs.critic.approved and executions.critic < 9
      result: {nr: outputs.critic.nr}
      agents:
        - name: critic
          script: verdict.rhai
          conversation: {max_turns: 1, trigger: every_turn}
      """

  Scenario: A run whose success is false is unsuccessful, and says what it read
    When I run `ensemble run a.yaml --output json`
    Then it ends as "unsuccessful" with exit code 1
    And the result has "success" = false
    And the result has "detail" = "success is false: outputs.critic.approved and executions.critic < 9 (outputs.critic.approved = false, executions.critic = 1)"
    And the result has "result" = {"nr": 1}
    When I run `ensemble run a.yaml`
    Then the exit code is 1
    And stderr says "✗ unsuccessful: success is false: outputs.critic.approved"

  Scenario: A run whose success is true has exit code 0
    When in "a.yaml" `max_turns: 1` becomes `max_turns: 2`
    And I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "success" = true

  Scenario: A success that cannot be evaluated
    When in "a.yaml" `executions.critic < 9` becomes `outputs.critic.nr > 'x'`
    And in "a.yaml" `max_turns: 1` becomes `max_turns: 2`
    And I run `ensemble run a.yaml --output json`
    Then it ends as "condition_failed" with exit code 1
    And the result has "success" = false
    And stderr says "the expression cannot be evaluated"
    And stderr says "a.yaml:2:"

  Scenario: Success is checked before a run
    When in "a.yaml" `outputs.critic.approved and` becomes `output.ok and outputs.kritik.ok and`
    And I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "unknown variable `output`"
    When in "a.yaml" `output.ok and outputs.kritik.ok and` becomes `outputs.kritik.ok and`
    And I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "kritik"
    When in "a.yaml" `outputs.kritik.ok and` becomes `approved(1) and`
    And I run `ensemble validate a.yaml`
    Then the exit code is 2

  Scenario: A recorded run that was unsuccessful is replayed, listed, continued and forked
    When I run `ensemble run a.yaml`
    Then the exit code is 1
    When I run `ensemble replay {run}`
    Then the exit code is 0
    When I run `ensemble resume {run} --output json`
    Then it ends as "unsuccessful" with exit code 1
    When I run `ensemble runs list`
    Then stdout says "unsuccessful"
    When I run `ensemble runs show {run} --output json`
    Then the result has "success" = false
    And the result has "completion_reason" = "unsuccessful"
    When I run `ensemble fork {run} --at-turn 1 --output json`
    Then it ends as "unsuccessful" with exit code 1
    When I run `ensemble continue {run} "once more" --output json`
    Then it ends as "completed" with exit code 0
    And the result has "success" = true

  Scenario: An edited success is decided again in a replay
    When I run `ensemble run a.yaml`
    And in "a.yaml" `outputs.critic.approved and ` becomes ``
    And I run `ensemble replay {run} --ensemble a.yaml`
    Then the exit code is 5
    And stdout says "unsuccessful"
    And stdout says "completed"

  Scenario: A required agent that never runs
    Given the ensemble "b.yaml":
      """
      name: release
      success: "False"
      agents:
        - {name: tests, script: no.rhai, on_error: continue}
        - {name: deploy, script: verdict.rhai, depends_on: [tests], required: true}
        - {name: note, script: verdict.rhai, dependencies: [{agent_name: tests, on: failure}]}
      """
    When I run `ensemble run b.yaml --output json`
    Then it ends as "unsuccessful" with exit code 1
    And the result has "detail" = "`deploy` is required and never ran: waiting for `tests`, whose latest execution failed"
    When in "b.yaml" `tests, script: no.rhai, on_error: continue` becomes `tests, script: no.rhai, on_error: fail`
    And in "b.yaml" `on: failure` becomes `on: success`
    And I run `ensemble run b.yaml`
    Then the exit code is 1
    And stdout says "the run will end as `agent_failed`"
    And stderr says "✗ agent_failed: tests failed: "

  Scenario: A required agent also counts at a limit
    Given the ensemble "b.yaml":
      """
      name: never
      agents:
        - {name: spin, script: verdict.rhai, conversation: {max_turns: 9, trigger: every_turn}}
        - {name: deploy, script: verdict.rhai, required: true, dependencies: [{agent_name: spin, condition: output.nr > 5}]}
      conversation_limits: {max_total_turns: 2}
      """
    When I run `ensemble run b.yaml --output json`
    Then it ends as "unsuccessful" with exit code 1
    And the result has "detail" = "`deploy` is required and never ran: condition false on spin: output.nr > 5 (output.nr = 2); max_total_turns was reached: 2"

  Scenario: A limit that is the natural end of a conversation
    Given the ensemble "b.yaml":
      """
      name: clock
      success: "True"
      agents:
        - {name: tick, script: verdict.rhai, conversation: {max_turns: 9, trigger: every_turn}}
      conversation_limits: {max_total_turns: 3, on_limit: succeed}
      """
    When I run `ensemble run b.yaml --output json`
    Then it ends as "max_total_turns" with exit code 0
    And the result has "success" = true
    When in "b.yaml" `success: "True"` becomes `success: outputs.tick.nr > 7`
    And I run `ensemble run b.yaml --output json`
    Then it ends as "unsuccessful" with exit code 1
    When in "b.yaml" `on_limit: succeed` becomes `on_limit: fail`
    And I run `ensemble run b.yaml --output json`
    Then it ends as "max_total_turns" with exit code 4
    And the result has "success" = false

  Scenario: A failure that stops the run
    Given the ensemble "b.yaml":
      """
      name: stops
      agents:
        - {name: tests, script: no.rhai, on_error: stop}
        - {name: beside, script: verdict.rhai, conversation: {max_turns: 5, trigger: every_turn}}
        - {name: cleanup, script: verdict.rhai, dependencies: [{agent_name: tests, on: failure, condition: 1 / 0 > 1}]}
      """
    When I run `ensemble run b.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the conversation took 1 turn
    When I run `ensemble run b.yaml`
    Then the exit code is 1
    And stderr says "✗ agent_failed: tests failed and stops the run: "
    And stdout says "the run ends as `agent_failed` after this turn"
    When I run `ensemble replay {run}`
    Then the exit code is 0
    When I run `ensemble validate b.yaml`
    Then stdout says "`cleanup` can never handle a failure of `tests`, because such a failure stops the run"

  Scenario: An open question keeps the turn open before a failure stops the run
    Given the ensemble "b.yaml":
      """
      name: stops
      agents:
        - {name: tests, script: no.rhai, on_error: stop}
        - {name: ask, input: {prompt: Well?}}
        - {name: after, script: verdict.rhai, depends_on: [ask]}
      """
    When I run `ensemble run b.yaml --output json`
    Then it ends as "waiting_for_input" with exit code 3
    When I run `ensemble resume {run} --answer ask=yes --output json`
    Then it ends as "agent_failed" with exit code 1
    And "after" never ran: the run ended first

  Scenario: A nested run that does not reach its goal fails its agent
    Given the ensemble "outer.yaml":
      """
      name: outer
      agents:
        - {name: inner, ensemble: a.yaml, on_error: continue}
      """
    When I run `ensemble run outer.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "inner" failed (reported) saying "the nested run ended as unsuccessful: success is false: outputs.critic.approved"

  Scenario: All conversations show the ends without success
    When I run `ensemble check a.yaml`
    Then the exit code is 0
    And stdout says "ends without success"
    And stdout says "unsuccessful (success is false: outputs.critic.approved and executions.critic < 9)"
    And stdout says "since outputs.critic.approved is false (success of the ensemble)"
