Feature: Failures and outcomes
  Nothing that failed is reported as success, and every outcome has its exit code.

  Background:
    Given the Rhai script "fine.rhai":
      """
      #{ fine: agent_name, saw: dependencies, failed: failures, news: news }
      """

  Scenario Outline: Every kind of failure is told apart and keeps its cause
    Given the ensemble "a.yaml":
      """
      name: failing
      agents:
        - <agent>
      model_profiles:
        down: {provider: simulated, replies: [{error: no such luck}]}
        text: {provider: simulated, replies: [just text]}
      """
    And the file "exit.sh":
      """
      echo details >&2; exit 3
      """
    And the file "signal.sh":
      """
      kill -SEGV $$
      """
    And the file "hang.sh":
      """
      sleep 60
      """
    And the file "flood.sh":
      """
      yes
      """
    And the file "report.sh":
      """
      echo '{"success": false, "error": "it was reported"}'
      """
    And the Rhai script "throw.rhai":
      """
      throw "thrown away"
      """
    And the Rhai script "endless.rhai":
      """
      loop { }
      """
    And the file "plain.txt":
      """
      no program
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "broken" failed (<kind>) saying "<cause>"
    And the result has "final_state" = {}
    And it took less than 30 seconds

    Examples:
      | agent                                                                          | kind             | cause            |
      | {name: broken, script: exit.sh}                                                               | exit             | exit code 3      |
      | {name: broken, script: exit.sh}                                                               | exit             | details          |
      | {name: broken, script: endless.rhai}                                                          | exit             | operations       |
      | {name: broken, script: signal.sh}                                                             | signal           | SIGSEGV          |
      | {name: broken, script: hang.sh, timeout_seconds: 0.3}                          | timeout          | 0.3 s            |
      | {name: broken, script: flood.sh}                                                              | output_too_large | bytes            |
      | {name: broken, script: report.sh}                                                             | reported         | it was reported  |
      | {name: broken, script: throw.rhai}                                                            | reported         | thrown away      |
      | {name: broken, model_profile: down, prompt: x}                                 | model            | no such luck     |
      | {name: broken, script: exit.sh, output_schema: {type: object}}                 | exit             | exit code 3      |
      | {name: broken, model_profile: text, prompt: x, output_schema: {required: [a]}} | schema           | a                |

  Scenario: A failure starts its failure route, which finds error and kind, and is handled
    Given the ensemble "a.yaml":
      """
      name: routes
      agents:
        - name: broken
          script: broken.rhai
        - name: on_success
          script: fine.rhai
          depends_on: [broken]
        - name: on_failure
          script: fine.rhai
          dependencies: [{agent_name: broken, on: failure, condition: "output.kind == 'reported' and 'fire' in output.error"}]
        - name: on_any
          script: fine.rhai
          dependencies: [{agent_name: broken, on: any}]
      """
    And the Rhai script "broken.rhai":
      """
      throw "on fire"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents             |
      | 1    | broken             |
      | 2    | on_failure, on_any |
    And execution 1 of "on_failure" gave "failed.broken.kind" = "reported"
    And execution 1 of "on_any" gave "failed.broken.kind" = "reported"
    And the final state has no "broken"
    And execution 1 of "on_any" gave "news" = ["broken"]
    And "on_success" never ran: waits for broken, whose latest execution failed

  Scenario: The next failure needs handling again
    Given the ensemble "a.yaml":
      """
      name: again
      agents:
        - name: flaky
          script: flaky.rhai
          dependencies: [{agent_name: medic, feedback: true}]
          conversation: {max_turns: 2}
        - name: medic
          script: fine.rhai
          dependencies: [{agent_name: flaky, on: failure, max_executions: 1}]
          conversation: {max_turns: 5}
      """
    And the Rhai script "flaky.rhai":
      """
      throw "failure " + execution
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the agents ran in this order:
      | turn | agents |
      | 1    | flaky  |
      | 2    | medic  |
      | 3    | flaky  |
    And the result has "detail" = "flaky failed: flaky.rhai:1:1: failure 2; `medic` reached `max_executions: 1` while it still had work"

  Scenario: A first execution over a feedback edge handles no failure
    Given the ensemble "a.yaml":
      """
      name: unhandled
      agents:
        - name: broken
          script: broken.rhai
        - name: clock
          script: fine.rhai
        - name: medic
          script: fine.rhai
          depends_on: [clock]
          dependencies: [{agent_name: broken, on: failure, feedback: true}]
      """
    And the Rhai script "broken.rhai":
      """
      throw "on fire"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the result has "agent_execution_count.medic" = 1

  Scenario: A requested execution handles no failure
    Given the ensemble "a.yaml":
      """
      name: unhandled
      agents:
        - name: broken
          script: broken.rhai
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true}
        - name: medic
          script: asked.rhai
          dependencies: [{agent_name: broken, on: failure}]
      """
    And the Rhai script "broken.rhai":
      """
      throw "on fire"
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: [#{ target_agent: "medic" }] }
      """
    And the Rhai script "asked.rhai":
      """
      #{ by: request.from }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "medic" gave "by" = "boss"

  Scenario: on_error continue changes the outcome only
    Given the ensemble "a.yaml":
      """
      name: tolerant
      agents:
        - name: broken
          script: broken.rhai
          on_error: continue
        - name: beside
          script: fine.rhai
      """
    And the Rhai script "broken.rhai":
      """
      throw "on fire"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "broken" failed (reported) saying "on fire"
    And the execution counts are:
      | agent  | count |
      | broken | 1     |
      | beside | 1     |

  Scenario: A later success does not make an earlier failure good
    Given the ensemble "a.yaml":
      """
      name: recovers
      agents:
        - name: flaky
          script: flaky.rhai
          conversation: {max_turns: 3, trigger: every_turn}
      """
    And the Rhai script "flaky.rhai":
      """
      if execution < 3 { throw "not yet" } else { #{ done: true } }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 2 of "flaky" failed (reported) saying "not yet"
    And execution 3 of "flaky" gave "done" = true

  Scenario: Retries are attempts of one execution
    Given the ensemble "a.yaml":
      """
      name: retries
      agents:
        - name: flaky
          script: flaky.sh
          retry: {max_attempts: 3, delay_seconds: 0.01}
      """
    And the file "flaky.sh":
      """
      echo "$ENSEMBLE_EXECUTION.$ENSEMBLE_ATTEMPT in turn $ENSEMBLE_TURN" >> tries.txt
      test "$ENSEMBLE_ATTEMPT" = 3 && echo '{"done": true}' || exit 1
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "flaky" has "attempt" = 3
    And the execution counts are:
      | agent | count |
      | flaky | 1     |
    And the file "tries.txt" holds:
      """
      1.1 in turn 1
      1.2 in turn 1
      1.3 in turn 1
      """
    When in "a.yaml" `max_attempts: 3` becomes `max_attempts: 2`
    And I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "flaky" has "attempt" = 2

  Scenario: The attempt after a failed one asks its model on, and does not begin anew
    Given the ensemble "a.yaml":
      """
      name: again
      agents:
        - {name: a, model_profile: p, prompt: x, retry: {max_attempts: 2}}
      model_profiles:
        p: {provider: simulated, replies: [{error: down}, fine, too far]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "fine"
    And execution 1 of "a" has "attempt" = 2

  Scenario: A reply that was sent back as often as may be is not tried once more
    Given the ensemble "a.yaml":
      """
      name: bad
      agents:
        - {name: a, model_profile: p, prompt: x, output_schema: {required: [n]}, retry: {max_attempts: 2}}
      model_profiles:
        p: {provider: simulated, replies: [bad, worse, '{"n": 1}']}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "a" has "attempt" = 1
    And execution 1 of "a" has "usage.requests" = 2

  Scenario: A failure counts toward max_turns
    Given the ensemble "a.yaml":
      """
      name: counted
      agents:
        - name: broken
          script: broken.rhai
          conversation: {max_turns: 2, trigger: every_turn}
      """
    And the Rhai script "broken.rhai":
      """
      throw "on fire"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the execution counts are:
      | agent  | count |
      | broken | 2     |

  Scenario: A failed agent that has succeeded before leaves its earlier output in place
    Given the ensemble "a.yaml":
      """
      name: keeps
      agents:
        - name: source
          script: source.rhai
          conversation: {max_turns: 2, trigger: every_turn}
          on_error: continue
        - name: reader
          script: fine.rhai
          dependencies: [{agent_name: source, on: any}]
          conversation: {max_turns: 2}
      """
    And the Rhai script "source.rhai":
      """
      if execution == 1 { #{ value: 42 } } else { throw "gone" }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "source" = {"value": 42}
    And execution 1 of "reader" gave "saw.source.value" = 42
    And execution 2 of "reader" gave "saw.source.value" = 42
    And execution 2 of "reader" gave "failed.source.kind" = "reported"

  Scenario: A join does not start with the output of an earlier round after a failure
    Given the ensemble "a.yaml":
      """
      name: press
      agents:
        - {name: draft, script: fine.rhai, conversation: {max_turns: 2}, dependencies: [{agent_name: check, feedback: true, condition: executions.check < 2}]}
        - {name: facts, script: facts.rhai, on_error: continue, depends_on: [draft], conversation: {max_turns: 2}}
        - {name: check, script: fine.rhai, depends_on: [draft], conversation: {max_turns: 2}}
        - {name: publish, script: fine.rhai, depends_on: [facts], dependencies: [{agent_name: check, condition: executions.check == 2}]}
      """
    And the Rhai script "facts.rhai":
      """
      if execution == 1 { #{ facts: 1 } } else { throw "no source" }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "facts.facts" = 1
    And "publish" never ran: waits for facts, whose latest execution failed

  Scenario: A failed script leaves its exit code and the ends of its streams
    Given the ensemble "a.yaml":
      """
      name: tested
      agents:
        - {name: tests, script: tests.sh}
        - name: mend
          script: mend.rhai
          dependencies: [{agent_name: tests, on: failure, condition: "output.exit_code == 3 and 'assert' in output.stdout"}]
      """
    And the file "tests.sh":
      """
      echo "assert failed"; echo "1 error" >&2; exit 3
      """
    And the Rhai script "mend.rhai":
      """
      failures.tests
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "mend" = {"error": "the script ended with exit code 3; stdout ends with:\nassert failed\nstderr ends with:\n1 error", "kind": "exit", "exit_code": 3, "stdout": "assert failed\n", "stderr": "1 error\n"}
    And execution 1 of "tests" has "output_data.stdout" = "assert failed\n"

  Scenario: A failure that was repaired is no failure any more, and the output is there
    Given the ensemble "a.yaml":
      """
      name: repaired
      agents:
        - name: flaky
          script: flaky.rhai
          conversation: {max_turns: 2, trigger: every_turn}
        - name: clock
          script: fine.rhai
          conversation: {max_turns: 3, trigger: every_turn}
        - name: medic
          script: fine.rhai
          dependencies:
            - {agent_name: flaky, on: failure, requires_all: false}
            - {agent_name: clock, requires_all: false}
          conversation: {max_turns: 3}
      """
    And the Rhai script "flaky.rhai":
      """
      if execution == 1 { throw "once" } else { #{ well: true } }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "medic" gave "failed.flaky.error" = "flaky.rhai:1:21: once"
    And execution 2 of "medic" gave "failed" = {}
    And execution 2 of "medic" gave "saw.flaky" = {"well": true}
    And execution 2 of "medic" has "input_data.dependencies" = {"clock": 2, "flaky": 2}

  Scenario: A limit never hides a failure
    Given the ensemble "a.yaml":
      """
      name: hidden
      agents:
        - name: broken
          script: broken.rhai
        - name: ticker
          script: fine.rhai
          conversation: {max_turns: 9, trigger: every_turn}
      conversation_limits: {max_total_turns: 3}
      """
    And the Rhai script "broken.rhai":
      """
      throw "on fire"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the conversation took 3 turns

  Scenario: At a limit, a condition that errs comes first
    Given the ensemble "a.yaml":
      """
      name: hidden
      agents:
        - name: ticker
          script: fine.rhai
          conversation: {max_turns: 9, trigger: every_turn}
        - name: asks
          script: fine.rhai
          dependencies: [{agent_name: ticker, condition: "turn_count == 3 and 1 / 0 == 1"}]
      conversation_limits: {max_total_turns: 3}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "condition_failed" with exit code 1

  Scenario Outline: A condition without an answer ends the run and shows place and values
    Given the ensemble "a.yaml":
      """
      name: wrong
      agents:
        - name: one
          script: one.rhai
        - name: two
          script: fine.rhai
          dependencies:
            - agent_name: one
              condition: "<condition>"
      """
    And the Rhai script "one.rhai":
      """
      #{ count: 3, word: "abc", list: [1], yes: true }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "condition_failed" with exit code 1
    And the agents ran in this order:
      | turn | agents |
      | 1    | one    |
    And stderr says "a.yaml:9:"
    And stderr says "<says>"

    Examples:
      | condition                       | says    |
      | output.count / 0 > 1            | 3       |
      | output.word < 3                 | abc     |
      | output.missing.deeper           | missing |
      | output.list[7] == 1             | 7       |
      | output.yes > 0                  | true    |
      | 9223372036854775807 + 1 > 0     | too large|
      | output.yes + 1 == 2             | true    |
      | output.list < [2]               | list    |

  Scenario: Two who failed, and the first declared is named
    Given the ensemble "a.yaml":
      """
      name: two
      agents:
        - {name: b, script: broken.rhai}
        - {name: a, script: broken.rhai}
      """
    And the Rhai script "broken.rhai":
      """
      throw agent_name + " is on fire"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the result has "detail" = "b failed: broken.rhai:1:1: b is on fire"

  Scenario: One failure that nobody handled is the outcome, whatever comes after it
    Given the ensemble "a.yaml":
      """
      name: again
      agents:
        - name: flaky
          script: flaky.rhai
          conversation: {max_turns: 3, trigger: every_turn}
      """
    And the Rhai script "flaky.rhai":
      """
      if execution > 1 { throw "no luck" }
      #{ nr: execution }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the result has "detail" = "flaky failed: flaky.rhai:1:20: no luck"
    And the execution counts are:
      | agent | count |
      | flaky | 3     |
    When I run `ensemble run a.yaml --then "more" --then "it's all"`
    Then the exit code is 1
    And stderr says "3 executions, 2 failed"
    And stderr says "run it again with: ensemble rerun"
    And stderr says "--from flaky@2"
    And stderr says "message not added, because the run did not complete: more"
    And stderr says "message not added, because the run did not complete: 'it'\''s all'"

  Scenario: A failure that may be is counted
    Given the ensemble "a.yaml":
      """
      name: lenient
      agents:
        - {name: a, script: broken.rhai, on_error: continue}
        - {name: b, script: fine.rhai}
      """
    And the Rhai script "broken.rhai":
      """
      throw "no"
      """
    When I run `ensemble run a.yaml`
    Then the exit code is 0
    And stderr says "completed"
    And stderr says "2 executions, 1 failed"
    When I run `ensemble runs show`
    Then stdout says "2 executions, 1 failed"
    When I run `ensemble runs list`
    Then stdout says "executions 2 (1 failed)"

  Scenario: A script that wants a person where there is no terminal is told how one is asked
    Given the ensemble "a.yaml":
      """
      name: asks
      agents: [{name: asker, script: "echo 'cannot open /dev/tty: No such device or address' >&2; exit 2", on_error: continue}]
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "asker" failed (exit) saying "a script cannot read the terminal: ask the question in an agent with `input:`"
    And execution 1 of "asker" failed (exit) saying "/dev/tty"
