Feature: People are asked
  Answers come from the command line, from the ensemble, from a person, or from the default.

  Background:
    Given the ensemble "a.yaml":
      """
      name: asking
      agents:
        - name: host
          script: host.rhai
          dependencies: [{agent_name: guest, feedback: true}]
          conversation: {max_turns: 3}
        - name: guest
          input: {prompt: "Question {{ host.nr }}?"}
          depends_on: [host]
          conversation: {max_turns: 2}
      """
    And the Rhai script "host.rhai":
      """
      #{ nr: execution, heard: if "guest" in dependencies { dependencies.guest.response } else { "" } }
      """

  Scenario: One answer for every question
    When I run `ensemble run a.yaml --always-answer guest=yes --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "guest" gave "response" = "yes"
    And execution 2 of "guest" gave "response" = "yes"

  Scenario: One answer for the next question
    When I run `ensemble run a.yaml --answer guest=yes --output json`
    Then it ends as "waiting_for_input" with exit code 3
    And execution 1 of "guest" gave "response" = "yes"
    When I run `ensemble run a.yaml --answer guest=yes --answer guest=no --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "guest" gave "response" = "yes"
    And execution 2 of "guest" gave "response" = "no"

  Scenario: A list of answers, by execution
    Given the answers "answers.yaml":
      """
      guest: [first, second]
      """
    When I run `ensemble run a.yaml --answers answers.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "guest" gave "response" = "first"
    And execution 2 of "guest" gave "response" = "second"
    And the final state has "heard" = "second"

  Scenario: When the list is at its end the run waits, and resume takes the answer
    Given the answers "answers.yaml":
      """
      guest: [first]
      """
    When I run `ensemble run a.yaml --answers answers.yaml --output json`
    Then it ends as "waiting_for_input" with exit code 3
    And the agents ran in this order:
      | turn | agents |
      | 1    | host   |
      | 2    | guest  |
      | 3    | host   |
    And the conversation took 3 turns
    When I run `ensemble resume --last --answer guest=second --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents |
      | 1    | host   |
      | 2    | guest  |
      | 3    | host   |
      | 4    | guest  |
      | 5    | host   |
    And execution 1 of "guest" gave "response" = "first"
    And execution 2 of "guest" gave "response" = "second"

  Scenario: A waiting run says what to type next
    When I run `ensemble run a.yaml`
    Then the exit code is 3
    And stderr says "ensemble resume"
    And stderr says "--answer guest="

  Scenario: The other agents of the turn finish first, and the turn stays open
    Given the ensemble "b.yaml":
      """
      name: beside
      agents:
        - name: guest
          input: {prompt: Hm?}
        - name: slow
          script: slow.sh
        - name: after
          script: host.rhai
          depends_on: [guest, slow]
      """
    And the file "slow.sh":
      """
      sleep 0.3
      echo once >> count.txt
      """
    When I run `ensemble run b.yaml --output json`
    Then it ends as "waiting_for_input" with exit code 3
    And the agents ran in this order:
      | turn | agents |
      | 1    | slow   |
    And the conversation took 0 turns
    And the result has "final_state" = {}
    When I run `ensemble resume --last --answer guest=ok --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents      |
      | 1    | guest, slow |
      | 2    | after       |
    And the file "count.txt" holds:
      """
      once
      """

  Scenario: A default answers when nobody is there
    Given in "a.yaml" `{prompt: "Question {{ host.nr }}?"}` becomes `{prompt: "Question?", default: silence}`
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 2 of "guest" gave "response" = "silence"

  Scenario: Responses from a list and from a script
    Given in "a.yaml" `{prompt: "Question {{ host.nr }}?"}` becomes `{prompt: "Question {{ host.nr }}?", responses: [one, two]}`
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 2 of "guest" gave "response" = "two"
    Given in "a.yaml" `responses: [one, two]` becomes `responses: {script: answer.rhai}`
    And the Rhai script "answer.rhai":
      """
      "to " + prompt
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 2 of "guest" gave "response" = "to Question 2?"

  Scenario: An answer must be one of the choices, however it is spelled
    Given in "a.yaml" `{prompt: "Question {{ host.nr }}?"}` becomes `{prompt: "Question?", choices: [Yes, "No"]}`
    When I run `ensemble run a.yaml --always-answer guest=yes --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "guest" gave "response" = "Yes"
    When I run `ensemble run a.yaml --answer guest=perhaps --output json`
    Then the exit code is 2
    And stderr says "`perhaps` is not one of the choices of `guest`: Yes, No"

  Scenario: An answer for somebody who asks nobody is a mistake
    When I run `ensemble run a.yaml --answer gest=yes`
    Then the exit code is 2
    And stderr says "gest"
    And stderr says "guest"
    And no run was started
    When I run `ensemble run a.yaml --answer guest`
    Then the exit code is 2
    And stderr says "ADDRESS=TEXT"
