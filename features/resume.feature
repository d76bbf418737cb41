Feature: Resume
  A run goes on from its journal; what has finished is not repeated.

  Scenario: A run that has ended prints its result again
    Given the ensemble "a.yaml":
      """
      name: over
      agents:
        - {name: it, script: it.sh}
      """
    And the file "it.sh":
      """
      echo ran >> ran.txt
      echo '{"a": 1}'
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    When I run `ensemble resume {run} --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "a" = 1
    And the file "ran.txt" holds:
      """
      ran
      """
    When I run `ensemble runs export {run}`
    Then it ends as "completed" with exit code 0

  Scenario: The ensemble as it was when the run started goes on, whatever became of the file
    Given the ensemble "a.yaml":
      """
      name: waits
      agents:
        - {name: guest, input: {prompt: Hm?}}
        - {name: after, script: after.rhai, depends_on: [guest]}
      """
    And the Rhai script "after.rhai":
      """
      #{ heard: dependencies.guest.response }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "waiting_for_input" with exit code 3
    When in "a.yaml" `name: after` becomes `name: changed`
    And I run `ensemble resume {run} --answer guest=hello --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "after.heard" = "hello"

  Scenario: A beginning of the id is enough, an unknown one is an error
    Given the ensemble "a.yaml":
      """
      name: over
      agents:
        - {name: it, script: "true"}
      """
    When I run `ensemble run a.yaml`
    Then the exit code is 0
    When I run `ensemble resume {ru} --output json`
    Then it ends as "completed" with exit code 0
    When I run `ensemble resume nope`
    Then the exit code is 2
    And stderr says "nope"
    When I run `ensemble runs list --json`
    Then the exit code is 0
    And stdout says "completed"
    When I run `ensemble runs show {run}`
    Then the exit code is 0
    And stdout says "turn 1"
    When I run `ensemble runs rm {run}`
    Then the exit code is 0
    And no run was started
    When I run `ensemble resume --last`
    Then the exit code is 2
