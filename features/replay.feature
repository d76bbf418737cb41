Feature: Replay
  The record answers, every turn is decided again, and the first difference is shown.

  Background:
    Given the ensemble "a.yaml":
      """
      name: talk
      agents:
        - name: counter
          script: count.sh
          dependencies: [{agent_name: judge, feedback: true, condition: "output.go_on"}]
          conversation: {max_turns: 5}
        - name: judge
          script: judge.rhai
          dependencies: [{agent_name: counter, condition: "output.n < 10"}]
          conversation: {max_turns: 5}
        - name: tail
          script: judge.rhai
          dependencies: [{agent_name: counter, condition: "output.n >= 3"}]
      """
    And the file "count.sh":
      """
      echo ran >> ran.txt
      echo "{\"n\": $ENSEMBLE_EXECUTION}"
      """
    And the Rhai script "judge.rhai":
      """
      #{ go_on: execution < 3 }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents      |
      | 1    | counter     |
      | 2    | judge       |
      | 3    | counter     |
      | 4    | judge       |
      | 5    | counter     |
      | 6    | judge, tail |
    When I save what it printed as "saved.json"

  Scenario Outline: A record in each of its forms says the same, and nothing runs
    When I run `ensemble replay <record>`
    Then the exit code is 0
    And stdout says "the same"
    And stdout says "6 turns"
    And the file "ran.txt" holds:
      """
      ran
      ran
      ran
      """
    When I run `ensemble replay <record> --output json`
    Then it ends as "completed" with exit code 0
    And the conversation took 6 turns
    And the final state has "counter.n" = 3

    Examples:
      | record                                |
      | {run}                                 |
      | .ensemble/runs/{run}                  |
      | .ensemble/runs/{run}/journal.jsonl    |
      | saved.json --ensemble a.yaml          |

  Scenario Outline: An edited ensemble diverges where it decides differently
    When in "a.yaml" `<old>` becomes `<new>`
    And I run `ensemble replay {run} --ensemble a.yaml`
    Then the exit code is 5
    And stdout says "diverged in turn <turn>"
    And stdout says "recorded  <recorded>"
    And stdout says "decided   <decided>"
    When I run `ensemble replay saved.json --ensemble a.yaml --output json`
    Then it ends as "diverged" with exit code 5
    And the result has "divergence.turn" = <turn>
    And the result has "divergence.recorded" = "<recorded>"
    And the result has "divergence.decided" = "<decided>"
    And there is one run

    Examples:
      | old           | new              | turn | recorded    | decided                      |
      | output.n < 10 | output.n < 2     | 4    | judge       | the run ends: completed      |
      | output.n >= 3 | output.n >= 2    | 4    | judge       | judge, tail                  |
      | output.n >= 3 | output.n >= 9    | 6    | judge, tail | judge                        |
      | output.go_on  | output.go_on and turn_count < 3 | 5 | counter | the run ends: completed |
      | output.n < 10 | output.n / 0 < 1 | 2    | judge       | the run ends: condition_failed |

  Scenario: The edited ensemble says why a recorded agent does not run
    When in "a.yaml" `output.n < 10` becomes `output.n < 2`
    And I run `ensemble replay {run} --ensemble a.yaml`
    Then the exit code is 5
    And stdout says "judge does not run: condition false on counter: output.n < 2 (output.n = 2)"

  Scenario: A saved conversation in ADR-005's shape
    Given the saved result "adr.json":
      """
      {"conversation_history": [
        {"turn_number": 1, "agent_name": "counter", "input_data": {}, "output_data": {"result": "{\"n\": 1}"}, "execution_time": 0.1, "timestamp": "2025-01-01T00:00:00"},
        {"turn_number": 2, "agent_name": "judge", "input_data": {}, "output_data": {"go_on": true}, "execution_time": 0.1, "timestamp": "2025-01-01T00:00:00"},
        {"turn_number": 3, "agent_name": "counter", "input_data": {}, "output_data": {"result": "{\"n\": 4}"}, "execution_time": 0.1, "timestamp": "2025-01-01T00:00:00"},
        {"turn_number": 4, "agent_name": "judge", "input_data": {}, "output_data": {"result": "{\"go_on\": false}"}, "execution_time": 0.1, "timestamp": "2025-01-01T00:00:00"},
        {"turn_number": 4, "agent_name": "tail", "input_data": {}, "output_data": {}, "execution_time": 0.1, "timestamp": "2025-01-01T00:00:00"}
      ]}
      """
    When I run `ensemble replay adr.json`
    Then the exit code is 2
    And stderr says "--ensemble"
    When I run `ensemble replay adr.json --ensemble a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "n" = 4
    And the final state has "go_on" = false
    When in "a.yaml" `output.n >= 3` becomes `output.n >= 5`
    And I run `ensemble replay adr.json --ensemble a.yaml`
    Then the exit code is 5
    And stdout says "diverged in turn 4"

  Scenario: Chosen agents run for real
    When in "judge.rhai" `execution < 3` becomes `execution < 2`
    And I run `ensemble replay {run} --live judge`
    Then the exit code is 5
    And stdout says "diverged in turn 5"
    And the file "ran.txt" holds:
      """
      ran
      ran
      ran
      """
    When I run `ensemble replay {run} --live counter`
    Then the exit code is 0
    And the file "ran.txt" holds:
      """
      ran
      ran
      ran
      ran
      ran
      ran
      """
    When I run `ensemble replay {run} --live nobody`
    Then the exit code is 2
    And stderr says "nobody"

  Scenario: What is no record is refused
    When I run `ensemble replay a.yaml`
    Then the exit code is 2
    And stderr says "conversation_history"
    When I run `ensemble replay no-such-run`
    Then the exit code is 2
    And stderr says "no-such-run"
